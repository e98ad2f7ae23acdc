"""`duly job`: list, show, create, pause, resume, skip, delete, run; the daily verbs among them also stand alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from duly.cli import output, remote, runs
from duly.cli.errors import OK
from duly.cli.execution_text import situation
from duly.cli.output import Column
from duly.cli.parsing import Arguments, Command, Group, Parser, count, dry_run_option, later, remote_options
from duly.cli.remote import MOST_JOBS
from duly.cli.times import later_of
from duly.cli.values import json_value, seconds_of
from duly.domain.choices import JobType
from duly.domain.errors import Invalid
from duly.domain.zones import load_zone
from duly.sdk import calls
from duly.wire.jobs import JobDetailView, JobStateName, JobView
from duly.wire.targets import TargetShape


def target_text(target: TargetShape) -> str:
    """What runs, in one line."""
    if target.handler is not None:
        return target.handler
    if target.http is not None:
        return f"{target.http.method} {target.http.url}"
    return "$ " + " ".join(target.shell or ())


def _configure_list(parser: Parser) -> None:
    parser.add_argument(
        "--state", choices=[state.lower() for state in JobStateName], help="jobs in this state only; otherwise all that are not cancelled"
    )
    parser.add_argument("--search", metavar="TEXT", help="jobs whose name contains this")
    parser.add_argument("--pool", help="jobs of this pool")
    parser.add_argument("--handler", metavar="NAME", help="jobs of this handler")
    parser.add_argument("--type", choices=[kind.lower() for kind in JobType], help="jobs of this kind")
    parser.add_argument("-n", "--limit", metavar="N", type=count, default=MOST_JOBS, help="at most that many, newest first")
    remote_options(parser)


def _list(arguments: Arguments) -> int:
    out = output.of(arguments)
    state = arguments.state and arguments.state.upper()

    def listing(cursor: str | None) -> calls.Call[Any]:
        return calls.list_jobs(
            state=state,
            search=arguments.search,
            pool=arguments.pool,
            handler=arguments.handler,
            type=arguments.type and arguments.type.upper(),
            limit=200,
            cursor=cursor,
        )

    with remote.connect(arguments) as client:
        found = list(calls.every_page(client.send, listing, arguments.limit))
    if state is None:
        found = [job for job in found if job.state is not JobStateName.CANCELLED]
    out.rows(_COLUMNS, found, name=lambda job: job.name)
    if not found:
        filtered = state or arguments.search or arguments.pool or arguments.handler or arguments.type
        out.say("No job is like that." if filtered else "There are no jobs yet. `duly job create -h` shows how to make one.")
    return OK


def _configure_one(parser: Parser) -> None:
    parser.add_argument("job", metavar="JOB", help="name or id")
    remote_options(parser)


def _show(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        job = client.send(calls.show_job(remote.find_job(client, arguments.job).job_id))
    out.one(_fields(job), job, name=job.name)
    return OK


def _configure_pause(parser: Parser) -> None:
    parser.add_argument("-m", "--reason", metavar="TEXT", help="why; shown to whoever asks")
    parser.add_argument(
        "--until",
        metavar="TIME",
        help='until then, such as 09:00, 2h, "2026-12-28 08:00" or 2026-12-28T07:00:00Z; otherwise until it is resumed',
    )
    dry_run_option(parser)
    _configure_one(parser)


def _pause(arguments: Arguments) -> int:
    output.of(arguments)  # the zone of --tz, in which a time without an offset is read
    until = None if arguments.until is None else later_of(arguments.until, "--until")
    remark = "is paused: it fires no more until `duly resume {name}`." if until is None else "is paused; it fires again {next}."
    return _change(arguments, lambda job: calls.pause_job(job.job_id, arguments.reason, until=until), remark)


def _configure_skip(parser: Parser) -> None:
    parser.add_argument("--at", metavar="TIME", help="the fire at this time, such as 03:00 or 2026-12-24T03:00:00Z; otherwise the next one")
    _configure_one(parser)


def _skip(arguments: Arguments) -> int:
    output.of(arguments)
    at = None if arguments.at is None else later_of(arguments.at, "--at")
    return _change(
        arguments, lambda job: calls.skip_fire(job.job_id, at=at), "skips the fire {skip}; `duly unskip {name}` takes that back."
    )


def _unskip(arguments: Arguments) -> int:
    return _change(arguments, lambda job: calls.unskip_fire(job.job_id), "skips nothing; it fires {next}.")


def _resume(arguments: Arguments) -> int:
    return _change(arguments, lambda job: calls.resume_job(job.job_id), "fires again, next {next}.")


def _delete(arguments: Arguments) -> int:
    if not arguments.yes and sys.stdin.isatty() and sys.stderr.isatty():
        print(f"Delete {arguments.job}? Its history stays; it cannot be brought back. [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            print("Nothing was changed.", file=sys.stderr)
            return OK
    return _change(
        arguments,
        lambda job: calls.cancel_job(job.job_id),
        "is cancelled: it fires no more; what waits or runs goes on, and its history stays.",
    )


def _configure_delete(parser: Parser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    _configure_one(parser)


def _change(arguments: Arguments, call: Callable[[JobView], calls.Call[JobView]], remark: str) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        job = client.send(call(remote.find_job(client, arguments.job)))
    if out.is_for_people:
        out.say(f"{job.name} " + remark.format(name=job.name, next=output.relative(job.next_fire_at), skip=output.relative(job.skip_at)))
    else:
        out.one(_fields(job), job, name=job.name)
    return OK


# ---------------------------------------------------------------- create


def _configure_create(parser: Parser) -> None:
    parser.add_argument("--file", metavar="FILE", help="the job as the API takes it, in JSON; - reads standard input. Flags change it")
    parser.add_argument("--name", help="unique among the jobs that live")
    when = parser.add_argument_group("when it fires (one of them; otherwise only when it is run)").add_mutually_exclusive_group()
    when.add_argument("--cron", metavar="EXPRESSION", help='such as "30 2 * * *"; try it with `duly cron`')
    when.add_argument("--rrule", metavar="RULE", help='such as "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9"')
    when.add_argument("--every", metavar="TIME", help="such as 15m")
    when.add_argument("--at", metavar="TIME", help="once, such as 2026-03-08T07:00:00Z; one without an offset is in the zone of --tz")
    when.add_argument("--in", metavar="TIME", dest="delay", help="once, after a while, such as 5m")
    parser.add_argument("--tz", metavar="ZONE", help="the zone of --cron or --rrule, such as Europe/Berlin")
    parser.add_argument("--seconds", action="store_true", help="--cron has six fields, seconds first")
    parser.add_argument("--calendar", metavar="NAME", action="append", help="a calendar that it keeps to; may be given several times")
    parser.add_argument("--on-excluded", metavar="POLICY", help="on a closed day: skip, next_business_day or previous_business_day")
    parser.add_argument("--jitter", metavar="TIME", help="start up to that much later, such as 30s")
    what = parser.add_argument_group("what it runs (one of them)").add_mutually_exclusive_group()
    what.add_argument("--handler", metavar="NAME", help="a function of your application, or duly.echo")
    what.add_argument("--url", metavar="URL", dest="hook", help="a webhook")
    what.add_argument("--shell", metavar="WORD", nargs="+", help="a command and its arguments; those with a - in front go last, after --")
    parser.add_argument("--method", help="of the webhook (POST)")
    parser.add_argument("--header", metavar="NAME=VALUE", action="append", help="of the webhook; a VALUE may have ${secret:env:NAME} in it")
    parser.add_argument("--env", metavar="NAME=VALUE", action="append", help="a variable of the command, in the same way")
    parser.add_argument("--pool", help="the pool whose workers run it (default)")
    parser.add_argument("--payload", metavar="JSON", help="what the handler gets; @file reads a file, - standard input")
    parser.add_argument("--retry", metavar="N", type=count, help="how many attempts at most (3)")
    parser.add_argument("--timeout", metavar="TIME", help="how long an attempt may take, such as 10m")
    parser.add_argument("--execution-timeout", metavar="TIME", help="how long all attempts together may take, from its due time on")
    parser.add_argument("--heartbeat-timeout", metavar="TIME", help="how long its handler may be silent")
    parser.add_argument("--stop-grace", metavar="TIME", help="how long it may take to stop when it is asked (10s)")
    parser.add_argument(
        "--overlap",
        metavar="POLICY",
        help="when the previous run still runs: skip, queue_one, queue_all, allow, cancel_previous or kill_previous",
    )
    parser.add_argument(
        "--after",
        metavar="JOB",
        action="append",
        help="fire only after this job has succeeded for the same day; may be given again",
    )
    parser.add_argument("--description", metavar="TEXT")
    remote_options(parser)


def _create(arguments: Arguments) -> int:
    out = output.of(arguments)
    job = _job_of(arguments)
    with remote.connect(arguments) as client:
        made = client.send(calls.create_job(job))
        out.one(_fields(made), made, name=made.name)
        if out.is_for_people:
            out.say(f"\nRun it now: duly run {made.name}")
        from duly.cli.fleet import say_if_nobody_serves

        say_if_nobody_serves(client, out, made.job_id)
    return OK


def _job_of(arguments: Arguments) -> dict[str, Any]:
    """The JSON object that the flags say, on top of the file's."""
    job: Any = {} if arguments.file is None else json_value(arguments.file if arguments.file == "-" else f"@{arguments.file}", "--file")
    if not isinstance(job, dict):
        raise Invalid(
            "DULY-E107", "is not a JSON object.", field="--file", hint='For example {"name": "hello", "target": {"handler": "duly.echo"}}.'
        )
    given: dict[str, Any] = {
        "name": arguments.name,
        "type": None if arguments.rrule is None else "RRULE",
        "schedule": arguments.cron if arguments.rrule is None else arguments.rrule,
        "calendars": arguments.calendar,
        "onExcluded": arguments.on_excluded,
        "jitterSec": None if arguments.jitter is None else seconds_of(arguments.jitter, "--jitter"),
        "timezone": arguments.tz,
        "seconds": arguments.seconds or None,
        "intervalSec": None if arguments.every is None else seconds_of(arguments.every, "--every"),
        "runAt": None
        if arguments.at is None
        else later_of(arguments.at, "--at", None if arguments.tz is None else load_zone(arguments.tz)),
        "delaySec": None if arguments.delay is None else seconds_of(arguments.delay, "--in"),
        "timeoutSec": _seconds(arguments, "timeout"),
        "executionTimeoutSec": _seconds(arguments, "execution_timeout"),
        "heartbeatTimeoutSec": _seconds(arguments, "heartbeat_timeout"),
        "stopGraceSec": _seconds(arguments, "stop_grace"),
        "overlap": arguments.overlap,
        "after": [{"job": name} for name in arguments.after] if arguments.after else None,
        "description": arguments.description,
        "retryPolicy": None if arguments.retry is None else {**job.get("retryPolicy", {}), "maxAttempts": arguments.retry},
    }
    job |= {key: value for key, value in given.items() if value is not None}
    if arguments.payload is not None:
        job["payload"] = json_value(arguments.payload, "--payload")
    target = _target_of(arguments, job.get("target"), has_steps=bool(job.get("steps")))
    if target is not None:
        job["target"] = target
    return job


