"""What `duly top` shows, as rows: each pane knows what to ask the server for and how its things read. Nothing here draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from duly.cli import output
from duly.cli.cluster import dispatcher_columns
from duly.cli.execution_text import COLUMNS, error_text
from duly.cli.output import GREEN, GREY, RED, YELLOW, Column
from duly.domain.instants import MINUTE, SECOND, Instant, to_datetime
from duly.sdk import calls
from duly.sdk.client import Client
from duly.sdk.cluster import show_cluster
from duly.wire.executions import ExecutionView
from duly.wire.fleet import PoolView, StatsView, WorkerView
from duly.wire.upcoming import MinuteView, UpcomingFireView

# Nobody reads more rows than that on a screen that changes.
MOST_ROWS = 200
LONG_WAIT = 10 * SECOND
STRIP_MINUTES = 60
_LEVELS = "▁▂▃▄▅▆▇█"
_SIGNS = "█░✓✗▶○◷‖⊘↷↻●–·…→↩←↑↓—"
_ASCII = str.maketrans(_LEVELS[:-1] + _SIGNS, "1234567" + "#.+x>o@=/~r*-|~><<^v-")


class Cell(NamedTuple):
    """A text without anything that could take over a terminal, and its colour."""

    text: str
    colour: str | None = None


class Row(NamedTuple):
    """One thing: what names it, what it shows, and the run and the job that it is about."""

    key: str
    cells: tuple[Cell, ...]
    run: str | None = None
    job: str | None = None


class Shown(NamedTuple):
    """A pane with what it has now."""

    heads: tuple[str, ...]
    rows: list[Row]


class Pane(NamedTuple):
    """One view: its name, the states that its tab counts, how it is read, and what to say when there is nothing."""

    name: str
    states: tuple[str, ...]
    read: Callable[[Client], Shown]
    empty: str


def as_ascii(text: str) -> str:
    """The same for terminals and fonts that have no more."""
    return text.translate(_ASCII)


def rows_of(columns: Sequence[Column[Any]], items: Sequence[Any], about: Callable[[Any], tuple[str, str | None, str | None]]) -> Shown:
    """Things by the columns that lists have too. `about` gives a thing's key, run and job."""
    rows = []
    for item in items:
        key, run, job = about(item)
        cells = tuple(
            Cell(output.one_line(column.shown(item)), column.colour(item) if column.colour is not None else None) for column in columns
        )
        rows.append(Row(key, cells, run, job))
    return Shown(tuple(column.name for column in columns), rows)


def filtered(shown: Shown, text: str) -> Shown:
    """The rows that have every word of the text in some cell, however it is written."""
    words = text.casefold().split()
    return Shown(shown.heads, [row for row in shown.rows if all(_has(row, word) for word in words)])


def _has(row: Row, word: str) -> bool:
    return any(word in cell.text.casefold() for cell in row.cells) or word in row.key


# ---------------------------------------------------------------- what is always there


def headline(stats: StatsView) -> str:
    """Where everything stands, in words."""
    counted = stats.executions
    slots, running = sum(pool.slots for pool in stats.pools), sum(pool.running for pool in stats.pools)
    dead = counted.get("DEAD", 0)
    parts = [
        f"{counted.get('RUNNING', 0):,} running",
        f"{counted.get('PENDING', 0):,} waiting",
        f"{dead:,} dead" if dead else "none dead",
        f"{stats.workers:,} workers, {running:,}/{slots:,} slots" if stats.workers else "no worker is alive: duly worker, or duly up",
        f"{stats.last_hour.fires:,} fires in the last hour",
    ]
    return " · ".join(parts)


