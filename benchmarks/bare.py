"""What durable submits are compared with: bare inserts of the same rows, group-committed, with nothing around them.

    python -m benchmarks.bare URL       # the same behind the barest HTTP server: prints where it listens

Whoever inserts while a commit is under way shares the next one, up to a bound. No payload is checked, nothing is announced and nothing is
recorded. The tables are Duly's own, with all their indexes, and durability is the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sqlite3
import sys
import time
from collections.abc import AsyncIterator
from typing import Protocol
from uuid import UUID

import asyncpg
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from duly.adapters.system.clock import system_entropy
from duly.domain.ids import new_ids

LARGEST = 500
JOB = UUID(int=1)

POSTGRES = """
WITH submitted AS (
    INSERT INTO duly.executions (id, job_id, job_version, tenant, route, trigger, due_at, rank, created_at, payload)
    SELECT id, $3, 1, 1, 1, 1, $4, $4, $4, payload FROM unnest($1::uuid[], $2::json[]) AS f (id, payload)
)
INSERT INTO duly.ready (route, tenant, rank, id, attempt, failures) SELECT 1, 1, $4, id, 1, 0 FROM unnest($1::uuid[]) AS f (id)
"""
HEADER = """INSERT INTO executions (id, job_id, job_version, tenant, route, trigger, due_at, rank, created_at, payload)
            VALUES (?, ?, 1, 1, 1, 1, ?3, ?3, ?3, ?4)"""
READY = "INSERT INTO ready (route, tenant, rank, id, attempt, failures) VALUES (1, 1, ?, ?, 1, 0)"


class Writer(Protocol):
    """One connection."""

    async def write(self, ids: list[UUID], payloads: list[str], now: int) -> None:
        """All of it in one transaction, durable when this returns."""


class OnPostgres:
    """One statement is one transaction."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def write(self, ids: list[UUID], payloads: list[str], now: int) -> None:
        await self._connection.execute(POSTGRES, ids, payloads, JOB, now)


class OnSqlite:
    """In a thread, as the file blocks."""

    def __init__(self, file: sqlite3.Connection) -> None:
        self._file = file

    async def write(self, ids: list[UUID], payloads: list[str], now: int) -> None:
        await asyncio.to_thread(self._write, ids, payloads, now)

    def _write(self, ids: list[UUID], payloads: list[str], now: int) -> None:
        with self._file:
            self._file.executemany(HEADER, [(id.bytes, JOB.bytes, now, payload) for id, payload in zip(ids, payloads, strict=True)])
            self._file.executemany(READY, [(now, id.bytes) for id in ids])


class Inserts:
    """Callers that come at once share a commit."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def insert(self, payload: str) -> None:
        """One row of each table, durable when this returns."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((payload, done))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        await done

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:LARGEST], self._waiting[LARGEST:]
            now = time.time_ns() // 1000
            await self._writer.write(new_ids(len(batch), now, system_entropy), [payload for payload, _ in batch], now)
            for _, done in batch:
                done.set_result(None)


@contextlib.asynccontextmanager
async def inserts(url: str) -> AsyncIterator[Inserts]:
    """Into the store of this URL, which Duly has made."""
    if url.startswith("sqlite:///"):
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"), check_same_thread=False)) as file:
            file.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000;")
            yield Inserts(OnSqlite(file))
        return
    connection = await asyncpg.connect(url)
    try:
        yield Inserts(OnPostgres(connection))
    finally:
        await connection.close()


class Body(msgspec.Struct):
    """What is sent: the same as to Duly."""

    payload: msgspec.Raw


def application(url: str) -> Starlette:
    """One route: decode, insert, answer."""
    into: Inserts | None = None
    decoder = msgspec.json.Decoder(Body)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        nonlocal into
        async with inserts(url) as into:
            yield

    async def submit(request: Request) -> Response:
        assert into is not None
        body = decoder.decode(await request.body())
        await into.insert(bytes(body.payload).decode())
        return Response(b'{"items":[]}', status_code=201, media_type="application/json")

    return Starlette(routes=[Route("/{path:path}", submit, methods=["POST"])], lifespan=lifespan)


def main() -> None:
    """Serve until a signal."""
    listener = socket.create_server(("127.0.0.1", 0))
    print("http://{}:{}".format(*listener.getsockname()), flush=True)
    uvicorn.Server(uvicorn.Config(application(sys.argv[1]), log_level="warning", access_log=False)).run(sockets=[listener])


if __name__ == "__main__":
    main()