def _seconds(arguments: Arguments, name: str) -> float | None:
    text = getattr(arguments, name)
    return None if text is None else seconds_of(text, f"--{name.replace('_', '-')}")


def _target_of(arguments: Arguments, before: Any, *, has_steps: bool) -> dict[str, Any] | None:
    """What runs it. A workflow has steps, each with a target of its own."""
    target: dict[str, Any] = dict(before) if isinstance(before, dict) else {}
    command = [*(arguments.shell or ()), *arguments.rest]
    if arguments.rest and (arguments.handler or arguments.hook):
        raise Invalid("DULY-E604", f"{arguments.rest[0]!r} is one word too many.", hint="Only a command (--shell) has words after --.")
    own: dict[str, Any] | None = None
    if arguments.handler is not None:
        own = {"handler": arguments.handler}
    elif arguments.hook is not None:
        own = {"http": {"url": arguments.hook, **({"method": arguments.method.upper()} if arguments.method else {})}}
        own["http"] |= {"headers": _pairs(arguments.header, "--header")} if arguments.header else {}
    elif command:
        own = {"shell": command} | ({"env": _pairs(arguments.env, "--env")} if arguments.env else {})
    for option, goes_with in (("header", "http"), ("env", "shell")):
        if getattr(arguments, option) and (own is None or goes_with not in own):
            raise Invalid("DULY-E604", f"goes with {'--url' if option == 'header' else '--shell'} only.", field=f"--{option}")
    if own is None and not target and not has_steps:
        raise Invalid(
            "DULY-E604", "Nothing says what to run.", hint="Give one of --handler NAME, --url URL, --shell COMMAND … and --file FILE."
        )
    if own is not None:
        target = {key: value for key, value in target.items() if key in ("pool", "requires")} | own
    return (target | ({"pool": arguments.pool} if arguments.pool else {})) or None


