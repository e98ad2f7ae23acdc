"""`duly plan FILE.toml` and `duly apply FILE.toml`: jobs and workflows from a file, created or changed by name.

Everything is read, checked and compared before anything is written. New jobs are made in one transaction; changes follow one by one, each
only if nobody was faster. A pause is never taken back, and what is not in the file is left alone unless `--archive-missing` says otherwise.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from duly.cli import definitions, output, remote
from duly.cli.asking import agreed, demand
from duly.cli.definitions import Definition
from duly.cli.errors import CONFLICT, FAILURE, OK, PARTLY_DONE, Several, exit_code
from duly.cli.faults import Checker
from duly.cli.output import GREEN, GREY, RED, YELLOW, Column, paint
from duly.cli.parsing import Arguments, Command, Parser, remote_options
from duly.domain.errors import DulyError, Invalid
from duly.domain.instants import Instant
from duly.sdk import calls
from duly.sdk.client import Client
from duly.sdk.job_calls import create_jobs
from duly.wire.comparison import Change, changes
from duly.wire.jobs import JobView

MOST_JOBS = 100_000
# As many jobs are made in one transaction.
AT_ONCE = 10_000
PAUSED_BY_FILE = "it is paused in the file that made it"


class Intent(NamedTuple):
    """What is to become of one job: created, changed, unchanged or archived."""

    name: str
    verb: str
    definition: Definition | None = None
    live: JobView | None = None
    changes: Sequence[Change] = ()


def _configure(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="+", help="TOML files with [[jobs]]")
    parser.add_argument(
        "--archive-missing",
        action="store_true",
        help="also cancel jobs that no file names and that no application declares; their history stays",
    )
    remote_options(parser)


def _configure_plan(parser: Parser) -> None:
    _configure(parser)
    parser.add_argument("--exit-status", action="store_true", help="end with 1 when something would change")


def _configure_apply(parser: Parser) -> None:
    _configure(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument(
        "-y", "--yes", action="store_true", help="do not ask: before jobs are archived, or in a protected context such as prod"
    )


def _plan(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        intents = plan(client, _read(arguments.file), archive_missing=arguments.archive_missing)
    show(out, intents)
    return FAILURE if arguments.exit_status and any(one.verb != "unchanged" for one in intents) else OK


def _apply(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        intents = plan(client, _read(arguments.file), archive_missing=arguments.archive_missing)
        if arguments.dry_run:
            show(out, intents)
            return OK
        archived = [one.name for one in intents if one.verb == "archived"]
        if archived and not arguments.yes and not agreed(_question(archived)):
            out.say("Nothing was changed.")
            return CONFLICT
        touched = [one for one in intents if one.verb != "unchanged"]
        if touched and not archived:
            demand(arguments, f"create or change {len(touched)} jobs?")
        return carry_out(client, out, intents)


def _read(files: Sequence[str]) -> list[Definition]:
    found: list[Definition] = []
    faults: list[DulyError] = []
    for file in files:
        try:
            found += definitions.read(Path(file))
        except Several as several:
            faults += several.faults
    if faults:
        raise Several(faults)
    places: dict[str, str] = {}
    for one in found:
        if places.setdefault(one.name, one.where) != one.where:
            where = f"{places[one.name]} and in {one.where}"
            raise Invalid("DULY-E604", f"{one.name} stands in {where}.", hint="Jobs are found again by their names.")
    return found


def read_jobs(path: Path) -> list[dict[str, Any]]:
    """The jobs of a file, as they are sent."""
    return [one.body for one in definitions.read(path)]


def plan(client: Client, wanted: Sequence[Definition], *, archive_missing: bool = False) -> list[Intent]:
    """What is to be done, in the order of the files. Writes nothing. Raises Several for what a server would refuse."""
    now = output.now()
    checker = Checker(client, now)
    every = (
        list(calls.every_page(client.send, lambda cursor: calls.list_jobs(limit=200, cursor=cursor), MOST_JOBS)) if archive_missing else []
    )
    intents: list[Intent] = []
    for one in wanted:
        found = client.send(calls.list_jobs(name=one.name, limit=10)).items
        live = next((job for job in found if job.state != "CANCELLED"), None)
        differing = () if live is None else _differing(live, one, now)
        if live is not None and differing == ():
            intents.append(Intent(one.name, "unchanged", one, live))
        elif checker.check(one, is_new=live is None):
            intents.append(Intent(one.name, "created" if live is None else "changed", one, live, differing or ()))
    checker.refuse()
    names = {one.name for one in wanted}
    missing = (job for job in every if job.state != "CANCELLED" and job.name not in names and job.source is None)
    return [*intents, *(Intent(job.name, "archived", live=job) for job in missing)]


def _differing(live: JobView, one: Definition, now: Instant) -> Sequence[Change] | None:
    """What would change; None for what is not even a job, and cannot be compared with one."""
    try:
        return tuple(changes(live, one.shape, now))
    except Invalid:
        return None


def carry_out(client: Client, out: output.Output, intents: Sequence[Intent]) -> int:
    """Do it, and tell what was done and nothing else. The exit code says whether all of it was."""
    done: set[str] = set()
    failed: list[DulyError] = []

    def attempt(name: str, work: Callable[[], object]) -> None:
        try:
            work()
            done.add(name)
        except DulyError as error:
            failed.append(error)
            out.say(f"{paint('✗', RED, sys.stderr)} {name}: {error.code} {error.message}")

    try:
        _create(client, [one.definition for one in intents if one.verb == "created" and one.definition is not None], done, attempt)
        for one in intents:
            if one.verb == "changed" and one.live is not None and one.definition is not None:
                attempt(one.name, partial(client.send, calls.change_job(one.live.job_id, one.definition.body, version=one.live.version)))
            elif one.verb == "archived" and one.live is not None:
                attempt(one.name, partial(client.send, calls.cancel_job(one.live.job_id, version=one.live.version)))
            elif one.verb == "unchanged":
                done.add(one.name)
    finally:
        told = [one for one in intents if one.name in done]
        if told or not intents:
            show(out, told)
    if not failed:
        return OK
    return PARTLY_DONE if any(one.verb != "unchanged" for one in told) else exit_code(failed[0])


def _create(client: Client, made: Sequence[Definition], done: set[str], attempt: Callable[[str, Callable[[], object]], None]) -> None:
    """All in one transaction, or none. One that is made paused is made without a schedule first, so that it cannot fire in between."""
    bodies = [_asleep(one.body) if one.paused else one.body for one in made]
    for start in range(0, len(bodies), AT_ONCE):
        some = bodies[start : start + AT_ONCE]
        key = hashlib.sha256(msgspec.json.encode([some, output.now() // 60_000_000])).hexdigest()
        views = {view.name: view for view in client.send(create_jobs(some, idempotency_key=key)).items}
        done.update(views)
        for one in made[start : start + AT_ONCE]:
            if one.paused:
                attempt(one.name, partial(_put_to_sleep, client, views[one.name].job_id, one.body))


def _put_to_sleep(client: Client, job_id: str, body: dict[str, Any]) -> None:
    client.send(calls.pause_job(job_id, PAUSED_BY_FILE))
    client.send(calls.change_job(job_id, body))


_WHEN = (
    "type",
    "schedule",
    "seconds",
    "timezone",
    "dstGap",
    "dstOverlap",
    "intervalSec",
    "anchorAt",
    "runAt",
    "delaySec",
    "startAt",
    "endAt",
)
_WITH_A_SCHEDULE = ("calendars", "onExcluded", "jitterSec", "after")


def _asleep(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in _WHEN and key not in _WITH_A_SCHEDULE}


def _question(names: Sequence[str]) -> str:
    return f"Archive {', '.join(names[:5])}{' …' if len(names) > 5 else ''} ({len(names)})?"


def show(out: output.Output, intents: Sequence[Intent]) -> None:
    """What is to be done: as a difference for people, as rows for programs."""
    if not out.is_for_people:
        rows = [{"name": one.name, "was": one.verb, "changes": [change._asdict() for change in one.changes]} for one in intents]
        out.rows(_COLUMNS, rows, name=lambda row: str(row["name"]))
        return
    marks = {"created": ("+", GREEN), "changed": ("~", YELLOW), "archived": ("-", RED), "unchanged": ("=", GREY)}
    for one in intents:
        mark, colour = marks[one.verb]
        paused = ", stays paused" if one.live is not None and one.live.state == "PAUSED" else ""
        print(paint(f"{mark} {one.name}  {one.verb}{paused}", colour))
        for change in one.changes:
            print(f"    {definitions.snake(change.field)}: {paint(_shown(change.before), RED)} → {paint(_shown(change.after), GREEN)}")
    counts = {verb: sum(one.verb == verb for one in intents) for verb in marks}
    out.say(", ".join(f"{number} {verb}" for verb, number in counts.items() if number) or "Nothing is declared.")


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 120 else text[:119] + "…"


_COLUMNS = (
    Column[dict[str, Any]]("job", lambda row: row["name"]),
    Column[dict[str, Any]]("was", lambda row: row["was"]),
    Column[dict[str, Any]]("changes", lambda row: ", ".join(definitions.snake(one["field"]) for one in row["changes"])),
)

COMMANDS = {
    "apply": Command("Create or change the jobs and workflows of TOML files.", _configure_apply, _apply, "duly apply", changes=True),
    "plan": Command("What `duly apply` would do with these files; writes nothing.", _configure_plan, _plan, "duly plan"),
}
