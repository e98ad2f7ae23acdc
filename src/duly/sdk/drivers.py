"""A user's own connection to PostgreSQL, whichever library it comes from.

A library is looked for among the modules that are loaded: a connection cannot be of one that is not. Nothing here begins,
commits or rolls back; a statement runs in whatever transaction the connection has open.
"""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from duly.domain.codes import CODES
from duly.domain.errors import Conflict, DulyError, Invalid, NotFound, TooLarge, TooMany, Unavailable

Rows = list[Any]

_REFUSAL = re.compile(r"(DULY-E\d{3}): ([^\n]*)")
_KINDS: dict[int, type[DulyError]] = {404: NotFound, 409: Conflict, 413: TooLarge, 429: TooMany}
# The schema, a function or a table is not there.
_NOT_OURS = frozenset({"3F000", "42883", "42P01"})
_HINT = "Pass a connection of asyncpg, psycopg 3, SQLAlchemy or Django to the PostgreSQL database that is Duly's store."


@dataclass(frozen=True, slots=True)
class Driver:
    """How one library runs a statement. `mark` writes the nth parameter; `fetch` answers rows, or a coroutine of them."""

    is_async: bool
    mark: Callable[[int], str]
    fetch: Callable[[Any, str, Sequence[Any]], Any]
    is_in_transaction: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Line:
    """A connection and the way to speak over it."""

    connection: Any
    driver: Driver

    @property
    def is_async(self) -> bool:
        """Whether an answer must be awaited: `ask_async`, else `ask`."""
        return self.driver.is_async

    @property
    def is_in_transaction(self) -> bool:
        """False when every statement would commit alone. Where a library does not say, it is taken for granted."""
        return self.driver.is_in_transaction(self.connection)

    def ask(self, statement: str, values: Sequence[Any]) -> Rows:
        """Run a statement whose parameters are written {0}, {1} …; driver errors that are ours leave as DulyError."""
        with _translated():
            rows: Rows = self.driver.fetch(self.connection, self._text(statement, values), values)
            return rows

    async def ask_async(self, statement: str, values: Sequence[Any]) -> Rows:
        """The same on the event loop."""
        with _translated():
            answer: Coroutine[Any, Any, Rows] = self.driver.fetch(self.connection, self._text(statement, values), values)
            return await answer

    def _text(self, statement: str, values: Sequence[Any]) -> str:
        return statement.format(*(self.driver.mark(nth) for nth in range(len(values))))


def line_to(connection: Any) -> Line:
    """The way to speak over a connection. Raises Invalid (DULY-E131) when it is none that we know, or not to PostgreSQL."""
    for module, names, driver in _DRIVERS:
        loaded = sys.modules.get(module)
        kinds = tuple(getattr(loaded, name) for name in names if hasattr(loaded, name))
        if kinds and isinstance(connection, kinds):
            return Line(connection, driver)
    if isinstance(connection, sqlite3.Connection):
        raise _not_postgres("SQLite")
    kind = type(connection)
    raise Invalid("DULY-E131", f"{kind.__module__}.{kind.__qualname__} is not a connection that Duly can use.", hint=_HINT)


def _not_postgres(dialect: str) -> Invalid:
    return Invalid("DULY-E131", f"The connection is to {dialect}, not to PostgreSQL.", hint=_HINT)


# ---------------------------------------------------------------- the libraries


async def _asyncpg(connection: Any, text: str, values: Sequence[Any]) -> Rows:
    rows: Rows = await connection.fetch(text, *values)
    return rows


def _psycopg_cursor(connection: Any) -> Any:
    """A cursor beside the user's: theirs may have rows that they have not read, and shapes of their own."""
    return getattr(connection, "connection", connection).cursor(row_factory=sys.modules["psycopg.rows"].tuple_row)


def _psycopg(connection: Any, text: str, values: Sequence[Any]) -> Rows:
    with _psycopg_cursor(connection) as cursor:
        rows: Rows = cursor.execute(text, values).fetchall()
        return rows


async def _psycopg_async(connection: Any, text: str, values: Sequence[Any]) -> Rows:
    async with _psycopg_cursor(connection) as cursor:
        await cursor.execute(text, values)
        rows: Rows = await cursor.fetchall()
        return rows


def _psycopg_is_in_transaction(connection: Any) -> bool:
    connection = getattr(connection, "connection", connection)
    # 0 is idle: without autocommit the next statement begins a transaction.
    return not connection.autocommit or connection.info.transaction_status != 0


