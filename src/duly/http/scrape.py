"""The port of a process that has no API: its metrics, and nothing else."""

from __future__ import annotations

import hmac

from starlette.types import Receive, Scope, Send

from duly.http.metrics import METRICS
from duly.usecases.metrics import Metrics
from duly.wire.exposition import exposition, media_for


class Scrape:
    """One path, by GET, for whoever has the token if there is one."""

    def __init__(self, metrics: Metrics, token: str | None) -> None:
        self._metrics = metrics
        self._token = None if token is None else f"Bearer {token}".encode()

    def close(self) -> None:
        """Nothing is open for long."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        if self._token is not None and not hmac.compare_digest(headers.get(b"authorization", b""), self._token):
            await _answer(send, 401, b"", [(b"www-authenticate", b"Bearer")])
        elif scope.get("raw_path") != METRICS.encode():
            await _answer(send, 404, b"")
        elif scope["method"] not in ("GET", "HEAD"):
            await _answer(send, 405, b"", [(b"allow", b"GET, HEAD")])
        else:
            media = media_for(headers.get(b"accept", b"").decode("latin-1"))
            text = exposition(await self._metrics.gather(), media).encode()
            await _answer(send, 200, text if scope["method"] == "GET" else b"", [(b"content-type", media.encode())], len(text))


async def _answer(
    send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None, length: int | None = None
) -> None:
    about = [(b"content-length", b"%d" % (len(body) if length is None else length)), (b"x-content-type-options", b"nosniff")]
    about += [(b"cache-control", b"no-store"), *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": about})
    await send({"type": "http.response.body", "body": body})
