"""An engine that tells what its statements have written, once the store has said that it is committed.

Where executions are made and where they end there are many ways in, and each is one of a few named statements: what a statement wrote
is read here from its parameters and its rows. A test holds that no statement which writes to the ledger is forgotten. A commit whose
answer was lost is told by nobody; only of a worker's own successes, which it reports again until the store says that it has them, the
caller knows better, so there the port tells it (`adapters/metered`) and the engine is asked not to (`OF_REPORTS`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from json import loads
from typing import Any, TypeVar, cast

from duly.adapters.sql.engine import Action, Call, Engine, Lane, Rows, one
from duly.domain.lifecycle import Outcome, State, Trigger
from duly.domain.metrics import Metric
from duly.domain.metrics.catalogue import ATTEMPTS, CREATED, FIRES, OUTCOMES, RETRIES, SKIPS, WORKERS_LOST
from duly.ports.telemetry import Telemetry

T = TypeVar("T")
Params = Mapping[str, Any]
Told = tuple[Metric, tuple[str, ...], int]
Tell = Callable[[Sequence[Params], Rows], Iterator[Told]]

# After these the execution waits for another attempt; what was released waits for the same one.
_RETRIED = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.WORKER_LOST})


E = TypeVar("E", bound=Engine)


def watched(engine: E, telemetry: Telemetry | None, tells: Mapping[str, Tell] | None = None) -> E:
    """The engine, with somebody who listens; as it is when nobody does."""
    # It delegates what it does not watch, which a type checker cannot see.
    return engine if telemetry is None else cast(E, WatchedEngine(engine, telemetry, TELLS if tells is None else tells))


class WatchedEngine:
    """What it does not watch goes through."""

    def __init__(self, engine: Engine, telemetry: Telemetry, tells: Mapping[str, Tell]) -> None:
        self._engine = engine
        self._telemetry = telemetry
        self._tells = tells

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def run(self, action: Callable[[], Action[T]], lane: Lane = Lane.GENERAL) -> T:
        told: list[Told] = []

        def listened() -> Action[T]:
            # From the top again: what was undone was not written.
            told.clear()
            return self._listened(action(), told)

        result = await self._engine.run(listened, lane)
        self._tell(told)
        return result

    async def fetch(self, name: str, params: Params, lane: Lane = Lane.GENERAL) -> Rows:
        rows = await self._engine.fetch(name, params, lane)
        if (tell := self._tells.get(name)) is not None:
            self._tell(tell((params,), rows))
        return rows

    async def fetch_or_again(self, name: str, params: Params, lane: Lane) -> Rows:
        rows: Rows = await cast(Any, self._engine).fetch_or_again(name, params, lane)
        if (tell := self._tells.get(name)) is not None:
            self._tell(tell((params,), rows))
        return rows

    def _listened(self, action: Action[T], told: list[Told]) -> Action[T]:
        try:
            wanted = next(action)
            while True:
                rows = yield wanted
                if (tell := self._tells.get(wanted.name)) is not None:
                    told += tell((wanted.params,) if isinstance(wanted, Call) else wanted.params, rows)
                wanted = action.send(rows)
        except StopIteration as end:
            result: T = end.value
            return result

    def _tell(self, told: Any) -> None:
        for metric, labels, by in told:
            if by:
                self._telemetry.count(metric, labels, by)


def _ended(states: Counter[int]) -> Iterator[Told]:
    for state, count in states.items():
        yield OUTCOMES, (State(state).name,), count


def _succeeded(count: int) -> Iterator[Told]:
    yield ATTEMPTS, (Outcome.SUCCEEDED.name,), count
    yield OUTCOMES, (State.SUCCEEDED.name,), count


def _attempts(outcomes: Sequence[int], retried: Sequence[int]) -> Iterator[Told]:
    for outcome, count in Counter(outcomes).items():
        yield ATTEMPTS, (Outcome(outcome).name,), count
    for outcome, count in Counter(retried).items():
        if outcome in _RETRIED:
            yield RETRIES, (Outcome(outcome).name,), count


# ---------------------------------------------------------------- one for each statement that writes to the ledger


def _add_outcome(params: Sequence[Params], rows: Rows) -> Iterator[Told]:
    if params and _is_report(params[0]):
        # A worker's successes come by themselves.
        yield from _succeeded(len(params))
    else:
        yield from _ended(Counter(row["state"] for row in params))


def _add_outcome_of_report(params: Sequence[Params], rows: Rows) -> Iterator[Told]:
    if params and not _is_report(params[0]):
        yield from _ended(Counter(row["state"] for row in params))


def _is_report(row: Params) -> bool:
    return row["state"] == State.SUCCEEDED and row["worker"] is not None


def _end_attempt(params: Sequence[Params], rows: Rows) -> Iterator[Told]:
    yield from _attempts([row["outcome"] for row in params], [row["outcome"] for row in params if row["retry_at"] is not None])


def _finish(params: Sequence[Params], rows: Rows) -> Iterator[Told]:
    yield from _succeeded(one(rows)["accepted"])


def _finish_mixed(params: Sequence[Params], rows: Rows) -> Iterator[Told]:
    row = one(rows)
    yield from _attempts(row["outcomes"] or (), row["retried"] or ())
    yield from _ended(Counter(row["states"] or ()))


def _lose(params: Sequence[Params], rows: Rows) -> Iterator[Told]:
    states = params[0]["states"]
    lost = Outcome.WORKER_LOST
    yield from _attempts([lost] * len(states), [lost] * sum(state == State.SCHEDULED for state in states))
    yield from _ended(Counter(state for state in states if state != State.SCHEDULED))


def _skip(params: Sequence[Params], rows: Rows) -> Iterator[Told]:
    for reason, count in Counter(loads(row["error"])["reason"] for row in params).items():
        yield SKIPS, (reason,), count
        yield OUTCOMES, (State.SKIPPED.name,), count


def _fire(params: Sequence[Params], rows: Rows) -> Iterator[Told]:
    row = one(rows)
    yield FIRES, (), row["fired"]
    yield CREATED, (), row["fired"]
    yield SKIPS, ("misfire",), row["misfired"]
    yield SKIPS, ("overlap",), row["skipped"] - row["misfired"]
    yield OUTCOMES, (State.SKIPPED.name,), row["skipped"]


def _promote(params: Sequence[Params], rows: Rows) -> Iterator[Told]:
    yield OUTCOMES, (State.CANCELLED.name,), one(rows)["cancelled"]


def _cancel_waiting(params: Sequence[Params], rows: Rows) -> Iterator[Told]:
    yield OUTCOMES, (State.CANCELLED.name,), len(one(rows)["stopped"] or ())


def _add_execution(params: Sequence[Params], rows: Rows) -> Iterator[Told]:
    yield CREATED, (), len(rows)
    yield FIRES, (), len(rows) if params[0]["trigger"] == Trigger.SCHEDULE else 0


def _all(params: Sequence[Params], rows: Rows) -> Iterator[Told]:
    yield CREATED, (), len(params)


def _those_found(params: Sequence[Params], rows: Rows) -> Iterator[Told]:
    yield CREATED, (), len(rows)


def _counted(column: str) -> Tell:
    def tell(params: Sequence[Params], rows: Rows) -> Iterator[Told]:
        yield CREATED, (), one(rows)[column]

    return tell


def _bury_workers(params: Sequence[Params], rows: Rows) -> Iterator[Told]:
    yield WORKERS_LOST, (), len(rows)


TELLS: Mapping[str, Tell] = {
    "add_outcome": _add_outcome,
    "end_attempt": _end_attempt,
    "finish": _finish,
    "finish_whole": _finish,
    "finish_mixed": _finish_mixed,
    "lose": _lose,
    "skip": _skip,
    "skip_step": _skip,
    "fire": _fire,
    "promote": _promote,
    "cancel_waiting": _cancel_waiting,
    "add_execution": _add_execution,
    "add_executions": _all,
    "add_step": _all,
    "add_steps": _those_found,
    "add_items": _counted("count"),
    "enqueue": _counted("n"),
    "enqueue_again": _counted("n"),
    "enqueue_alike": _counted("n"),
    "bury_workers": _bury_workers,
}
# For where workers report: of their successes the port knows more.
OF_REPORTS: Mapping[str, Tell] = {name: tell for name, tell in TELLS.items() if name not in ("finish", "finish_whole")} | {
    "add_outcome": _add_outcome_of_report
}
