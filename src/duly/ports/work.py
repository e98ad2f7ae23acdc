"""What a worker needs of the store, whether it is straight on it or reaches it over HTTP."""

from __future__ import annotations

from typing import Protocol

from duly.ports.parents import Parents
from duly.ports.store import Checkpoints, Liveness, Outcomes, ReadyQueue
from duly.ports.versions import Versions


class WorkerStore(Protocol):
    """The ports of a worker; `Store` has them all."""

    @property
    def definitions(self) -> Versions:
        """Job versions."""

    @property
    def ready(self) -> ReadyQueue:
        """Where it takes work."""

    @property
    def outcomes(self) -> Outcomes:
        """Where it reports."""

    @property
    def checkpoints(self) -> Checkpoints:
        """What its executions keep."""

    @property
    def parents(self) -> Parents:
        """What the steps before its own came to."""

    @property
    def liveness(self) -> Liveness:
        """Its own life."""
