"""How the users of each library write a transaction that commits, a savepoint that is undone, and one that rolls back.

Every function does `work(connection, "kept")` and commits it, `work(connection, "savepoint")` in a savepoint of the same
transaction and undoes that, and `work(connection, "undone")` in a transaction that it rolls back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import django.db
import psycopg
import sqlalchemy as sa
from django.conf import settings
from django.db.transaction import atomic
from django.db.utils import ConnectionHandler
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

Work = Callable[[Any, str], Any]
AsyncWork = Callable[[Any, str], Awaitable[Any]]


class Undone(Exception):
    """Leaves a block that must be rolled back."""


# ---------------------------------------------------------------- asyncpg


async def asyncpg_connection(dsn: str, work: AsyncWork) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await _on_asyncpg(connection, work)
    finally:
        await connection.close()


async def asyncpg_pool(dsn: str, work: AsyncWork) -> None:
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        await _on_asyncpg(connection, work)


async def _on_asyncpg(connection: Any, work: AsyncWork) -> None:
    async with connection.transaction():
        await work(connection, "kept")
        try:
            async with connection.transaction():
                await work(connection, "savepoint")
                raise Undone
        except Undone:
            pass
    try:
        async with connection.transaction():
            await work(connection, "undone")
            raise Undone
    except Undone:
        pass


# ---------------------------------------------------------------- psycopg


def psycopg_connection(dsn: str, work: Work) -> None:
    with psycopg.connect(dsn, row_factory=psycopg.rows.dict_row) as connection:
        _on_psycopg(connection, connection, work)


def psycopg_cursor(dsn: str, work: Work) -> None:
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        _on_psycopg(connection, cursor, work)


def psycopg_autocommit(dsn: str, work: Work) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        with connection.transaction():
            work(connection, "kept")
            with connection.transaction(force_rollback=True):
                work(connection, "savepoint")
        with connection.transaction(force_rollback=True):
            work(connection, "undone")


def _on_psycopg(connection: Any, passed: Any, work: Work) -> None:
    work(passed, "kept")
    with connection.transaction(force_rollback=True):
        work(passed, "savepoint")
    connection.commit()
    work(passed, "undone")
    connection.rollback()


async def psycopg_async_connection(dsn: str, work: AsyncWork) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, row_factory=psycopg.rows.dict_row) as connection:
        await _on_psycopg_async(connection, connection, work)


async def psycopg_async_cursor(dsn: str, work: AsyncWork) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection, connection.cursor() as cursor:
        await _on_psycopg_async(connection, cursor, work)


async def _on_psycopg_async(connection: Any, passed: Any, work: AsyncWork) -> None:
    await work(passed, "kept")
    async with connection.transaction(force_rollback=True):
        await work(passed, "savepoint")
    await connection.commit()
    await work(passed, "undone")
    await connection.rollback()


# ---------------------------------------------------------------- SQLAlchemy


def _url(dsn: str, driver: str) -> str:
    return dsn.replace("postgresql://", f"postgresql+{driver}://")


@contextmanager
def _engine(dsn: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(_url(dsn, "psycopg"))
    try:
        yield engine
    finally:
        engine.dispose()


@asynccontextmanager
async def _async_engine(dsn: str, driver: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(_url(dsn, driver))
    try:
        yield engine
    finally:
        await engine.dispose()


def sqlalchemy_connection(dsn: str, work: Work) -> None:
    with _engine(dsn) as engine, engine.connect() as connection:
        with connection.begin():
            work(connection, "kept")
            with connection.begin_nested() as savepoint:
                work(connection, "savepoint")
                savepoint.rollback()
        with connection.begin() as transaction:
            work(connection, "undone")
            transaction.rollback()


def sqlalchemy_session(dsn: str, work: Work) -> None:
    with _engine(dsn) as engine, Session(engine) as session:
        _on_session(session, work)


def sqlalchemy_scoped_session(dsn: str, work: Work) -> None:
    with _engine(dsn) as engine:
        session = scoped_session(sessionmaker(engine))
        try:
            _on_session(session, work)
        finally:
            session.remove()


def _on_session(session: Any, work: Work) -> None:
    work(session, "kept")
    with session.begin_nested() as savepoint:
        work(session, "savepoint")
        savepoint.rollback()
    session.commit()
    work(session, "undone")
    session.rollback()


def _async_sqlalchemy(driver: str) -> tuple[Callable[[str, AsyncWork], Awaitable[None]], Callable[[str, AsyncWork], Awaitable[None]]]:
    async def on_connection(dsn: str, work: AsyncWork) -> None:
        async with _async_engine(dsn, driver) as engine, engine.connect() as connection:
            async with connection.begin():
                await work(connection, "kept")
                async with connection.begin_nested() as savepoint:
                    await work(connection, "savepoint")
                    await savepoint.rollback()
            async with connection.begin() as transaction:
                await work(connection, "undone")
                await transaction.rollback()

    async def on_session(dsn: str, work: AsyncWork) -> None:
        async with _async_engine(dsn, driver) as engine, AsyncSession(engine) as session:
            await work(session, "kept")
            async with session.begin_nested() as savepoint:
                await work(session, "savepoint")
                await savepoint.rollback()
            await session.commit()
            await work(session, "undone")
            await session.rollback()

    return on_connection, on_session


# ---------------------------------------------------------------- Django


def django_database(engine: str, name: str, **options: Any) -> Any:
    """A connection of Django's in this thread, as `connections["default"]`."""
    if not settings.configured:
        settings.configure(LOGGING_CONFIG=None)
        django.setup()
    handler = ConnectionHandler({"default": {"ENGINE": f"django.db.backends.{engine}", "NAME": name, **options}})
    django.db.connections["default"] = handler["default"]
    return handler["default"]