def _pairs(words: Sequence[str], option: str) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    if any(not name or not equals for name, equals, _ in pairs):
        raise Invalid("DULY-E604", "expected NAME=VALUE.", field=option)
    return {name: value for name, _, value in pairs}


# ---------------------------------------------------------------- words


def _fields(job: JobView) -> list[tuple[str, str | None]]:
    paused = None if job.paused_at is None else f"{output.relative(job.paused_at)} by {job.paused_by}"
    if paused is not None and job.paused_until is not None:
        paused += f", until {output.moment(job.paused_until)}"
    if paused is not None and job.pause_reason:
        paused += f": {job.pause_reason}"
    shown: list[tuple[str, str | None]] = [
        ("job", job.name),
        ("id", job.job_id),
        ("state", output.state_text(job.state)),
        ("paused", paused),
        ("schedule", f"{job.words}{f'   ({job.schedule})' if job.schedule else ''}"),
        ("calendars", f"{', '.join(job.calendars)}, {job.on_excluded}" if job.calendars else None),
        ("jitter", f"up to {output.span(round(job.jitter_sec * 1_000_000))}" if job.jitter_sec else None),
        ("next", output.moment(job.next_fire_at)),
        ("skips", None if job.skip_at is None else f"{output.moment(job.skip_at)}, asked by {job.skip_by}"),
        ("runs", target_text(job.target)),
        ("pool", job.target.pool + "".join(f", {key}={value}" if value else f", {key}" for key, value in job.target.requires.items())),
        ("payload", None if job.payload is None else msgspec.json.encode(job.payload).decode()),
        ("retry", f"{job.retry_policy.max_attempts} attempts, {job.retry_policy.backoff.lower()}"),
        ("timeout", _limits(job)),
        ("policies", _policies(job)),
        ("limits", _how_many(job)),
        ("after", _after(job)),
        ("alert", _alert(job)),
        ("about", job.description),
        ("source", job.source),
        ("version", f"{job.version}, since {output.relative(job.updated_at)}"),
    ]
    if isinstance(job, JobDetailView):
        fires = "\n".join(f"{output.local(output.instant(at))}  ({output.relative(at)})" for at in job.next_fires[1:])
        latest = "\n".join(f"{situation(run)}  {output.relative(run.scheduled_at)}  {run.execution_id}" for run in job.latest_executions)
        shown += [("then", fires or None), ("latest", latest or "has not run yet")]
    return shown


