"""A ClickHouse server, through its own client: records go in, questions are asked. Every call runs in a thread, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error

from duly.adapters.clickhouse.columns import NAMES, table, values_of
from duly.adapters.clickhouse.queries import Answer, Asked, for_clickhouse
from duly.domain.errors import Invalid, Unavailable
from duly.domain.records import Record

TABLE = "duly_executions"
CONNECT_SECONDS = 5
ANSWER_SECONDS = 60
PORTS = {"clickhouse": 8123, "clickhouses": 8443}
_EXAMPLE = "For example clickhouse://user:password@host:8123/database, or clickhouses:// with TLS."


@dataclass(frozen=True, slots=True)
class Address:
    """Where a ClickHouse is."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    secure: bool

    def connect(self) -> Client:
        """Raises what the client raises when it is away."""
        return clickhouse_connect.get_client(
            host=self.host,
            port=self.port,
            username=self.user,
            password=self.password,
            database=self.database,
            secure=self.secure,
            connect_timeout=CONNECT_SECONDS,
            send_receive_timeout=ANSWER_SECONDS,
        )


def parse_address(text: str, setting: str) -> Address:
    """Read it. Raises Invalid (DULY-E601) that says what is wrong with it, and repeats nothing of it: there may be a password inside."""

    def refuse(why: str) -> Invalid:
        return Invalid("DULY-E601", f"{why}.", field=setting, hint=_EXAMPLE)

    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise refuse("it is not an address") from error
    if parts.scheme not in PORTS:
        raise refuse("only clickhouse:// and clickhouses:// are known")
    if not parts.hostname:
        raise refuse("it names no host")
    if parts.query or parts.fragment:
        raise refuse("nothing may follow the database")
    database = unquote(parts.path.strip("/")) or "default"
    user = unquote(parts.username or "default")
    return Address(
        parts.hostname, port or PORTS[parts.scheme], user, unquote(parts.password or ""), database, parts.scheme == "clickhouses"
    )


class ClickHouse:
    """Records in a table of their own. Connects when it is first needed, and again after it was away."""

    def __init__(self, connect: Callable[[], Client], table: str = TABLE) -> None:
        self._connect = connect
        self._table = table
        self._client: Client | None = None

    async def prepare(self) -> None:
        await self._call(lambda client: client.command(table(self._table)))

    async def write(self, records: Sequence[Record]) -> None:
        rows = [values_of(record) for record in records]
        await self._call(lambda client: client.insert(self._table, rows, column_names=NAMES))

    async def ask(self, name: str, asked: Asked) -> Answer:
        """Answer a named question."""
        text = for_clickhouse(name, self._table)
        found = await self._call(lambda client: client.query(text, parameters=asked.parameters))
        return Answer(list(found.column_names), [tuple(row) for row in found.result_rows])

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await asyncio.to_thread(client.close)

    async def _call(self, work: Callable[[Client], Any]) -> Any:
        def run() -> Any:
            if self._client is None:
                self._client = self._connect()
            return work(self._client)

        try:
            return await asyncio.to_thread(run)
        except (Error, OSError) as error:
            why = str(error).partition("\n")[0][:200] or type(error).__name__
            raise Unavailable("DULY-E531", f"ClickHouse does not answer as it should: {why}") from error