def _sqlalchemy_statement(dialect: str, text: str, values: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
    if dialect != "postgresql":
        raise _not_postgres(dialect)
    return sys.modules["sqlalchemy"].text(text), {f"p{nth}": value for nth, value in enumerate(values)}


def _sqlalchemy_dialect(connection: Any) -> str:
    """A session's connection is the one that its next statement would use."""
    found = connection if hasattr(connection, "dialect") else connection.connection()
    name: str = found.dialect.name
    return name


def _sqlalchemy(connection: Any, text: str, values: Sequence[Any]) -> Rows:
    rows: Rows = connection.execute(*_sqlalchemy_statement(_sqlalchemy_dialect(connection), text, values)).all()
    return rows


async def _sqlalchemy_async(connection: Any, text: str, values: Sequence[Any]) -> Rows:
    found = connection if hasattr(connection, "dialect") else await connection.connection()
    answer = await connection.execute(*_sqlalchemy_statement(found.dialect.name, text, values))
    rows: Rows = answer.all()
    return rows


def _django(connection: Any, text: str, values: Sequence[Any]) -> Rows:
    if connection.vendor != "postgresql":
        raise _not_postgres(connection.display_name)
    with connection.cursor() as cursor:
        cursor.execute(text, values)
        rows: Rows = cursor.fetchall()
        return rows


def _django_is_in_transaction(connection: Any) -> bool:
    return bool(connection.in_atomic_block) or not connection.get_autocommit()


def _taken_for_granted(connection: Any) -> bool:
    return True


def _dollar(nth: int) -> str:
    return f"${nth + 1}"


def _percent(nth: int) -> str:
    return "%s"


def _colon(nth: int) -> str:
    return f":p{nth}"


_ASYNCPG = Driver(True, _dollar, _asyncpg, lambda connection: bool(connection.is_in_transaction()))
_PSYCOPG = Driver(False, _percent, _psycopg, _psycopg_is_in_transaction)
_PSYCOPG_ASYNC = Driver(True, _percent, _psycopg_async, _psycopg_is_in_transaction)
_SQLALCHEMY = Driver(False, _colon, _sqlalchemy, _taken_for_granted)
_SQLALCHEMY_ASYNC = Driver(True, _colon, _sqlalchemy_async, _taken_for_granted)
_DJANGO = Driver(False, _percent, _django, _django_is_in_transaction)

_DRIVERS: tuple[tuple[str, tuple[str, ...], Driver], ...] = (
    ("asyncpg", ("Connection",), _ASYNCPG),
    ("asyncpg.pool", ("PoolConnectionProxy",), _ASYNCPG),
    ("psycopg", ("Connection", "Cursor"), _PSYCOPG),
    ("psycopg", ("AsyncConnection", "AsyncCursor"), _PSYCOPG_ASYNC),
    ("sqlalchemy", ("Connection",), _SQLALCHEMY),
    ("sqlalchemy.orm", ("Session", "scoped_session"), _SQLALCHEMY),
    ("sqlalchemy.ext.asyncio", ("AsyncConnection", "AsyncSession", "async_scoped_session"), _SQLALCHEMY_ASYNC),
    ("django.utils.connection", ("ConnectionProxy",), _DJANGO),
    ("django.db.backends.base.base", ("BaseDatabaseWrapper",), _DJANGO),
)


# ---------------------------------------------------------------- errors


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except DulyError:
        raise
    except Exception as error:
        ours = _ours(error)
        if ours is None:
            raise
        raise ours from error


def _ours(error: BaseException) -> DulyError | None:
    """What a driver's error says in our words; None when it is not about us."""
    root = _root(error)
    state = getattr(root, "sqlstate", None)
    if state in _NOT_OURS:
        return Unavailable(
            "DULY-E503",
            "This database has no Duly store of this version.",
            hint="Pass a connection to the store, or run `duly db upgrade`.",
        )
    found = _REFUSAL.search(str(root))
    if found is None or state != f"DU{found[1][-3:]}":
        return None
    known = CODES.get(found[1])
    return _KINDS.get(known.status if known else 422, Invalid)(found[1], found[2], hint=_hint(root))


def _root(error: BaseException) -> BaseException:
    """The driver's own error below what an ORM has wrapped around it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _hint(error: BaseException) -> str | None:
    hint = getattr(error, "hint", None) or getattr(getattr(error, "diag", None), "message_hint", None)
    return hint if isinstance(hint, str) else None
