"""`duly doctor`: looks at everything that has gone wrong for somebody, and names a fix for what it finds.

A check never ends the examination: what it cannot find out is a finding too.
"""

from __future__ import annotations

import os
import resource
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from duly import config
from duly.adapters.sql.engine import Engine
from duly.adapters.sql.migrate import Migration, pending
from duly.adapters.sql.store import store_on
from duly.cli import db, output
from duly.cli.errors import FAILURE, OK
from duly.cli.fleet import handler_of, serves
from duly.cli.output import GREEN, GREY, RED, YELLOW, Output, paint
from duly.cli.parsing import Arguments, Command, Parser, remote_options
from duly.cli.places import masked, near
from duly.compose.node import sealed
from duly.domain.access import DEFAULT_TENANT_NUMBER
from duly.domain.errors import DulyError
from duly.domain.instants import SECOND, Micros
from duly.domain.job import SHELL_HANDLER
from duly.domain.secrets import is_sealed
from duly.domain.zones import tzdata_version
from duly.ports.store import ExecutionFilter, JobFilter
from duly.sdk import calls
from duly.sdk.client import Client
from duly.wire.fleet import PoolView, WorkerView
from duly.wire.jobs import JobView

OLDEST_PYTHON = (3, 11)
OLDEST_SQLITE = (3, 38)
TOLERATED_SKEW: Micros = SECOND // 2
LEAST_DISK = 500 << 20
LEAST_FILES = 1024
SYSTEM_TZDATA = Path("/usr/share/zoneinfo/tzdata.zi")
MOST_JOBS = 2000
MOST_NAMED = 5
LONG_WAIT: Micros = 60 * SECOND

PASS, WARN, FAIL = "pass", "warn", "fail"
_MARKS = {PASS: ("✓", GREEN), WARN: ("!", YELLOW), FAIL: ("✗", RED)}


class Finding(NamedTuple):
    """What was looked at, how it is, and what to do about it."""

    check: str
    verdict: str
    text: str
    fix: str | None = None


def examine(settings: config.Settings) -> Iterator[Finding]:
    """Every finding, one after the other."""
    checks: Sequence[Callable[[config.Settings], Iterator[Finding]]] = (_versions, _zones, _store, _payloads, _files, _limits, _server)
    for check in checks:
        try:
            yield from check(settings)
        except DulyError as error:
            yield Finding(check.__name__.strip("_"), FAIL, f"{error.code}: {error.message}", error.hint)


def _versions(settings: config.Settings) -> Iterator[Finding]:
    python = sys.version_info[:3]
    text = f"Python {'.'.join(map(str, python))}"
    yield Finding(
        "python", PASS if python >= OLDEST_PYTHON else FAIL, text, None if python >= OLDEST_PYTHON else "Install Python 3.11 or newer."
    )
    fine = sqlite3.sqlite_version_info >= OLDEST_SQLITE
    yield Finding(
        "sqlite", PASS if fine else FAIL, f"SQLite {sqlite3.sqlite_version}", None if fine else "Use a Python with SQLite 3.38 or newer."
    )


def _zones(settings: config.Settings) -> Iterator[Finding]:
    ours = tzdata_version()
    try:
        system = SYSTEM_TZDATA.read_text("ascii").partition("\n")[0].rsplit(maxsplit=1)[-1]
    except (OSError, ValueError, IndexError):
        yield Finding("tzdata", PASS, f"time zones are those of tzdata {ours}; this system names no version of its own")
        return
    if system > ours:
        yield Finding(
            "tzdata", WARN, f"Duly computes with tzdata {ours}, this system has {system}", "pip install --upgrade tzdata, then restart."
        )
    else:
        older = "" if system == ours else f" (this system's {system} is not used)"
        yield Finding("tzdata", PASS, f"time zones are those of tzdata {ours}{older}")


def _store(settings: config.Settings) -> Iterator[Finding]:
    path = db.sqlite_file(settings.store)
    where = near(path) if path is not None else masked(settings.store)
    if path is not None and not path.exists():
        yield Finding("store", WARN, f"there is no store at {where} yet", "`duly up` makes it; DULY_HOME or DULY_STORE name another.")
        return

    async def look(engine: Engine) -> tuple[Micros, list[Migration], bool]:
        before = output.now()
        there = await engine.store_now()
        skew = there - (before + output.now()) // 2
        return skew, await pending(engine), await engine.has_wall()

    skew, waiting, is_walled = db.on_store(settings.store, look)
    yield Finding("store", PASS, f"the store at {where} answers")
    if waiting:
        yield Finding("schema", FAIL, f"the schema lacks {len(waiting)} migration(s)", "duly db upgrade")
    else:
        yield Finding("schema", PASS, "the schema is current")
    if path is None and not waiting:
        yield _wall(is_walled)
    if path is not None:
        yield Finding("clock", PASS, "the store goes by this machine's clock")
    elif abs(skew) > TOLERATED_SKEW:
        text = f"this machine's clock is {output.span(abs(skew))} {'behind' if skew > 0 else 'ahead of'} the store's"
        yield Finding("clock", WARN, text, "Roles correct for it; still, synchronise the clocks (chrony or systemd-timesyncd).")
    else:
        yield Finding("clock", PASS, f"this machine's clock and the store's differ by {output.span(abs(skew))}")


