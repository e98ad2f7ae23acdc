"""The verbs of every day: `ps`, `next`, `logs`."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any, NamedTuple

import msgspec

from duly.cli import output, remote
from duly.cli.errors import OK
from duly.cli.execution_text import COLUMNS
from duly.cli.output import GREY, RED, YELLOW, Column, Output
from duly.cli.parsing import Arguments, Command, Parser, remote_options
from duly.domain.calendars import Calendar
from duly.domain.errors import NotFound
from duly.domain.ids import parse_job_id
from duly.domain.instants import SECOND, Instant, from_rfc3339, to_rfc3339
from duly.domain.jitter import jitter_of
from duly.domain.job import JobType, Timing, schedule_of
from duly.domain.schedule import explain_fire, next_fire
from duly.domain.zones import load_zone
from duly.sdk import calls
from duly.sdk.client import Client
from duly.sdk.streams import log_line
from duly.wire.calendars import viewed_calendar
from duly.wire.executions import ExecutionView, LogLineView
from duly.wire.jobs import JobView

MOST_JOBS = 10_000
_LEVEL_COLOURS = {"warning": YELLOW, "error": RED, "critical": RED, "debug": GREY}


def count(text: str) -> int:
    """A number of things to show."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 100_000:
        raise ValueError(text)
    return int(text)


# argparse names the reader in its message.
count.__name__ = "count"


# ---------------------------------------------------------------- ps


def _configure_ps(parser: Parser) -> None:
    parser.add_argument("-n", "--limit", metavar="N", type=count, default=50, help="at most that many of each state (50)")
    remote_options(parser)


def _ps(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        found: list[ExecutionView] = []
        for state in ("RUNNING", "PENDING"):
            found += client.send(calls.list_executions(state=state, limit=min(arguments.limit, 200))).items
        out.rows(COLUMNS[:-1], found, name=lambda execution: execution.execution_id)
        if out.is_for_people and not out.quiet:
            _summarise(client, out, found)
    return OK


def _summarise(client: Client, out: Output, found: list[ExecutionView]) -> None:
    stats = client.send(calls.show_stats())
    counts = [
        f"{number:,} {state.lower()}"
        for state in ("RUNNING", "PENDING", "BLOCKED", "SCHEDULED")
        if (number := stats.executions.get(state, 0))
    ]
    if found:
        out.say(f"\n{', '.join(counts)}" if counts else "")
    elif counts:
        out.say(f"Nothing runs and nothing is ready; {', '.join(counts)}.")
    else:
        out.say("Nothing runs and nothing waits. `duly next` shows what fires when; `duly run JOB` starts something now.")
    if stats.workers == 0:
        out.say("No worker is alive: start one with `duly worker`, or `duly up`.")


# ---------------------------------------------------------------- next


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
        calendars = _calendars_of(client, jobs)
    soonest = list(_take(heapq.merge(*(_fires_of(job, calendars) for job in jobs), key=lambda fire: fire.at), arguments.limit))
    if out.format in ("json", "jsonl"):
        out.rows([], [_fire_object(fire) for fire in soonest], name=str)
    else:
        out.rows(_fire_columns(zone), soonest, name=lambda fire: fire.job.name)
    if not soonest:
        out.say(
            _why_no_fire(jobs[0])
            if arguments.job is not None
            else "Nothing is scheduled. `duly job create -h` shows how to make a job that fires."
        )
    return OK


def _calendars_of(client: Client, jobs: Sequence[JobView]) -> dict[str, Calendar]:
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


def _why_no_fire(job: JobView) -> str:
    if job.state == "PAUSED":
        reason = f": {job.pause_reason}" if job.pause_reason else ""
        return f"{job.name} was paused {output.relative(job.paused_at)}{reason}. `duly job resume {job.name}` lets it fire again."
    if job.state == "ACTIVE":
        return f"{job.name} has no schedule; it runs when it is asked to: duly run {job.name}"
    return f"{job.name} is {job.state.lower()} and fires no more."


# ---------------------------------------------------------------- logs


def logs_options(parser: Parser) -> None:
    """Also those of `duly run logs`."""
    parser.add_argument("what", metavar="RUN|JOB", help="a run's id, or a job's name or id for its latest run")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run has ended")
    parser.add_argument("--attempt", metavar="N", type=count, help="one attempt only")
    remote_options(parser)


def logs(arguments: Arguments) -> int:
    """Print what was logged, as it was logged."""
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        execution_id = _latest(client, out, arguments.what)
        if not arguments.follow:
            lines = calls.every_page(
                client.send,
                lambda cursor: calls.list_logs(execution_id, attempt=arguments.attempt, limit=1000, cursor=cursor),
                1 << 30,
            )
            return _print_page(out, list(lines), client, execution_id)
        for event in client.stream(calls.follow_logs(execution_id, attempt=arguments.attempt)):
            line = log_line(event)
            if line is not None:
                _print_line(out, line)
            elif event.name == "end":
                state = msgspec.json.decode(event.data)["state"]
                out.say(output.paint(output.state_text(state), output.state_colour(state)))
    return OK


def _latest(client: Client, out: Output, what: str) -> str:
    if remote.is_run(what):
        return remote.run_id(what)
    job = remote.find_job(client, what)
    latest = client.send(calls.list_executions(job_id=job.job_id, limit=1)).items
    if not latest:
        raise NotFound("DULY-E205", f"{job.name} has not run yet.", hint=f"Run it now: duly run {job.name}")
    out.say(output.paint(f"{latest[0].execution_id}, due {output.relative(latest[0].scheduled_at)}", GREY))
    return latest[0].execution_id


def _print_page(out: Output, lines: list[LogLineView], client: Client, execution_id: str) -> int:
    if out.format == "json":
        out.rows([], lines, name=str)
        return OK
    for line in lines:
        _print_line(out, line)
    if not lines:
        state = client.send(calls.show_execution(execution_id)).state
        out.say(f"It logged nothing; it is {state.lower()}.")
    return OK


def _print_line(out: Output, line: LogLineView) -> None:
    if out.format in ("json", "jsonl"):
        print(msgspec.json.encode(line).decode(), flush=True)
        return
    extra = "".join(
        f" {key}={value if isinstance(value, str) else msgspec.json.encode(value).decode()}" for key, value in line.fields.items()
    )
    at = output.today(line.at) if out.is_for_people else line.at
    level = output.paint(f"{line.level:<7}", _LEVEL_COLOURS.get(line.level))
    print(f"{output.paint(at, GREY)} {level} {line.message}{output.paint(extra, GREY)}", flush=True)


COMMANDS = {
    "ps": Command("What runs and what waits for a worker, now.", _configure_ps, _ps, "duly ps"),
    "next": Command("What fires when.", _configure_next, _next, "duly next"),
    "logs": Command("What a run, or a job's latest run, has logged.", logs_options, logs, "duly logs"),
}
