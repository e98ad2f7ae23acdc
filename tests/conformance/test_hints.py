"""Hints over PostgreSQL: losing one, or the connection under it, is nobody's error."""

from __future__ import annotations

import asyncio

from duly.adapters.sql.transport_postgres import PostgresTransport


async def test_a_connection_that_goes_while_a_hint_is_sent_is_no_error(postgres_store: str) -> None:
    transport = PostgresTransport(postgres_store)
    await transport.announce([1])
    async with asyncio.timeout(30):
        await transport._connected.wait()
    assert transport._sender is not None
    await transport._sender
    connection = transport._connection
    assert connection is not None

    # What is left of one that the keeper has ended while the statement was being prepared.
    protocol, connection._protocol = connection._protocol, None
    await transport.announce([1])
    await transport._sender
    connection._protocol = protocol

    await transport.close()