def _payloads(settings: config.Settings) -> Iterator[Finding]:
    """Whether this process could read what is encrypted: the newest jobs and executions of the default tenant tell."""
    path = db.sqlite_file(settings.store)
    if path is not None and not path.exists():
        return

    async def look(engine: Engine) -> tuple[int, int]:
        if await pending(engine):
            return 0, 0
        store = sealed(store_on(engine), settings)
        jobs = await store.definitions.jobs(JobFilter(DEFAULT_TENANT_NUMBER, limit=200, now=output.now()))
        executions = await store.insights.executions(ExecutionFilter(DEFAULT_TENANT_NUMBER, limit=200))
        payloads = [job.version.spec.payload for job in jobs] + [execution.payload for execution in executions]
        return len(payloads), sum(is_sealed(payload) for payload in payloads)

    seen, closed = db.on_store(settings.store, look)
    if closed:
        text = f"{closed:,} of the latest {seen:,} payloads are encrypted with a key that is not here"
        yield Finding("payloads", WARN, text, "Put that key into DULY_PAYLOAD_KEYS, after the one that writes.")
    elif settings.payload_keys:
        yield Finding("payloads", PASS, f"payloads are encrypted with the key {settings.payload_keys[0][0]}")


def _wall(is_there: bool) -> Finding:
    if is_there:
        return Finding("wall", PASS, "the server keeps tenants apart as well (row-level security)")
    fix = "As a superuser: CREATE ROLE duly_tenant NOLOGIN; GRANT duly_tenant TO the user of DULY_STORE; then `duly db upgrade`."
    return Finding("wall", WARN, "tenants are kept apart by Duly's statements alone: its user may not create the role duly_tenant", fix)


def _files(settings: config.Settings) -> Iterator[Finding]:
    files = [("key file", settings.key_file)]
    path = db.sqlite_file(settings.store)
    if path is not None:
        files.append(("store file", path))
    for name, file in files:
        try:
            mode = stat.S_IMODE(file.stat().st_mode)
        except OSError:
            continue
        if mode & 0o077:
            yield Finding("permissions", FAIL, f"others can reach the {name} {near(file)} (mode {mode:04o})", f"chmod 600 {near(file)}")
        else:
            yield Finding("permissions", PASS, f"only you can read the {name} {near(file)}")


