"""`duly export` writes finished executions to Parquet files, `duly analytics` answers the usual questions from them or from ClickHouse."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly import config
from duly.cli import output, remote
from duly.cli.errors import OK
from duly.cli.output import Column, Output
from duly.cli.parsing import Arguments, Command, Parser, connection_options, count, output_options
from duly.cli.times import earlier_of
from duly.domain.errors import Invalid
from duly.domain.instants import from_datetime
from duly.sdk.client import Client
from duly.sdk.records import list_finished
from duly.wire.records import record_of

if TYPE_CHECKING:
    from duly.adapters.clickhouse.queries import Answer, Asked

PAGE = 1000
LATELY = timedelta(days=30)
MANIFEST = "export.json"
# Of the progress on a terminal.
BAR = 24


def _configure_export(parser: Parser) -> None:
    parser.add_argument("--parquet", metavar="DIR", required=True, help="the directory; it may have some of it already")
    _time_options(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress and no remarks")
    connection_options(parser)


def _time_options(parser: Parser) -> None:
    parser.add_argument("--since", metavar="TIME", help="from then on: a day, a time, or back from now such as 7d (30d)")
    parser.add_argument("--until", metavar="TIME", help="up to then (now)")


@dataclass(slots=True)
class Exported:
    """What a directory has, day by day, and whose it is."""

    directory: Path
    tenant: str | None = None
    days: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, directory: Path) -> Exported:
        """Raises Invalid (DULY-E604) when the directory cannot be used, or what it says of itself cannot be read."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            told = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
            return cls(directory, told["tenant"], {str(day): int(rows) for day, rows in told["days"].items()})
        except FileNotFoundError:
            return cls(directory)
        except OSError as error:
            raise Invalid("DULY-E604", f"{directory} cannot be used: {error.strerror}.", field="--parquet") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            hint = "Choose another directory, or remove that file: everything is exported again then."
            raise Invalid("DULY-E604", f"{directory / MANIFEST} is not what an export writes.", field="--parquet", hint=hint) from error

    def keep(self, day: str, rows: int) -> None:
        """Remember that a day is there; a crash before it only means that the day is written again."""
        self.days[day] = rows
        new = self.directory / f"{MANIFEST}.new"
        new.write_text(json.dumps({"tenant": self.tenant, "days": dict(sorted(self.days.items()))}, indent=1), encoding="utf-8")
        new.replace(self.directory / MANIFEST)

    def belongs_to(self, tenant: str) -> None:
        """Raises Invalid (DULY-E604) for files of another tenant: they must not be mixed."""
        if self.tenant not in (None, tenant):
            hint = "Choose another directory, or use a key of that tenant."
            raise Invalid("DULY-E604", f"{self.directory} has executions of the tenant {self.tenant}.", field="--parquet", hint=hint)
        self.tenant = tenant


def _export(arguments: Arguments) -> int:
    """Day by day. A day is written again when it has more than when it was written: runs that ended late, a backfill, a catch-up."""
    with _needing("parquet"):
        from duly.adapters.clickhouse.parquet import DayFile
    exported = Exported.read(Path(arguments.parquet))
    progress = Progress(is_shown=sys.stderr.isatty() and not arguments.quiet)
    days = list(_days(*_range(arguments)))
    wrote = rows = 0
    with remote.connect(arguments) as client:
        for nth, start in enumerate(days):
            day = f"{start:%Y-%m-%d}"
            progress.show(nth, len(days), day, rows)
            if _counted(client, start) <= exported.days.get(day, 0):
                continue
            file = DayFile(exported.directory, day)
            try:
                for page in _pages(client, start, count_only=False):
                    records = [record_of(view) for view in page.items]
                    for tenant in sorted({record.tenant for record in records}):
                        exported.belongs_to(tenant)
                    file.add(records)
                    progress.show(nth, len(days), day, rows + file.rows)
                file.keep()
            finally:
                file.drop()
            exported.keep(day, file.rows)
            wrote, rows = wrote + 1, rows + file.rows
    progress.end()
    if not arguments.quiet:
        print(f"{rows:,} executions in {wrote} of {len(days)} days; the others were there already, or have none.", file=sys.stderr)
    return OK


def _counted(client: Client, start: datetime) -> int:
    return sum(page.finished for page in _pages(client, start, count_only=True))


