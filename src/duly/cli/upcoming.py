"""`duly next`: what fires when, computed from what the API shows of jobs."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any, NamedTuple

from duly.cli import output, remote
from duly.cli.errors import OK
from duly.cli.output import YELLOW, Column
from duly.cli.parsing import Arguments, Command, Parser, count, remote_options
from duly.cli.remote import MOST_JOBS
from duly.domain.calendars import Calendar
from duly.domain.ids import parse_job_id
from duly.domain.instants import SECOND, Instant, from_rfc3339, to_rfc3339
from duly.domain.jitter import jitter_of
from duly.domain.job import JobType, Timing, schedule_of
from duly.domain.schedule import explain_fire, next_fire
from duly.domain.zones import load_zone
from duly.sdk import calls
from duly.sdk.client import Client
from duly.wire.jobs import JobView
from duly.wire.specs import viewed_calendar


class Fire(NamedTuple):
    """One coming fire of a job."""

    at: Instant
    job: JobView
    note: str | None


def _configure_next(parser: Parser) -> None:
    parser.add_argument("job", metavar="JOB", nargs="?", help="name or id; all jobs otherwise")
    parser.add_argument("-n", "--limit", metavar="N", type=count, default=20, help="at most that many, soonest first (20)")
    parser.add_argument("--tz", metavar="ZONE", help="show times of this zone; this machine's otherwise")
    remote_options(parser)


def _next(arguments: Arguments) -> int:
    out = output.of(arguments)
    zone = None if arguments.tz is None else load_zone(arguments.tz)
    with remote.connect(arguments) as client:
        if arguments.job is not None:
            jobs = [remote.find_job(client, arguments.job)]
        else:
            jobs = list(calls.every_page(client.send, lambda cursor: calls.list_jobs(state="ACTIVE", limit=200, cursor=cursor), MOST_JOBS))
        paused = [] if jobs else client.send(calls.list_jobs(state="PAUSED", limit=200)).items
        calendars = calendars_of(client, jobs)
    soonest = list(_take(heapq.merge(*(_fires_of(job, calendars) for job in jobs), key=lambda fire: fire.at), arguments.limit))
    if out.format in ("json", "jsonl"):
        out.rows([], [_fire_object(fire) for fire in soonest], name=str)
    else:
        out.rows(_fire_columns(zone), soonest, name=lambda fire: fire.job.name)
    if not soonest:
        out.say(_why_no_fire(jobs[0]) if arguments.job is not None else _why_nothing_fires(paused))
    return OK


def calendars_of(client: Client, jobs: Sequence[JobView]) -> dict[str, Calendar]:
    """The calendars that these jobs name."""
    names = sorted({name for job in jobs for name in job.calendars})
    return {name: viewed_calendar(client.send(calls.show_calendar(name))) for name in names}


def _fires_of(job: JobView, calendars: Mapping[str, Calendar]) -> Iterator[Fire]:
    """From the next fire that the server waits for, on and on. A pause with an end is one of the facts about it."""
    if job.next_fire_at is None or (job.state != "ACTIVE" and job.paused_until is None):
        return
    id = parse_job_id(job.job_id)
    timing = timing_of(job, calendars)
    schedule = schedule_of(timing, id)
    at: Instant | None = from_rfc3339(job.next_fire_at)
    skip_at = _instant(job.skip_at)
    while at is not None:
        notes = ["is skipped"] if at == skip_at else []
        if schedule is not None:
            notes += [note for note in (explain_fire(schedule, at),) if note is not None]
            delay = jitter_of(schedule, timing.jitter, id, at)
            notes += [f"starts {output.span(delay)} later (jitter)"] if delay else []
        yield Fire(at, job, "; ".join(notes) or None)
        at = None if schedule is None else next_fire(schedule, at)


def timing_of(job: JobView, calendars: Mapping[str, Calendar]) -> Timing:
    """When a job fires, from what the API shows of it."""
    return Timing(
        type=job.type,
        cron=None if job.type is JobType.RRULE else job.schedule,
        rule=job.schedule if job.type is JobType.RRULE else None,
        seconds=job.seconds,
        zone=job.timezone or "UTC",
        dst_gap=job.dst_gap,
        dst_overlap=job.dst_overlap,
        every=None if job.interval_sec is None else round(job.interval_sec * SECOND),
        anchor=_instant(job.anchor_at),
        run_at=_instant(job.run_at),
        start_at=_instant(job.start_at),
        end_at=_instant(job.end_at),
        calendars=tuple(calendars[name] for name in job.calendars),
        on_excluded=job.on_excluded,
        jitter=round(job.jitter_sec * SECOND),
    )


def _instant(text: str | None) -> Instant | None:
    return None if text is None else from_rfc3339(text)


def _take(fires: Iterator[Fire], most: int) -> Iterator[Fire]:
    for _, fire in zip(range(most), fires, strict=False):
        yield fire


def _fire_object(fire: Fire) -> dict[str, Any]:
    return {"at": to_rfc3339(fire.at), "jobId": fire.job.job_id, "jobName": fire.job.name, "words": fire.job.words, "note": fire.note}


def _fire_columns(zone: tzinfo | None) -> list[Column[Fire]]:
    return [
        Column("in", lambda fire: output.relative(to_rfc3339(fire.at)), lambda fire: to_rfc3339(fire.at), "at"),
        Column("at", lambda fire: output.local(fire.at, zone), None, "local"),
        Column("job", lambda fire: fire.job.name),
        Column("schedule", lambda fire: fire.job.words),
        Column("note", lambda fire: fire.note or "", colour=lambda fire: YELLOW),
    ]


def _why_nothing_fires(paused: Sequence[JobView]) -> str:
    if not paused:
        return "Nothing is scheduled. `duly job create -h` shows how to make a job that fires."
    some = ", ".join(job.name for job in paused[:3]) + (", …" if len(paused) > 3 else "")
    return f"Nothing fires: {some} {'is' if len(paused) == 1 else 'are'} paused. `duly resume JOB` lets one fire again."


def _why_no_fire(job: JobView) -> str:
    if job.state == "PAUSED":
        reason = f": {job.pause_reason}" if job.pause_reason else ""
        return f"{job.name} was paused {output.relative(job.paused_at)}{reason}. `duly job resume {job.name}` lets it fire again."
    if job.state == "ACTIVE":
        return f"{job.name} has no schedule; it runs when it is asked to: duly run {job.name}"
    return f"{job.name} is {job.state.lower()} and fires no more."


COMMANDS = {
    "next": Command("What fires when.", _configure_next, _next, "duly next"),
}
