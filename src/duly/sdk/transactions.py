"""Enqueueing and completing inside a transaction that the user controls.

    await send_mail.using(connection).enqueue(user_id=7)      # with the user's row, or not at all

    async with ctx.transaction() as connection:               # the effect and the end of the attempt, or neither
        await connection.execute("UPDATE …")

On a connection of a blocking library the same calls answer at once, without `await`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from duly.domain.access import DEFAULT_TENANT
from duly.domain.durations import parse_duration
from duly.domain.errors import Invalid, LeaseLost, TooLarge
from duly.domain.ids import execution_text
from duly.domain.instants import to_rfc3339
from duly.domain.secrets import check_json
from duly.ports.handlers import Attempt
from duly.ports.transactions import Transactions
from duly.sdk.drivers import Line, Rows, line_to
from duly.sdk.moments import instant_of
from duly.sdk.wishes import NO_WISH, Wish, taken_apart

if TYPE_CHECKING:
    from duly.sdk.arguments import Arguments, BatchArguments

LARGEST_RESULT = 1 << 20

# Every value goes as text and is cast there: no library needs to know our types.
_ENQUEUE = """SELECT id FROM duly.duly_enqueue_many(
    job => CAST({0} AS text), payloads => CAST(CAST({1} AS text) AS json), run_at => CAST(CAST({2} AS text) AS timestamptz),
    delay => CAST(CAST({3} AS text) AS interval), tenant => CAST({4} AS text)) AS made (id)"""
_END = """SELECT duly.duly_end(
    lease => CAST(CAST({0} AS text) AS bigint), execution => CAST(CAST({1} AS text) AS uuid),
    result => CAST(CAST({2} AS text) AS json), started_at => CAST(CAST({3} AS text) AS bigint))"""


# ---------------------------------------------------------------- enqueue


class Using:
    """A declared job on a connection of the user's. Each call answers the id, or a coroutine of it if the library is async.

    Nothing is committed here: the execution is there when the user's transaction commits. The job must have been published,
    by a worker of its application or by `app.publish()`.
    """

    __slots__ = ("_arguments", "_job", "_line")

    def __init__(self, job: str, arguments: Arguments | BatchArguments, connection: Any, *, sealed: bool = False) -> None:
        if sealed:
            raise Invalid(
                "DULY-E144",
                "Payloads are encrypted, and SQL cannot do that: this one would be stored in clear.",
                hint="Enqueue without a transaction, or unset DULY_PAYLOAD_KEYS here.",
            )
        self._job = job
        self._arguments = arguments
        self._line = line_to(connection)

    def enqueue(self, *args: Any, **kwargs: Any) -> Any:
        """See Task.enqueue."""
        return self._one(args, kwargs)

    def enqueue_in(self, delay: str | float | timedelta, *args: Any, **kwargs: Any) -> Any:
        """See Task.enqueue_in."""
        return self._one(args, kwargs, Wish(delay=parse_duration(delay, field="delay")))

    def enqueue_at(self, when: datetime, *args: Any, **kwargs: Any) -> Any:
        """See Task.enqueue_at."""
        return self._one(args, kwargs, Wish(run_at=instant_of(when)))

    def enqueue_many(self, calls: Iterable[Any]) -> Any:
        """See Task.enqueue_many; all in one statement."""
        return self._send([self._arguments.of_call(call) for call in calls], lambda rows: [row[0] for row in rows])

    def _one(self, args: tuple[Any, ...], kwargs: dict[str, Any], said: Wish = NO_WISH) -> Any:
        payload, wish = taken_apart(self._arguments, args, kwargs, said)
        if wish.tx is not None:
            hint = "Leave tx out: it runs in the transaction of what using(…) was given."
            raise Invalid("DULY-E117", "there are two transactions.", field="tx", hint=hint)
        return self.send(payload, wish)

    def send(self, payload: str, wish: Wish) -> Any:
        """Enqueue one payload, whatever its own `tx` is."""
        return self._send([payload], lambda rows: rows[0][0], wish)

    def _send(self, payloads: list[str], answer: Callable[[Rows], Any], wish: Wish = NO_WISH) -> Any:
        for payload in payloads:
            # SQL encrypts nothing.
            check_json(payload, "payload", values=False)
        values = (
            self._job,
            f"[{','.join(payloads)}]",
            None if wish.run_at is None else to_rfc3339(wish.run_at),
            None if wish.delay is None else f"{wish.delay} microseconds",
            DEFAULT_TENANT,
        )
        return _asked(self._line, _ENQUEUE, values, answer)


def _asked(line: Line, statement: str, values: tuple[Any, ...], answer: Callable[[Rows], Any]) -> Any:
    if line.is_async:
        return _asked_async(line, statement, values, answer)
    return answer(line.ask(statement, values))


async def _asked_async(line: Line, statement: str, values: tuple[Any, ...], answer: Callable[[Rows], Any]) -> Any:
    return answer(await line.ask_async(statement, values))


# ---------------------------------------------------------------- complete


def encode_result(value: Any, attempt: Attempt) -> str | None:
    """A result as it is stored, without the attempt's secrets.

    Raises Invalid (DULY-E106) for what is not JSON, TooLarge (DULY-E109) for too much of it.
    """
    if value is None:
        return None
    try:
        encoded = attempt.hidden_json(msgspec.json.encode(value).decode())
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid("DULY-E106", f"it is not JSON: {error}.", field="result") from error
    if len(encoded) > LARGEST_RESULT:
        raise TooLarge("DULY-E109", f"it has {len(encoded):,} characters; at most {LARGEST_RESULT:,} are kept.", field="result")
    return encoded


def complete_with(attempt: Attempt, connection: Any, result: str | None) -> Any:
    """End the attempt as succeeded in the connection's transaction, which may still be rolled back."""
    line = line_to(connection)
    if not line.is_in_transaction:
        raise Invalid(
            "DULY-E131", "No transaction is open on the connection.", hint="Begin one: what you write must commit with the completion."
        )

    def answer(rows: Rows) -> None:
        if not rows[0][0]:
            raise LeaseLost.of(execution_text(attempt.id))

    return _asked(line, _END, (str(attempt.fence), str(attempt.id), result, str(attempt.started_at)), answer)


