"""The HTTP server: uvicorn inside somebody else's event loop. Signals, logging and lifecycles belong to the composer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Generator

import uvicorn

from duly.http.app import Api
from duly.http.connection import Connection
from duly.http.scrape import Scrape

logger = logging.getLogger("duly.http")

# How long requests under way may take once the server is told to stop.
GRACE_SECONDS = 5
KEEP_ALIVE_SECONDS = 75


class ApiServer(uvicorn.Server):
    """Serves an API until it is told to stop. Port 0 takes a free one; `port` and `url` name it once it is started."""

    def __init__(self, api: Api | Scrape, *, host: str = "127.0.0.1", port: int = 0, grace: int = GRACE_SECONDS) -> None:
        self._api = api
        self._listening = asyncio.Event()
        super().__init__(
            uvicorn.Config(
                api,
                host=host,
                port=port,
                http=Connection,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=grace,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals alone: embedded, they are not this server's to take."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then let whoever waits know."""
        await super().startup(sockets)
        self._listening.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End open streams first: they would hold the server for its whole grace."""
        self._api.close()
        await super().shutdown(sockets)

    @property
    def port(self) -> int:
        """The port that is bound; the one asked for before it is."""
        for server in getattr(self, "servers", ()):
            for listener in server.sockets:
                return int(listener.getsockname()[1])
        return self.config.port

    @property
    def url(self) -> str:
        """Where it can be reached from this machine."""
        host = self.config.host
        if host in ("", "0.0.0.0", "::"):  # noqa: S104 (recognised, not bound)
            host = "127.0.0.1"
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    async def listening(self) -> None:
        """Wait until the port is bound."""
        await self._listening.wait()

    async def serve_until(self, stop: asyncio.Event) -> None:
        """Listen and serve until `stop` is set, then finish what is under way, within the grace.

        Raises OSError when the port cannot be bound.
        """
        listener = self._bind()
        serving = asyncio.ensure_future(self.serve([listener]))
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            self.should_exit = True
            await serving

    def _bind(self) -> socket.socket:
        """Bind here, because uvicorn ends the whole process when it cannot."""
        host, port = self.config.host, self.config.port
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.set_inheritable(False)
        except OSError:
            listener.close()
            raise
        return listener