def _policies(job: JobView) -> str:
    overlap = f"overlap {job.overlap}" + ("" if job.max_running is None else f" up to {job.max_running}")
    return f"{overlap}, catch up {job.catch_up.policy}, priority {job.priority.lower()}"


def _after(job: JobView) -> str | None:
    """What it waits for."""
    told = [f"{one.job} of the same {one.per}; {one.on_deadline}s after {one.within_sec / 3600:g} h" for one in job.after]
    return "\n".join(told) or None


def _alert(job: JobView) -> str | None:
    """What is told about it, and whom."""
    if job.alert is None:
        return None
    from duly.domain.alerts.of_job import rules_of
    from duly.domain.alerts.words import rule_words
    from duly.wire.specs import alert_of

    told = [rule_words(rule) for rule in rules_of(alert_of(job.alert), job.name, None)]
    return "\n".join([*told, f"tells {', '.join(job.alert.to)}" if job.alert.to else "tells nobody: it names no channel"])


def _how_many(job: JobView) -> str | None:
    """How many at once, how many in a time, and which are the same."""
    said = [] if job.max_concurrent is None else [f"{job.max_concurrent} at a time"]
    if (running := job.concurrency) is not None:
        said.append(f"{running.max} at a time{_whose(running.key, running.name)}")
    if (rate := job.rate_limit) is not None:
        said.append(f"{rate.count} in {rate.per_sec:g} s{_whose(rate.key, rate.name)}")
    if (unique := job.unique) is not None:
        said.append(f"unique{_whose(unique.key, None)}" + ("" if unique.for_sec is None else f" for {unique.for_sec:g} s"))
    return ", ".join(said) or None


