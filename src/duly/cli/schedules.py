"""`duly schedule`: the jobs that fire, explained, linted, as a calendar file, and spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from duly.cli import output, remote
from duly.cli.asking import demand, yes_option
from duly.cli.errors import FAILURE, OK, PARTLY_DONE
from duly.cli.output import BOLD, GREY, YELLOW, Column, paint
from duly.cli.parsing import Arguments, Command, Group, Parser, count, remote_options
from duly.cli.remote import MOST_JOBS
from duly.cli.upcoming import calendars_of, timing_of
from duly.domain.calendars import Calendar
from duly.domain.errors import DulyError, Invalid
from duly.domain.ids import parse_job_id
from duly.domain.instants import DAY, Instant, to_datetime, to_rfc3339
from duly.domain.job import Timing, schedule_of
from duly.domain.schedule import explain_fire, fires
from duly.domain.spreading import HERD, Load, busiest
from duly.domain.words import describe, lint
from duly.sdk import calls
from duly.sdk.client import Client
from duly.wire.jobs import JobView
from duly.wire.upcoming import MoveView

# So many moves go in one request.
PER_CALL = 200


def _active(client: Client) -> tuple[list[JobView], dict[str, Calendar]]:
    jobs = list(calls.every_page(client.send, lambda cursor: calls.list_jobs(state="ACTIVE", limit=200, cursor=cursor), MOST_JOBS))
    jobs = [job for job in jobs if job.type != "ON_DEMAND"]
    return jobs, calendars_of(client, jobs)


def _timings(jobs: Sequence[JobView], calendars: Mapping[str, Calendar]) -> dict[UUID, Timing]:
    return {parse_job_id(job.job_id): timing_of(job, calendars) for job in jobs}


def _list(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        jobs, _ = _active(client)
    out.rows(_COLUMNS, sorted(jobs, key=lambda job: job.next_fire_at or "~"), name=lambda job: job.name)
    return OK


def _configure_explain(parser: Parser) -> None:
    parser.add_argument("job", metavar="JOB", help="name or id")
    parser.add_argument("-n", "--limit", metavar="N", type=count, default=10, help="how many fires to show (10)")
    remote_options(parser)


def _explain(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        job = remote.find_job(client, arguments.job)
        timing = timing_of(job, calendars_of(client, [job]))
    schedule = schedule_of(timing, parse_job_id(job.job_id))
    if schedule is None:
        raise Invalid("DULY-E604", f"{job.name} has no schedule; it runs when it is asked to.", hint=f"duly run {job.name}")
    found = [(at, explain_fire(schedule, at)) for at in fires(schedule, output.now(), None, arguments.limit)]
    warnings = lint(schedule, now=output.now())
    if not out.is_for_people:
        told = [{"at": to_rfc3339(at), "note": note} for at, note in found]
        out.one(
            [("words", describe(schedule))],
            {"job": job.name, "words": describe(schedule), "fires": told, "warnings": warnings},
            name=job.name,
        )
        return OK
    print(paint(describe(schedule), BOLD))
    for at, note in found:
        print(f"  {output.local(at)}   {paint(output.relative(to_rfc3339(at)), GREY)}{f'   {paint(note, YELLOW)}' if note else ''}")
    for warning in warnings:
        print(f"{paint('!', YELLOW)} {warning}")
    return OK


def _configure_lint(parser: Parser) -> None:
    parser.add_argument("--exit-status", action="store_true", help="end with 1 when there is a finding")
    remote_options(parser)


def lint_of(jobs: Sequence[JobView], calendars: Mapping[str, Calendar], now: Instant) -> list[dict[str, Any]]:
    """What a person may not have meant, job by job."""
    found: list[dict[str, Any]] = []
    for job in jobs:
        try:
            schedule = schedule_of(timing_of(job, calendars), parse_job_id(job.job_id))
        except DulyError as error:
            found.append({"job": job.name, "finding": error.message})
            continue
        found += [{"job": job.name, "finding": text} for text in (lint(schedule, now=now) if schedule is not None else ())]
    return found


def herd(jobs: Sequence[JobView], calendars: Mapping[str, Calendar], now: Instant) -> Load | None:
    """The busiest minute of the next day, where it is crowded."""
    load = busiest(_timings(jobs, calendars), now)
    return load if load is not None and load.fires >= HERD else None


def findings(jobs: Sequence[JobView], calendars: Mapping[str, Calendar], now: Instant) -> list[dict[str, Any]]:
    """What a person may not have meant, job by job, and where they pile up."""
    found = lint_of(jobs, calendars, now)
    load = herd(jobs, calendars, now)
    if load is not None:
        text = (
            f"{load.fires} fires share the minute {to_datetime(load.at):%H:%M} UTC; `duly schedule spread` shows how they would stand apart"
        )
        found.append({"job": "*", "finding": text})
    return found


def _lint(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        found = findings(*_active(client), output.now())
    out.rows(_FINDINGS, found, name=lambda row: str(row["job"]))
    if not found:
        out.say("Nothing to say about any schedule.")
    return FAILURE if found and arguments.exit_status else OK


def _configure_calendar(parser: Parser) -> None:
    parser.add_argument("job", metavar="JOB", nargs="?", help="name or id; all jobs otherwise")
    parser.add_argument("--days", metavar="N", type=count, default=30, help="how far (30)")
    remote_options(parser)


def _calendar(arguments: Arguments) -> int:
    now = output.now()
    with remote.connect(arguments) as client:
        if arguments.job is None:
            jobs, calendars = _active(client)
        else:
            jobs = [remote.find_job(client, arguments.job)]
            calendars = calendars_of(client, jobs)
    print("\r\n".join(_ics(jobs, calendars, now, arguments.days)), end="\r\n")
    return OK


def _ics(jobs: list[JobView], calendars: Mapping[str, Calendar], now: Instant, days: int) -> list[str]:
    """An iCalendar file (RFC 5545) with an event for each fire; jobs that fire more than once an hour are left out."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Duly//duly schedule calendar//EN"]
    for job in jobs:
        id = parse_job_id(job.job_id)
        schedule = schedule_of(timing_of(job, calendars), id)
        found = [] if schedule is None else fires(schedule, now, now + days * DAY, days * 24 + 1)
        for at in found if len(found) <= days * 24 else []:
            moment = to_datetime(at)
            lines += [
                "BEGIN:VEVENT",
                f"UID:{job.job_id}-{at}@duly",
                f"DTSTAMP:{to_datetime(now):%Y%m%dT%H%M%SZ}",
                f"DTSTART:{moment:%Y%m%dT%H%M%SZ}",
                f"DTEND:{moment + timedelta(minutes=5):%Y%m%dT%H%M%SZ}",
                f"SUMMARY:{job.name}",
                "END:VEVENT",
            ]
    return [*lines, "END:VCALENDAR"]