def _limits(settings: config.Settings) -> Iterator[Finding]:
    path = db.sqlite_file(settings.store)
    directory = Path(os.path.abspath(path)).parent if path is not None else settings.home
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    room = os.statvfs(directory)
    free = room.f_bavail * room.f_frsize
    yield Finding(
        "disk",
        PASS if free >= LEAST_DISK else FAIL,
        f"{free / (1 << 30):,.1f} GiB free where the state is kept",
        None if free >= LEAST_DISK else "Make room, or shorten DULY_RETENTION: a full disk stops every submit.",
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= LEAST_FILES:
        yield Finding("file limit", PASS, f"{'any number of' if soft == resource.RLIM_INFINITY else f'{soft:,}'} open files allowed")
    else:
        allowed = LEAST_FILES if hard == resource.RLIM_INFINITY else min(LEAST_FILES, hard)
        fix = f"ulimit -n {allowed} before the start; LimitNOFILE= in systemd."
        yield Finding("file limit", WARN, f"only {soft:,} open files allowed", fix)


def _server(settings: config.Settings) -> Iterator[Finding]:
    with Client(settings.url, settings.key, agent=f"duly-cli/{config.VERSION}", timeout=5.0) as client:
        try:
            version = client.send(calls.show_version()).version
        except DulyError as error:
            yield Finding("server", FAIL, error.message, error.hint)
            return
        yield Finding("server", PASS, f"Duly {version} answers at {settings.url}")
        if version != config.VERSION:
            yield Finding("version", WARN, f"the server is {version}, this is {config.VERSION}", "Update the older one.")
        if urlsplit(settings.url).scheme == "http" and urlsplit(settings.url).hostname not in ("127.0.0.1", "localhost", "::1"):
            yield Finding(
                "tls", WARN, "the key travels over the network without TLS", "Put a proxy with TLS in front and set DULY_URL to https://…"
            )
        if settings.key is None:
            yield Finding(
                "key", FAIL, "there is no key to use", f"Set DULY_KEY or DULY_HOME; `duly up` keeps one in {near(settings.key_file)}."
            )
            return
        try:
            workers = [worker for worker in client.send(calls.list_workers()).items if worker.state == "LIVE"]
        except DulyError as error:
            yield Finding("key", FAIL, f"{error.code}: {error.message}", error.hint)
            return
        yield Finding("key", PASS, "the key is accepted")
        jobs = list(calls.every_page(client.send, lambda cursor: calls.list_jobs(state="ACTIVE", limit=200, cursor=cursor), MOST_JOBS))
        yield from _workers(workers, jobs)
        yield from _schedules(jobs)
        yield from _queues(client.send(calls.list_pools()).items)


def _queues(pools: Sequence[PoolView]) -> Iterator[Finding]:
    """Whatever the reason, a run that waits for long is worth a look."""
    for pool in pools:
        since = pool.oldest_pending_at
        if since is not None and output.instant(since) < output.now() - LONG_WAIT:
            fix = "duly run list --state PENDING, then duly run show RUN for the reason"
            yield Finding(
                "queue", WARN, f"{_plural(pool.pending, 'run')} waiting in pool {pool.pool}, the oldest since {output.relative(since)}", fix
            )


def _workers(workers: Sequence[WorkerView], jobs: Sequence[JobView]) -> Iterator[Finding]:
    if not workers:
        yield Finding("workers", FAIL if jobs else WARN, "no worker is alive, so nothing runs", "duly worker APP, or duly up APP")
        return
    slots = sum(worker.slots for worker in workers)
    pools = ", ".join(sorted({worker.pool for worker in workers}))
    yield Finding("workers", PASS, f"{_plural(len(workers), 'worker')} alive with {_plural(slots, 'slot')} in {pools}")
    versions = sorted({worker.version for worker in workers})
    if len(versions) > 1:
        yield Finding("workers", WARN, f"workers run different versions: {', '.join(versions)}", "Update the older ones.")
    orphans = [job for job in jobs if not any(serves(worker, job.target) for worker in workers)]
    if orphans:
        handlers = sorted({f"{handler_of(job.target)} in pool {job.target.pool}" for job in orphans})
        fix = "Start a worker for them: duly worker APP --pool POOL"
        if all(handler_of(job.target) == SHELL_HANDLER for job in orphans):
            fix = "Shell commands are off by default: start the worker with --allow-shell."
        yield Finding("handlers", FAIL, f"no live worker serves {_some(handlers)}: {_some([job.name for job in orphans])} cannot run", fix)
    elif jobs:
        yield Finding("handlers", PASS, f"every handler of {_plural(len(jobs), 'active job')} has a live worker")


def _schedules(jobs: Sequence[JobView]) -> Iterator[Finding]:
    silent = [job.name for job in jobs if job.type != "ON_DEMAND" and job.next_fire_at is None]
    overdue = [job.name for job in jobs if job.next_fire_at is not None and output.instant(job.next_fire_at) < output.now() - 60 * SECOND]
    if silent:
        yield Finding(
            "schedules", WARN, f"{_some(silent)} will never fire again", "Give it another schedule, or delete it: duly job delete NAME"
        )
    if overdue:
        yield Finding(
            "schedules",
            FAIL,
            f"{_some(overdue)} should have fired more than a minute ago",
            "Is a dispatcher running? duly server, or duly up",
        )
    if not silent and not overdue and any(job.next_fire_at for job in jobs):
        yield Finding(
            "schedules", PASS, f"{_plural(sum(job.next_fire_at is not None for job in jobs), 'schedule')} waiting for the next fire"
        )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _plural(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


# ---------------------------------------------------------------- the command


def _configure(parser: Parser) -> None:
    remote_options(parser)


def _doctor(arguments: Arguments) -> int:
    out = output.of(arguments)
    settings = config.load(url=arguments.server)
    if out.format in ("json", "jsonl"):
        findings = list(examine(settings))
        out.rows([], [finding._asdict() for finding in findings], name=str)
    else:
        findings = _print_as_found(out, settings)
    return FAILURE if any(finding.verdict == FAIL for finding in findings) else OK


def _print_as_found(out: Output, settings: config.Settings) -> list[Finding]:
    findings: list[Finding] = []
    for finding in examine(settings):
        findings.append(finding)
        symbol, colour = _MARKS[finding.verdict]
        print(f"{paint(symbol, colour)} {finding.check:<12} {finding.text}")
        if finding.fix:
            print(f"{' ' * 15}{paint('fix:', GREY)} {finding.fix}")
    failed, warned = (sum(finding.verdict == verdict for finding in findings) for verdict in (FAIL, WARN))
    out.say("\nAll well." if not failed and not warned else f"\n{_plural(failed, 'failure')}, {_plural(warned, 'warning')}.")
    return findings


COMMANDS = {
    "doctor": Command(
        "Check everything, with a fix for each finding. Exit code 1 when something is broken.", _configure, _doctor, "duly doctor"
    )
}
