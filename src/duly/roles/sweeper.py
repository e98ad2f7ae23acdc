"""The sweeper: every row that is not final has an owner, and this is who acts when the owner is gone."""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain import decide
from duly.domain.execution import Lost, Verdict
from duly.domain.instants import MINUTE, Instant, Micros
from duly.domain.job import JobVersion
from duly.ports.store import Losses
from duly.roles.loop import Step


@dataclass(frozen=True, slots=True)
class SweeperSettings:
    """How often it looks, how many leases it takes away in one transaction, how much it unsticks, and how often it reconciles."""

    every: float = 3.0
    batch: int = 20
    unstick: int = 200
    reconcile_every: Micros = MINUTE


class Sweeper:
    """Buries workers past their time and gives their work back. Any number of sweepers may run."""

    name = "sweeper"

    def __init__(self, losses: Losses, settings: SweeperSettings) -> None:
        self._losses = losses
        self._settings = settings
        self._reconcile_at: Instant = 0

    async def step(self, now: Instant) -> Step:
        """One sweep."""
        buried = await self._losses.bury_workers(now)

        def decide_loss(lost: Lost, version: JobVersion | None) -> Verdict:
            return decide.after_loss(lost, None if version is None else version.spec.retry, now)

        report = await self._losses.lose(decide_loss, now, self._settings.batch)
        unstuck = await self._losses.unstick(now, self._settings.unstick)
        reconciled = 0
        if now >= self._reconcile_at:
            reconciled = await self._losses.reconcile(now)
            self._reconcile_at = now + self._settings.reconcile_every
        did = {"workers_lost": len(buried), "attempts_lost": report.lost, "dead": report.dead, "unstuck": unstuck, "reconciled": reconciled}
        return Step(0.0 if report.leases >= self._settings.batch else self._settings.every, did)