class Transaction:
    """What `ctx.transaction()` gives: a block, `async with` or `with`, whose end is the end of the attempt."""

    __slots__ = ("_attempt", "_block", "_opened", "_result", "_settle")

    def __init__(
        self, attempt: Attempt, result: Callable[[], str | None], settle: Callable[[str | None], None], opened: Callable[[Any], None]
    ) -> None:
        self._attempt = attempt
        self._result = result
        self._settle = settle
        # Told the connection, and None when the block ends.
        self._opened = opened
        self._block: Any = None

    async def __aenter__(self) -> Any:
        block: AbstractAsyncContextManager[Any] = self._transactions().open(self._attempt, self._result)
        self._block = block
        connection = await block.__aenter__()
        self._opened(connection)
        return connection

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._opened(None)
        await self._block.__aexit__(kind, error, trace)
        if error is None:
            self._settle(self._result())

    def __enter__(self) -> Any:
        block: AbstractContextManager[Any] = self._transactions().open_blocking(self._attempt, self._result)
        self._block = block
        connection = block.__enter__()
        self._opened(connection)
        return connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._opened(None)
        self._block.__exit__(kind, error, trace)
        if error is None:
            self._settle(self._result())

    def _transactions(self) -> Transactions:
        if self._attempt.transactions is None:
            raise Invalid(
                "DULY-E132",
                "There is no store behind this handler.",
                hint="ctx.transaction() works in a worker, on the event loop or in a thread; in a child process use ctx.complete_with.",
            )
        return self._attempt.transactions
