"""`duly open`: a run, a job or the overview in the browser. `duly pool` and `duly worker list`: who serves what."""

from __future__ import annotations

import sys
import webbrowser

from duly.cli import output, remote
from duly.cli.cluster import number, skew, skew_colour
from duly.cli.errors import OK
from duly.cli.output import Column
from duly.cli.parsing import Arguments, Command, Group, Parser, remote_options
from duly.sdk import calls
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
        {"list": Command("pools that have a live worker or ready work", remote_options, _pools, "duly pool list")},
    ),
}