def _configure_spread(parser: Parser) -> None:
    parser.add_argument("--most", metavar="N", type=count, default=HERD, help=f"how many fires a minute may have ({HERD})")
    parser.add_argument("--pool", metavar="POOL", help="only the jobs of this pool")
    parser.add_argument("--apply", action="store_true", help="carry the moves out; those of jobs that are declared in code are left to you")
    yes_option(parser)
    remote_options(parser)


def _spread(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        found = client.send(calls.show_spread(most=arguments.most, pool=arguments.pool))
        own = [move for move in found.moves if move.source is None]
        if own and arguments.apply and not arguments.withhold:
            demand(arguments, f"move the schedules of {len(own)} jobs?")
        answers = (
            [client.send(calls.reschedule_jobs(own[at : at + PER_CALL])) for at in range(0, len(own), PER_CALL)] if arguments.apply else []
        )
    out.rows(_MOVES, found.moves, name=lambda move: move.job_name)
    if not found.moves:
        out.say("No minute of the next day has more fires than that.")
        return OK
    most = [max(minute.before for minute in found.minutes), max(minute.after for minute in found.minutes)]
    out.say(f"\nThe busiest minute has {most[0]} fires now, and {most[1]} after {len(found.moves)} moves.")
    if not arguments.apply:
        out.say("Nothing was changed: `--apply` does it, but for jobs that are declared in code.")
        return OK
    out.say(f"Moved {sum(len(answer.done) for answer in answers)}; {len(found.moves) - len(own)} are declared in code, and moved there.")
    refused = [each for answer in answers for each in answer.refused]
    for each in refused:
        out.say(f"{paint('!', YELLOW)} {each.job_id}: {each.detail}")
    return PARTLY_DONE if refused else OK


_COLUMNS: list[Column[JobView]] = [
    Column("next", lambda job: output.relative(job.next_fire_at), lambda job: job.next_fire_at or ""),
    Column("job", lambda job: job.name, None, "name"),
    Column("schedule", lambda job: job.words, None, "words"),
    Column("expression", lambda job: job.schedule or "", None, "schedule"),
    Column("zone", lambda job: job.timezone or "", None, "timezone"),
]
_FINDINGS = (Column[dict[str, Any]]("job", lambda row: row["job"]), Column[dict[str, Any]]("finding", lambda row: row["finding"]))
_MOVES = (
    Column[MoveView]("job", lambda move: move.job_name, None, "job_name"),
    Column[MoveView]("before", lambda move: move.before),
    Column[MoveView]("after", lambda move: move.after),
    Column[MoveView]("declared in", lambda move: move.source or "", None, "source"),
)

COMMANDS = {
    "schedule": Group(
        "Schedules: what fires when, and whether that was meant.",
        "duly schedule",
        {
            "list": Command("the jobs that fire, soonest first", remote_options, _list, "duly schedule list"),
            "explain": Command(
                "one of them: words, fires, what the clocks do to them, lint", _configure_explain, _explain, "duly schedule explain"
            ),
            "lint": Command("what may not have been meant, in all of them", _configure_lint, _lint, "duly schedule lint"),
            "calendar": Command("their fires as an iCalendar file", _configure_calendar, _calendar, "duly schedule calendar"),
            "spread": Command(
                "which jobs would have to move so that no minute is crowded; moves them with --apply",
                _configure_spread,
                _spread,
                "duly schedule spread",
                changes=True,
            ),
        },
    )
}
