"""Who can run what, from what the API shows of workers and jobs."""

from __future__ import annotations

from difflib import get_close_matches

from duly.cli.output import Output
from duly.domain.job import HTTP_HANDLER, SHELL_HANDLER, route_labels, satisfies
from duly.sdk import calls
from duly.sdk.client import Client
from duly.wire.fleet import WorkerView
from duly.wire.jobs import TargetShape


def serves(worker: WorkerView, target: TargetShape) -> bool:
    """Whether this worker may run what the target names: its pool, its handler and its labels."""
    return worker.pool == target.pool and handler_of(target) in worker.handlers and satisfies(worker.labels, route_labels(target.requires))


def handler_of(target: TargetShape) -> str:
    """The name that a worker must offer."""
    return target.handler or (HTTP_HANDLER if target.http is not None else SHELL_HANDLER)


def say_if_nobody_serves(client: Client, out: Output, job_id: str) -> None:
    """Why a ready execution may stay where it is: no live worker can run it."""
    target = client.send(calls.show_job(job_id)).target
    workers = [worker for worker in client.send(calls.list_workers()).items if worker.state == "LIVE"]
    if any(serves(worker, target) for worker in workers):
        return
    handler = handler_of(target)
    offered = {name for worker in workers if worker.pool == target.pool for name in worker.handlers}
    if target.shell is not None:
        fix = "start the worker with --allow-shell"
    elif close := get_close_matches(handler, offered, n=1):
        fix = f"did you mean {close[0]}?"
    else:
        fix = f"start one: duly worker APP --pool {target.pool}"
    out.say(f"! No live worker serves {handler} in pool {target.pool}; {fix}")