def django_connection(dsn: str, work: Work) -> None:
    _on_django(dsn, lambda named: django.db.connection, work)


def django_named_connection(dsn: str, work: Work) -> None:
    _on_django(dsn, lambda named: named, work)


def _on_django(dsn: str, passed: Callable[[Any], Any], work: Work) -> None:
    parts = urlsplit(dsn)
    named = django_database("postgresql", parts.path[1:], HOST=parts.hostname, PORT=parts.port, USER=parts.username)
    connection = passed(named)
    try:
        with atomic():
            work(connection, "kept")
            try:
                with atomic():
                    work(connection, "savepoint")
                    raise Undone
            except Undone:
                pass
        try:
            with atomic():
                work(connection, "undone")
                raise Undone
        except Undone:
            pass
    finally:
        named.close()


BLOCKING: dict[str, Callable[[str, Work], None]] = {
    "psycopg connection": psycopg_connection,
    "psycopg cursor": psycopg_cursor,
    "psycopg autocommit": psycopg_autocommit,
    "SQLAlchemy connection": sqlalchemy_connection,
    "SQLAlchemy session": sqlalchemy_session,
    "SQLAlchemy scoped session": sqlalchemy_scoped_session,
    "Django connection": django_connection,
    "Django named connection": django_named_connection,
}

_ON_ASYNCPG, _ON_PSYCOPG = _async_sqlalchemy("asyncpg"), _async_sqlalchemy("psycopg")
ASYNC: dict[str, Callable[[str, AsyncWork], Awaitable[None]]] = {
    "asyncpg connection": asyncpg_connection,
    "asyncpg pool": asyncpg_pool,
    "psycopg async connection": psycopg_async_connection,
    "psycopg async cursor": psycopg_async_cursor,
    "SQLAlchemy async connection on asyncpg": _ON_ASYNCPG[0],
    "SQLAlchemy async session on asyncpg": _ON_ASYNCPG[1],
    "SQLAlchemy async connection on psycopg": _ON_PSYCOPG[0],
    "SQLAlchemy async session on psycopg": _ON_PSYCOPG[1],
}