def strip(minutes: Sequence[MinuteView], now: Instant) -> str:
    """The next hour, a sign for each minute: as high as it has fires."""
    first = now - now % MINUTE
    fires = [0] * STRIP_MINUTES
    for minute in minutes:
        nth = (output.instant(minute.at) - first) // MINUTE
        if 0 <= nth < STRIP_MINUTES:
            fires[nth] += minute.fires
    most = max(fires)
    if most == 0:
        return "next hour  nothing fires"
    drawn = "".join(" " if not count else _LEVELS[(count * len(_LEVELS) - 1) // most] for count in fires)
    at = to_datetime(first + fires.index(most) * MINUTE).astimezone(output.shown_in.get())
    return f"next hour  {drawn}  {sum(fires):,} fires, most at {at:%H:%M} ({most:,})"


def tabs(panes: Sequence[Pane], stats: StatsView | None, at: int) -> list[Cell]:
    """The names of the panes with their digits and counts; the one that is shown is marked, and not by its colour alone."""
    told = []
    for nth, pane in enumerate(panes):
        count = f" {sum(stats.executions.get(state, 0) for state in pane.states):,}" if pane.states and stats is not None else ""
        text = f"{nth + 1} {pane.name}{count}"
        told.append(Cell(f"[{text}]" if nth == at else f" {text} ", GREEN if nth == at else GREY))
    return told


# ---------------------------------------------------------------- the panes


def _executions(*states: str, columns: Sequence[Column[ExecutionView]]) -> Callable[[Client], Shown]:
    def read(client: Client) -> Shown:
        found = [run for state in states for run in client.send(calls.list_executions(state=state, limit=MOST_ROWS)).items]
        return rows_of(columns, found[:MOST_ROWS], lambda run: (run.execution_id, run.execution_id, run.job_id))

    return read


def _workers(client: Client) -> Shown:
    found = client.send(calls.list_workers()).items
    return rows_of(_WORKERS, sorted(found, key=lambda worker: (worker.state != "LIVE", worker.name)), lambda it: (it.worker_id, None, None))


def _queues(client: Client) -> Shown:
    return rows_of(_QUEUES, client.send(calls.list_pools()).items, lambda pool: (pool.pool, None, None))


def _upcoming(client: Client) -> Shown:
    until = datetime.now(UTC) + timedelta(days=1)
    found = client.send(calls.list_upcoming(until=until, per_job=20, limit=MOST_ROWS)).items
    return rows_of(_UPCOMING, found, lambda fire: (f"{fire.job_id} {fire.at}", None, fire.job_id))


def _dispatchers(client: Client) -> Shown:
    found = client.send(show_cluster())
    return rows_of(dispatcher_columns(output.instant(found.now)), found.dispatchers, lambda it: (it.name, None, None))


def drawn_share(part: int, whole: int, width: int = 10) -> str:
    """So many of so many, drawn."""
    full = 0 if whole == 0 else min(round(part / whole * width), width)
    return f"{part:,}/{whole:,} {'█' * full}{'░' * (width - full)}"


def _waited(pool: PoolView) -> int:
    return 0 if pool.oldest_pending_at is None else max(output.now() - output.instant(pool.oldest_pending_at), 0)


_WORKERS: list[Column[WorkerView]] = [
    Column(
        "state",
        lambda it: "● live" if it.state == "LIVE" else f"✗ {it.state.lower()}",
        colour=lambda it: GREEN if it.state == "LIVE" else RED,
    ),
    Column("worker", lambda it: it.name),
    Column("pool", lambda it: it.pool),
    Column("slots", lambda it: drawn_share(it.running, it.slots)),
    Column("counts until", lambda it: output.relative(it.expires_at)),
    Column("up", lambda it: output.span(max(output.now() - output.instant(it.started_at), 0))),
    Column("version", lambda it: it.version),
    Column("handlers", lambda it: ", ".join(it.handlers)),
]
_QUEUES: list[Column[PoolView]] = [
    Column("pool", lambda it: it.pool),
    Column("waiting", lambda it: f"{it.pending:,}"),
    Column(
        "oldest", lambda it: output.span(_waited(it)) if it.pending else "–", colour=lambda it: YELLOW if _waited(it) > LONG_WAIT else None
    ),
    Column("running", lambda it: drawn_share(it.running, it.slots)),
    Column("workers", lambda it: f"{it.workers:,}", colour=lambda it: RED if it.pending and not it.workers else None),
]
_UPCOMING: list[Column[UpcomingFireView]] = [
    Column("in", lambda it: output.relative(it.at)),
    Column("at", lambda it: output.local(output.instant(it.at))),
    Column("job", lambda it: it.job_name),
    Column("pool", lambda it: it.pool),
    Column("note", lambda it: "; ".join(filter(None, ("is skipped" if it.is_skipped else None, it.note))), colour=lambda it: YELLOW),
]
_FAILED: list[Column[ExecutionView]] = [
    Column("ended", lambda it: output.relative(it.finished_at)),
    Column("job", lambda it: it.job_name),
    Column("attempts", lambda it: f"{it.attempt}/{it.max_attempts}"),
    Column("error", lambda it: (error_text(it.error) or "").partition("\n")[0], colour=lambda it: RED),
    Column("again as", lambda it: it.replayed_as or ("discarded" if it.discarded_at else "–")),
    Column("run", lambda it: it.execution_id),
]

PANES = (
    Pane("running", ("RUNNING",), _executions("RUNNING", columns=COLUMNS), "Nothing runs."),
    Pane("waiting", ("PENDING", "BLOCKED"), _executions("PENDING", "BLOCKED", columns=COLUMNS[:-1]), "Nothing waits."),
    Pane("failures", ("DEAD",), _executions("DEAD", columns=_FAILED), "Nothing is dead."),
    Pane("workers", (), _workers, "No worker is alive: start one with `duly worker`, or `duly up`."),
    Pane("queues", (), _queues, "No pool has a worker, and nothing waits."),
    Pane("upcoming", (), _upcoming, "Nothing fires in the next 24 hours."),
    Pane("dispatchers", (), _dispatchers, "No dispatcher is alive: start one with `duly scheduler`, or `duly up`."),
)
