"""What `duly doctor` finds on the way to PostgreSQL: who is trusted, what stands between, and whether hints arrive."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING

from duly import config
from duly.domain.instants import SECOND, Micros
from duly.domain.plain import visible

if TYPE_CHECKING:
    from duly.adapters.sql.postgres.address import Address
    from duly.adapters.sql.postgres.lines import Line, Way

# How long a hint may take; it usually takes a millisecond.
HINT_TIMEOUT = 2.0


def is_postgres(store: str) -> bool:
    """Whether there is a way to look at."""
    return store.startswith(("postgresql://", "postgres://"))


def unverified(address: Address) -> list[str]:
    """Hosts that somebody else could stand in for, unseen."""
    return [host.name for host in address.hosts if not host.is_verified]


async def look(settings: config.Settings) -> Link:
    """Open the ways of the settings and try them. Raises Unavailable when PostgreSQL does not answer."""
    from duly.adapters.sql.engine_postgres import translated
    from duly.adapters.sql.postgres.lines import Way

    with translated():
        way = Way(settings.store)
        line = await way.open("duly-doctor", {"jit": "off"})
        line.terminate()
        told = way.address.pooler is not None
        hints = Way(settings.store_direct) if settings.store_direct else way
        return Link(way.address, way.pooler is not None and way.pooler.value == "transaction", told, await _hint(hints))


_LONG_TRANSACTIONS = """
SELECT format('process %s (%s, %s) since %s', pid, coalesce(nullif(application_name, ''), usename), state,
              to_char(xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI "UTC"'))
FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
  AND xact_start < now() - make_interval(secs => $1)
UNION ALL
SELECT format('prepared transaction %s since %s', gid, to_char(prepared AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI "UTC"'))
FROM pg_prepared_xacts
WHERE database = current_database() AND prepared < now() - make_interval(secs => $1)
LIMIT 100
"""


async def long_transactions(settings: config.Settings, than: Micros) -> list[str]:
    """Whoever keeps a transaction of this database open for longer, in words. Raises Unavailable when PostgreSQL does not answer."""
    from duly.adapters.sql.engine_postgres import translated
    from duly.adapters.sql.postgres.lines import Way

    with translated():
        line = await Way(settings.store).open("duly-doctor", {"jit": "off"})
        try:
            return [visible(row[0]) for row in await line.fetch(_LONG_TRANSACTIONS, than / SECOND)]
        finally:
            line.terminate()


class Link:
    """What was found."""

    def __init__(self, address: Address, is_pooled: bool, is_told: bool, hint: float | None) -> None:
        self.address = address
        self.is_pooled = is_pooled
        self.is_told = is_told
        # Seconds that a hint took; None when none arrived.
        self.hint = hint


async def _hint(way: Way) -> float | None:
    """Listen by one line and tell by another: as two processes do."""
    from duly.adapters.sql.postgres.address import Pooler

    lines: list[Line] = []
    heard = asyncio.Event()
    channel = f"duly_doctor_{secrets.token_hex(4)}"
    try:
        for _ in range(2):
            lines.append(await way.open("duly-doctor", {"jit": "off"}))
        if way.pooler is Pooler.TRANSACTION:
            # To listen here would leave a stranger's session listening.
            return None
        await lines[0].add_listener(channel, lambda *_: heard.set())
        began = time.monotonic()
        await lines[1].execute("SELECT pg_notify($1, '')", channel)
        async with asyncio.timeout(HINT_TIMEOUT):
            await heard.wait()
        return time.monotonic() - began
    except TimeoutError:
        return None
    finally:
        for line in lines:
            line.terminate()
