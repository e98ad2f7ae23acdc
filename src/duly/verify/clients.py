"""The clients of a test: they ask the API for things, and write down what they asked and what came back.

Every call is `ok` (it was done), `fail` (it was not) or `info` (nobody knows: the answer was lost, or the server did not know either).
A client does one thing at a time, so that what it reads can be held against what it was told before.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from duly.verify.history import Call, Status

TIMEOUT = 8.0
_NOT_SENT = (ConnectionRefusedError,)


class Client:
    """One client with a way to each API node. It goes on with the next one when one does not answer."""

    def __init__(self, name: str, ports: list[int], key: str, threads: ThreadPoolExecutor) -> None:
        self.name = name
        self.calls: list[Call] = []
        self._ports = ports
        self._key = key
        self._threads = threads

    async def ask(
        self,
        op: str,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        job: str | None = None,
        key: str | None = None,
        noted: dict[str, Any] | None = None,
    ) -> Call:
        """Ask once, and note it. `noted` stands in the log in place of the body."""
        call = Call(
            op=op,
            status="info",
            invoked_at=_now(),
            ended_at=0,
            client=self.name,
            job=job,
            key=key,
            body=noted if noted is not None else body or {},
        )
        status, answer = await asyncio.get_running_loop().run_in_executor(self._threads, self._send, method, path, body, key)
        call.status, call.answer, call.ended_at = status, answer, _now()
        if status == "info":
            self._ports.append(self._ports.pop(0))
        if op.startswith("job."):
            call.job = call.job or answer.get("jobId")
        if "executionId" in answer:
            call.runs = [answer["executionId"]]
        elif op == "run.enqueue":
            call.runs = [item["executionId"] for item in answer.get("items", ())]
        self.calls.append(call)
        return call

    async def ask_until_known(self, op: str, method: str, path: str, body: dict[str, Any], *, key: str, job: str | None = None) -> Call:
        """Ask, and with the same key again while nobody knows whether it was done."""
        call = await self.ask(op, method, path, body, key=key, job=job)
        for _ in range(20):
            if call.status != "info":
                break
            await asyncio.sleep(0.5)
            call = await self.ask(op, method, path, body, key=key, job=job)
        return call

    async def read(self, path: str) -> dict[str, Any] | None:
        """Read something that is not noted; None when it cannot be read now."""
        status, answer = await asyncio.get_running_loop().run_in_executor(self._threads, self._send, "GET", path, None, None)
        if status == "info":
            self._ports.append(self._ports.pop(0))
        return answer if status == "ok" else None

    def _send(self, method: str, path: str, body: Any, key: str | None) -> tuple[Status, dict[str, Any]]:
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        connection = http.client.HTTPConnection("127.0.0.1", self._ports[0], timeout=TIMEOUT)
        with contextlib.closing(connection):
            try:
                connection.connect()
            except _NOT_SENT:
                return "fail", {}
            except OSError:
                return "info", {}
            try:
                connection.request(method, path, None if body is None else json.dumps(body), headers)
                response = connection.getresponse()
                answer = json.loads(response.read() or b"{}")
            except (OSError, http.client.HTTPException, ValueError):
                return "info", {}
        if response.status < 300:
            return "ok", answer
        # A refusal says that nothing was done; a server in trouble does not know.
        return ("fail" if response.status < 500 else "info"), {"status": response.status, "code": answer.get("code")}


def _now() -> int:
    return time.time_ns() // 1000
