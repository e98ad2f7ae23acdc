"""Whether the workers that are there would take a payload: what none of them would run is refused where it comes in.

Workers say what their handlers take when they register. That is believed for a while, since everything that comes in asks for it; but
nobody is refused by what may be old: then it is read anew. Where a worker does not say, or where there is none, nothing is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from duly.domain.instants import SECOND, Micros
from duly.domain.job import Job, route_labels
from duly.domain.serving import Needs, misfits
from duly.domain.signature import Takes, common_refusal
from duly.ports.clock import Clock
from duly.ports.store import Insights, WorkerAbout

TRUSTED_FOR: Micros = 10 * SECOND


@dataclass(slots=True)
class _Known:
    """The live workers of a tenant, and what those who serve a route say of its handler: each answer once, however many give it."""

    read_at: Micros
    workers: list[WorkerAbout]
    offers: dict[Needs, frozenset[Takes | None]] = field(default_factory=dict)

    def of(self, needs: Needs) -> frozenset[Takes | None]:
        found = self.offers.get(needs)
        if found is None:
            # One who leaves takes nothing more.
            live = (about for about in self.workers if not about.draining)
            serving = [about for about in live if not misfits(about.pool, about.labels, about.handlers, needs)]
            found = self.offers[needs] = frozenset(about.takes.get(needs.handler) for about in serving)
        return found


class Signatures:
    """What live workers say of their handlers, by tenant."""

    def __init__(self, insights: Insights, clock: Clock) -> None:
        self._insights = insights
        self._clock = clock
        self._known: dict[int, _Known] = {}

    async def check(self, job: Job, wanted: Iterable[str | None]) -> None:
        """Raises Invalid (DULY-E117) for the first that nobody who serves the job would take; None is the job's own payload."""
        spec = job.version.spec
        if spec.steps or spec.batch > 1 or spec.target.handler is None:
            return
        # Many mean the job's own, and that is looked at once.
        payloads = list(dict.fromkeys(payload or spec.payload or "null" for payload in wanted))
        needs = Needs(spec.target.pool, route_labels(spec.target.requires), spec.target.handler)
        offers = (await self._live(job.version.tenant)).of(needs)
        if any(common_refusal(needs.handler, offers, payload) is not None for payload in payloads):
            offers = (await self._read(job.version.tenant)).of(needs)
            for payload in payloads:
                if (refused := common_refusal(needs.handler, offers, payload)) is not None:
                    raise refused

    async def _live(self, tenant: int) -> _Known:
        known = self._known.get(tenant)
        if known is not None and 0 <= self._clock.boottime() - known.read_at < TRUSTED_FOR:
            return known
        return await self._read(tenant)

    async def _read(self, tenant: int) -> _Known:
        # The time before the read: a slow answer must not lengthen our trust in it.
        began = self._clock.boottime()
        known = self._known[tenant] = _Known(began, await self._insights.offers(self._clock.now(), tenant))
        return known
