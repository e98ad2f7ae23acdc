"""What the doctor hears from the server: the fleet, its clocks, the jobs and their schedules, and who would be told of trouble."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from urllib.parse import urlsplit

from duly import config
from duly.cli import output
from duly.cli.cluster import SKEWED_MS, skew
from duly.cli.doctor.alerts import told
from duly.cli.doctor.findings import FAIL, NOTE, PASS, WARN, Finding, plural, some
from duly.cli.doctor.machine import age_of_zones
from duly.cli.fleet import handler_of, serves
from duly.cli.places import near
from duly.cli.schedules import herd, lint_of
from duly.cli.upcoming import calendars_of, timing_of
from duly.domain.calendars import Calendar
from duly.domain.clock_changes import Touch, next_touch
from duly.domain.errors import DulyError
from duly.domain.ids import parse_job_id
from duly.domain.instants import DAY, SECOND, Instant, Micros, to_datetime
from duly.domain.job import schedule_of
from duly.domain.target import SHELL_HANDLER
from duly.domain.zones import instant_to_local
from duly.sdk import calls
from duly.sdk.client import Client
from duly.sdk.cluster import show_cluster
from duly.wire.cluster import ClusterView, ShardView
from duly.wire.fleet import PoolView, WorkerView
from duly.wire.jobs import JobView
from duly.wire.targets import TargetShape

MOST_JOBS = 2000
LONG_WAIT: Micros = 60 * SECOND
# Every zone that changes its clocks does so within it.
AHEAD: Micros = 366 * DAY


def server(settings: config.Settings) -> Iterator[Finding]:
    """Whether it answers, with this key, and what it knows of the fleet and the jobs."""
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
        cluster = client.send(show_cluster())
        yield from _cluster(cluster)
        yield from _clocks(cluster, workers)
        yield from _zones(cluster)
        yield from _workers(workers, jobs)
        yield from _schedules(jobs)
        calendars = calendars_of(client, jobs)
        yield from _crowds(jobs, calendars, output.now())
        yield from clocks_ahead(jobs, calendars, output.now())
        yield from _queues(client.send(calls.list_pools()).items)
        yield from told(client, settings)


def _queues(pools: Sequence[PoolView]) -> Iterator[Finding]:
    """Whatever the reason, a run that waits for long is worth a look."""
    for pool in pools:
        since = pool.oldest_pending_at
        if since is not None and output.instant(since) < output.now() - LONG_WAIT:
            fix = "duly run list --state PENDING, then duly run show RUN for the reason"
            yield Finding(
                "queue", WARN, f"{plural(pool.pending, 'run')} waiting in pool {pool.pool}, the oldest since {output.relative(since)}", fix
            )


def _workers(workers: Sequence[WorkerView], jobs: Sequence[JobView]) -> Iterator[Finding]:
    if not workers:
        yield Finding("workers", FAIL if jobs else WARN, "no worker is alive, so nothing runs", "duly worker APP, or duly up APP")
        return
    slots = sum(worker.slots for worker in workers)
    pools = ", ".join(sorted({worker.pool for worker in workers}))
    yield Finding("workers", PASS, f"{plural(len(workers), 'worker')} alive with {plural(slots, 'slot')} in {pools}")
    versions = sorted({worker.version for worker in workers})
    if len(versions) > 1:
        yield Finding("workers", WARN, f"workers run different versions: {', '.join(versions)}", "Update the older ones.")
    unserved = {
        job.name: missing
        for job in jobs
        if (missing := [target for target in _targets(job) if not any(serves(worker, target) for worker in workers)])
    }
    if unserved:
        targets = [target for missing in unserved.values() for target in missing]
        handlers = sorted({f"{handler_of(target)} in pool {target.pool}" for target in targets})
        fix = "Start a worker for them: duly worker APP --pool POOL"
        if all(handler_of(target) == SHELL_HANDLER for target in targets):
            fix = "Shell commands are off by default: start the worker with --allow-shell."
        yield Finding("handlers", FAIL, f"no live worker serves {some(handlers)}: {some(list(unserved))} cannot run", fix)
    elif jobs:
        yield Finding("handlers", PASS, f"every handler of {plural(len(jobs), 'active job')} has a live worker")


def _targets(job: JobView) -> list[TargetShape]:
    """What workers have to serve for it. No worker runs a workflow, but its steps; some of those wait for a person or a time."""
    return [job.target] if not job.steps else [step.target for step in job.steps if step.target is not None]


def _schedules(jobs: Sequence[JobView]) -> Iterator[Finding]:
    silent = [job.name for job in jobs if job.type != "ON_DEMAND" and job.next_fire_at is None]
    overdue = [job.name for job in jobs if job.next_fire_at is not None and output.instant(job.next_fire_at) < output.now() - 60 * SECOND]
    if silent:
        yield Finding(
            "schedules", WARN, f"{some(silent)} will never fire again", "Give it another schedule, or delete it: duly job delete NAME"
        )
    if overdue:
        yield Finding(
            "schedules",
            FAIL,
            f"{some(overdue)} should have fired more than a minute ago",
            "Is a dispatcher running? duly server, or duly up",
        )
    if not silent and not overdue and any(job.next_fire_at for job in jobs):
        yield Finding(
            "schedules", PASS, f"{plural(sum(job.next_fire_at is not None for job in jobs), 'schedule')} waiting for the next fire"
        )


def _cluster(found: ClusterView) -> Iterator[Finding]:
    """Whether somebody fires what is due."""
    if not found.dispatchers:
        yield Finding("dispatchers", FAIL, "no dispatcher is alive, so nothing fires", "duly scheduler, duly server, or duly up")
        return
    now = output.instant(found.now)
    alive = {dispatcher.name for dispatcher in found.dispatchers}
    strays = [shard for shard in found.shards if shard.owner not in alive and _is_over(shard, now)]
    if strays:
        text = f"{plural(len(strays), 'shard')} of {len(found.shards)} belong to nobody who lives: their jobs do not fire"
        yield Finding(
            "dispatchers", FAIL, text, "A dispatcher takes them within seconds; if it does not, look at its log: duly cluster --shards"
        )
    else:
        who = "1 dispatcher owns" if len(found.dispatchers) == 1 else f"{len(found.dispatchers)} dispatchers own"
        yield Finding("dispatchers", PASS, f"{who} all {len(found.shards)} shards")
    if not found.lease_service.is_reachable:
        text = (
            f"{found.lease_service.kind} is away ({found.lease_service.trouble or 'no answer'}): the store's own leases tell who is there"
        )
        yield Finding("leases", WARN, text, "Nothing is lost; a dead dispatcher is noticed later until it is back.")


def _clocks(found: ClusterView, workers: Sequence[WorkerView]) -> Iterator[Finding]:
    """How far the clocks of those who fire and of those who run are off against the store's."""
    clocks = [(f"dispatcher {one.name}", one.clock_skew_ms) for one in found.dispatchers]
    clocks += [(f"worker {one.name}", one.clock_skew_ms) for one in workers]
    off = [f"{name} by {skew(by)}" for name, by in [("the server that answers", found.clock_skew_ms), *clocks] if abs(by or 0) > SKEWED_MS]
    if off:
        fix = "Nothing fires early for it; still, synchronise those clocks (chrony or systemd-timesyncd): handlers and logs go by them."
        yield Finding("clocks", WARN, f"clocks are off against the store's: {some(off)}", fix)
    else:
        widest = max((abs(by) for _, by in clocks if by is not None), default=0.0)
        yield Finding("clocks", PASS, f"the clocks of the fleet are within {max(ceil(widest), 1)} ms of the store's")


