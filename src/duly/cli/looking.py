"""`duly open`: a run, a job or the overview in the browser. `duly pool` and `duly worker list|show|drain`: who serves what."""

from __future__ import annotations

import sys
import webbrowser

from duly.cli import output, remote
from duly.cli.cluster import number, skew, skew_colour
from duly.cli.errors import OK, did_you_mean
from duly.cli.output import Column
from duly.cli.parsing import Arguments, Command, Group, Parser, remote_options
from duly.domain.errors import Conflict, Invalid, NotFound
from duly.sdk import calls, worker_calls
from duly.sdk.client import Client
from duly.wire.fleet import PoolView, WorkerView


def _configure_open(parser: Parser) -> None:
    parser.add_argument("what", metavar="RUN|JOB", nargs="?", help="a run's id, or a job's name or id; the overview otherwise")
    remote_options(parser)


def _open(arguments: Arguments) -> int:
    """Print the address, and open it where somebody sits in front of a screen."""
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        path = "/"
        if arguments.what is not None and remote.is_run(arguments.what):
            path = f"/executions/{client.send(calls.show_execution(remote.run_id(arguments.what))).execution_id}"
        elif arguments.what is not None:
            path = f"/jobs/{remote.find_job(client, arguments.what).job_id}"
        url = f"{client.url}{path}"
    out.one([("url", url)], {"url": url}, name=url)
    if sys.stdout.isatty() and webbrowser.open(url):
        out.say("Opened. A browser that is not logged in yet: duly login")
    return OK


def _pools(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        found = client.send(calls.list_pools()).items
    out.rows(_POOLS, found, name=lambda pool: pool.pool)
    if not found:
        out.say("No pool has a worker, and nothing waits. Start one: duly worker, or duly up.")
    return OK


def configure_workers(parser: Parser) -> None:
    """Of which pool."""
    parser.add_argument("--pool", help="workers of this pool only")
    remote_options(parser)


def workers(arguments: Arguments) -> int:
    """Live workers, and lost ones of the last hour."""
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        found = [one for one in client.send(calls.list_workers()).items if arguments.pool in (None, one.pool)]
    out.rows(_WORKERS, found, name=lambda worker: worker.worker_id)
    if not found:
        out.say("No worker is alive. Start one: duly worker, or duly up.")
    return OK


def _configure_pool(parser: Parser) -> None:
    parser.add_argument("pool", metavar="POOL", help="its name")
    remote_options(parser)


def _show_pool(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        pools = {pool.pool: pool for pool in client.send(calls.list_pools()).items}
        serving = [worker for worker in client.send(calls.list_workers()).items if worker.pool == arguments.pool]
    found = pools.get(arguments.pool)
    if found is None:
        hint = did_you_mean(arguments.pool, pools) or "See all: duly pool list"
        raise NotFound("DULY-E604", f"No pool {arguments.pool!r} has a live worker or work that waits.", hint=hint)
    shown = [(column.name, column.shown(found)) for column in _POOLS]
    served = "\n".join(f"{worker.name}  {worker.state.lower()}  {worker.running} of {worker.slots}" for worker in serving)
    out.one([*shown, ("served by", served or None)], found, name=found.pool)
    return OK


def configure_worker(parser: Parser) -> None:
    """Which one."""
    parser.add_argument("worker", metavar="WORKER", help="its id or its name")
    remote_options(parser)


def show_worker(arguments: Arguments) -> int:
    """One worker: what it offers, and how it stands."""
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        found = _worker(client, arguments.worker)
    labels = ", ".join(f"{key}={value}" if value else key for key, value in found.labels.items())
    shown = [(column.name, column.shown(found)) for column in _WORKERS]
    place = f"{found.host}, process {found.pid}"
    out.one([*shown, ("labels", labels or None), ("where", place)], found, name=found.worker_id)
    return OK


def drain_worker(arguments: Arguments) -> int:
    """No more leases for a worker that works through the API; what it has goes on."""
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        worker = _worker(client, arguments.worker)
        try:
            answer = client.send(worker_calls.drain_worker(worker.worker_id))
        except NotFound as error:
            hint = f"It works on the store itself: send SIGTERM to process {worker.pid} on {worker.host}, and it drains and ends."
            raise Conflict("DULY-E604", f"{worker.name} is not drained through the API.", hint=hint) from error
    out.one([("worker", worker.name), ("id", worker.worker_id), ("running", str(worker.running))], answer, name=worker.worker_id)
    out.say("It takes no more work; what it runs goes on.")
    return OK


def _worker(client: Client, text: str) -> WorkerView:
    workers = client.send(calls.list_workers()).items
    named = [worker for worker in workers if worker.worker_id == text] or [worker for worker in workers if worker.name == text]
    # One that is lost is hardly meant, where another has its name.
    found = [worker for worker in named if worker.state != "LOST"] or named
    if len(found) > 1:
        hint = f"Say one of their ids: {', '.join(worker.worker_id for worker in found)}"
        raise Invalid("DULY-E604", f"{text!r} could be {len(found)} workers.", hint=hint)
    if not found:
        names = [worker.name for worker in workers]
        raise NotFound("DULY-E221", f"There is no worker {text!r}.", hint=did_you_mean(text, names) or "See all: duly worker list")
    return found[0]


_POOLS: list[Column[PoolView]] = [
    Column("pool", lambda it: it.pool),
    Column("workers", lambda it: str(it.workers), colour=lambda it: output.RED if it.pending and not it.workers else None),
    Column("running", lambda it: str(it.running)),
    Column("slots", lambda it: str(it.slots)),
    Column("waiting", lambda it: str(it.pending), None, "pending"),
    Column("oldest", lambda it: output.relative(it.oldest_pending_at), lambda it: it.oldest_pending_at or "", "oldestPendingAt"),
]
_WORKERS: list[Column[WorkerView]] = [
    Column("state", lambda it: it.state.lower(), lambda it: it.state, colour=lambda it: None if it.state == "LIVE" else output.RED),
    Column("worker", lambda it: it.name, None, "name"),
    Column("pool", lambda it: it.pool),
    Column("running", lambda it: str(it.running)),
    Column("slots", lambda it: str(it.slots)),
    Column("version", lambda it: it.version),
    Column("clock", lambda it: skew(it.clock_skew_ms), lambda it: number(it.clock_skew_ms), "clockSkewMs", skew_colour),
    Column("up since", lambda it: output.relative(it.started_at), lambda it: it.started_at, "startedAt"),
    Column("handlers", lambda it: ", ".join(it.handlers)),
    Column("id", lambda it: it.worker_id, None, "workerId"),
]

COMMANDS = {
    "open": Command("A run, a job or the overview in the browser.", _configure_open, _open, "duly open"),
    "pool": Group(
        "Pools: how much waits, how much runs, who serves it.",
        "duly pool",
        {
            "list": Command("pools that have a live worker or ready work", remote_options, _pools, "duly pool list"),
            "show": Command("one pool, and who serves it", _configure_pool, _show_pool, "duly pool show"),
        },
    ),
}
