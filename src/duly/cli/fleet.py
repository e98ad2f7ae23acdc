"""Who can run what, from what the API shows of workers and jobs."""

from __future__ import annotations

from duly.cli.output import Output
from duly.domain.instants import from_rfc3339
from duly.domain.job import route_labels
from duly.domain.serving import Needs, misfits
from duly.domain.target import HTTP_HANDLER, SHELL_HANDLER
from duly.domain.why.facts import WorkerFacts
from duly.domain.why.waiting import nobody_serves
from duly.sdk import calls
from duly.sdk.client import Client
from duly.wire.fleet import WorkerView
from duly.wire.targets import TargetShape


def serves(worker: WorkerView, target: TargetShape) -> bool:
    """Whether this worker may run what the target names: its pool, its handler and its labels."""
    return not misfits(worker.pool, worker.labels, worker.handlers, needs_of(target))


def needs_of(target: TargetShape) -> Needs:
    """What a worker must have to run it."""
    return Needs(target.pool, route_labels(target.requires), handler_of(target))


def handler_of(target: TargetShape) -> str:
    """The name that a worker must offer."""
    return target.handler or (HTTP_HANDLER if target.http is not None else SHELL_HANDLER)


def say_if_nobody_serves(client: Client, out: Output, job_id: str) -> None:
    """Why what a new job makes will stay where it is: no live worker can run it."""
    target = client.send(calls.show_job(job_id)).target
    workers = [worker for worker in client.send(calls.list_workers()).items if worker.state == "LIVE"]
    if any(serves(worker, target) for worker in workers):
        return
    reason = nobody_serves([_facts(worker) for worker in workers], needs_of(target))[0]
    out.say(f"! {reason.message} {reason.hint or ''}".rstrip())


def _facts(worker: WorkerView) -> WorkerFacts:
    return WorkerFacts(
        id=int(worker.worker_id),
        name=worker.name,
        pool=worker.pool,
        labels=worker.labels,
        handlers=worker.handlers,
        slots=worker.slots,
        running=worker.running,
        started_at=from_rfc3339(worker.started_at),
        expires_at=from_rfc3339(worker.expires_at),
    )