def _whose(key: str | list[str], name: str | None) -> str:
    fields = [key] if isinstance(key, str) else key
    return (f" per {', '.join(fields)}" if fields else "") + (f" of {name}" if name else "")


def _limits(job: JobView) -> str | None:
    """Its time limits, those that it has."""
    found = (("", job.timeout_sec), ("all attempts ", job.execution_timeout_sec), ("heartbeat ", job.heartbeat_timeout_sec))
    return ", ".join(f"{name}{output.span(round(value * 1_000_000))}" for name, value in found if value is not None) or None


_COLUMNS: list[Column[JobView]] = [
    Column("state", lambda job: output.state_text(job.state), lambda job: job.state, colour=lambda job: output.state_colour(job.state)),
    Column("name", lambda job: job.name),
    Column("schedule", lambda job: job.words),
    Column("next", lambda job: output.relative(job.next_fire_at), lambda job: job.next_fire_at or ""),
    Column("runs", lambda job: target_text(job.target)),
    Column("pool", lambda job: job.target.pool),
    Column("id", lambda job: job.job_id),
]

_EXAMPLES = """
examples:
  duly job create --name nightly --cron "30 2 * * *" --tz Europe/Berlin --handler nightly_report --payload '{"region": "eu"}'
  duly job create --name ping --every 15m --url https://example.com/hooks/ping
  duly job create --name backup --cron "0 3 * * *" --shell pg_dump -- -Fc shop
  duly job create --file job.json
"""

_PAUSE = ("no fire until it is resumed, or until a time", _configure_pause, _pause)
_RESUME = ("fire again from now on", _configure_one, _resume)
_SKIP = ("let one fire pass: the next one, or the one at a time", _configure_skip, _skip)
_UNSKIP = ("take a skip back", _configure_one, _unskip)

COMMANDS = {
    "pause": Command(*_PAUSE, "duly pause"),
    "resume": Command(*_RESUME, "duly resume", changes=True),
    "skip": Command(*_SKIP, "duly skip", changes=True),
    "unskip": Command(*_UNSKIP, "duly unskip", changes=True),
    "job": Group(
        "Jobs: what runs, when, and under which policies.",
        "duly job",
        {
            "list": Command("all jobs, newest first", _configure_list, _list, "duly job list"),
            "show": Command("one job: schedule, policies, next fires, latest runs", _configure_one, _show, "duly job show"),
            "create": Command("make a job", _configure_create, _create, "duly job create", _EXAMPLES, takes_rest=True, changes=True),
            "pause": Command(*_PAUSE, "duly job pause"),
            "resume": Command(*_RESUME, "duly job resume", changes=True),
            "skip": Command(*_SKIP, "duly job skip", changes=True),
            "unskip": Command(*_UNSKIP, "duly job unskip", changes=True),
            "delete": Command("cancel a job and its future fires", _configure_delete, _delete, "duly job delete", changes=True),
            "export": Command(
                "jobs as TOML that `duly apply` reads",
                later("versions", "configure_export"),
                later("versions", "export"),
                "duly job export",
            ),
            "edit": Command("change a job in your editor", later("versions", "configure_edit"), later("versions", "edit"), "duly job edit"),
            "history": Command(
                "its versions, and what each changed",
                later("versions", "configure_history"),
                later("versions", "history"),
                "duly job history",
            ),
            "diff": Command(
                "what one version changed of another", later("versions", "configure_diff"), later("versions", "diff"), "duly job diff"
            ),
            "grid": Command("its runs side by side", later("grid", "configure"), later("grid", "grid"), "duly job grid"),
            "run": Command("run a job now", runs.run_options, runs.run, "duly job run", changes=True),
        },
    ),
}