def _zones(found: ClusterView) -> Iterator[Finding]:
    """Whether those who fire compute with the same time zones, and how old these are."""
    releases = {one.tzdata for one in found.dispatchers if one.tzdata}
    if len(releases) > 1:
        text = f"dispatchers compute with different time zones: tzdata {', '.join(sorted(releases))}"
        yield Finding("tzdata", WARN, text, "Whoever owns a shard decides when its jobs fire: upgrade tzdata on all of them, then restart.")
    for release in sorted(releases):
        yield from age_of_zones(release, to_datetime(output.now()).year, "of the servers ")


def _is_over(shard: ShardView, now: Instant) -> bool:
    return shard.lease_until is None or output.instant(shard.lease_until) < now


def _crowds(jobs: Sequence[JobView], calendars: Mapping[str, Calendar], now: Instant) -> Iterator[Finding]:
    """Schedules that pile up, and those that may not mean what they say."""
    scheduled = [job for job in jobs if job.type != "ON_DEMAND"]
    load = herd(scheduled, calendars, now)
    if load is not None:
        at = output.local(load.at)
        yield Finding("herd", WARN, f"{load.fires:,} fires share one minute, {at}", "duly schedule spread shows how they would stand apart")
    odd = [row["job"] for row in lint_of(scheduled, calendars, now) if row["finding"] != "never fires again"]
    if odd:
        fix = "duly schedule lint says what, for each"
        yield Finding("lint", WARN, f"{some(list(dict.fromkeys(odd)))} may not fire as was meant", fix)


def clocks_ahead(jobs: Sequence[JobView], calendars: Mapping[str, Calendar], now: Instant) -> Iterator[Finding]:
    """Schedules that name a time which will not exist, or will come twice, within a year, and what becomes of it. No fault."""
    touched = sorted(_touches(jobs, calendars, now), key=lambda found: found[1].at)
    if not touched:
        return
    told = [f"{name} on {instant_to_local(touch.zone, touch.at):%Y-%m-%d} ({touch.words})" for name, touch in touched]
    text = (
        f"{plural(len(touched), 'schedule')} {'meets' if len(touched) == 1 else 'meet'} a change of the clocks within a year: {some(told)}"
    )
    yield Finding("dst", NOTE, text, "If that is not meant: dstGap and dstOverlap of the job; duly schedule explain JOB shows its fires")


def _touches(jobs: Sequence[JobView], calendars: Mapping[str, Calendar], now: Instant) -> Iterator[tuple[str, Touch]]:
    """The first of each job: a few steps for each change of its zone, however often it fires."""
    for job in jobs:
        if job.type == "ON_DEMAND":
            continue
        try:
            schedule = schedule_of(timing_of(job, calendars), parse_job_id(job.job_id))
        except DulyError:
            # The lint says so.
            continue
        touch = None if schedule is None else next_touch(schedule, now, now + AHEAD)
        if touch is not None:
            yield job.name, touch