def _pages(client: Client, start: datetime, *, count_only: bool) -> Iterator[Any]:
    cursor: str | None = None
    while True:
        page = client.send(
            list_finished(
                since=start, until=start + timedelta(days=1), count_only=count_only, limit=None if count_only else PAGE, cursor=cursor
            )
        )
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return


def _range(arguments: Arguments) -> tuple[datetime, datetime]:
    now = datetime.now(UTC)
    since = now - LATELY if arguments.since is None else earlier_of(arguments.since, "--since", UTC)
    until = now if arguments.until is None else earlier_of(arguments.until, "--until", UTC)
    if until <= since:
        raise Invalid("DULY-E106", "must be after --since.", field="--until")
    return since, until


def _days(since: datetime, until: datetime) -> Iterator[datetime]:
    """Every day in UTC that the range touches, from its beginning."""
    day = since.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    while day < until:
        yield day
        day += timedelta(days=1)


class Progress:
    """A line on a terminal that is written over."""

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown = is_shown

    def show(self, done: int, total: int, day: str, rows: int) -> None:
        """How far it is."""
        if self._is_shown:
            filled = BAR * done // max(total, 1)
            print(
                f"\r{'█' * filled}{'░' * (BAR - filled)} {done}/{total}  {day}  {rows:,} executions ", end="", file=sys.stderr, flush=True
            )

    def end(self) -> None:
        """Leave no trace."""
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


# ---------------------------------------------------------------- questions


def _configure_analytics(parser: Parser) -> None:
    parser.add_argument("question", metavar="QUESTION", nargs="?", help="which one; without it, all there are")
    parser.add_argument("--parquet", metavar="DIR", help="ask the files that `duly export` wrote; otherwise DULY_ANALYTICS")
    parser.add_argument("--tenant", metavar="NAME", default="", help="of this tenant only")
    parser.add_argument("-n", "--limit", metavar="N", type=count, default=50, help="at most that many rows (50)")
    _time_options(parser)
    output_options(parser)


def _analytics(arguments: Arguments) -> int:
    from duly.adapters.clickhouse.queries import Asked, questions

    out = output.of(arguments)
    if arguments.question is None:
        found = [{"question": name, "answers": words} for name, (words, _) in questions().items()]
        out.rows([_column("question"), _column("answers")], found, name=lambda row: row["question"])
        return OK
    since, until = _range(arguments)
    asked = Asked(from_datetime(since), from_datetime(until), arguments.tenant, arguments.limit)
    answer = _from_files(arguments, asked) if arguments.parquet is not None else asyncio.run(_from_server(arguments, asked))
    rows = [dict(zip(answer.columns, map(_plain, row), strict=True)) for row in answer.rows]
    out.rows([_column(name) for name in answer.columns], rows, name=lambda row: str(next(iter(row.values()))))
    _say_if_empty(out, rows)
    return OK


def _say_if_empty(out: Output, rows: list[dict[str, Any]]) -> None:
    if not rows:
        out.say("Nothing ended in that time. `--since 90d` looks back further.")


def _from_files(arguments: Arguments, asked: Asked) -> Answer:
    with _needing("parquet"):
        from duly.adapters.clickhouse.parquet import ask_files
    return ask_files(Path(arguments.parquet), arguments.question, asked)


async def _from_server(arguments: Arguments, asked: Asked) -> Answer:
    from duly.compose.analytics import open_clickhouse

    settings = config.load()
    if settings.analytics is None:
        hint = "Set DULY_ANALYTICS, or export files and ask them: duly export --parquet DIR, then --parquet DIR."
        raise Invalid("DULY-E604", "There is no ClickHouse to ask.", field="DULY_ANALYTICS", hint=hint)
    server = open_clickhouse(settings.analytics)
    try:
        return await server.ask(arguments.question, asked)
    finally:
        await server.close()


@contextmanager
def _needing(extra: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise Invalid("DULY-E630", "Parquet files need an extra.", hint=f"pip install 'duly[{extra}]'") from error


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC).isoformat().replace("+00:00", "Z")
    return round(value, 3) if isinstance(value, float) else value


def _column(name: str) -> Column[dict[str, Any]]:
    return Column(name, lambda row: _shown(row[name]), lambda row: "" if row[name] is None else str(row[name]))


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


COMMANDS = {
    "export": Command("Write finished executions to Parquet files, a directory a day.", _configure_export, _export, "duly export"),
    "analytics": Command("Answer the usual questions about what has ended.", _configure_analytics, _analytics, "duly analytics"),
}
