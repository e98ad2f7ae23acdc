"""Who can run what, from what the API shows of workers and jobs."""

from __future__ import annotations

from duly.domain.job import HTTP_HANDLER, SHELL_HANDLER, route_labels, satisfies
from duly.wire.fleet import WorkerView
from duly.wire.jobs import TargetShape


def serves(worker: WorkerView, target: TargetShape) -> bool:
    """Whether this worker may run what the target names: its pool, its handler and its labels."""
    return worker.pool == target.pool and handler_of(target) in worker.handlers and satisfies(worker.labels, route_labels(target.requires))


def handler_of(target: TargetShape) -> str:
    """The name that a worker must offer."""
    return target.handler or (HTTP_HANDLER if target.http is not None else SHELL_HANDLER)
