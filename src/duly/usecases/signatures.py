"""Whether the workers that are there would take a payload: what none of them would run is refused where it comes in.

Workers say what their handlers take when they register. That is believed for a while, since everything that comes in asks for it; but
nobody is refused by what may be old: then it is read anew. Where a worker does not say, or where there is none, nothing is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from duly.domain.instants import SECOND, Micros
from duly.domain.job import Job, route_labels
from duly.domain.serving import Needs, misfits
from duly.domain.signature import Takes, common_refusal
from duly.ports.clock import Clock
from duly.ports.store import Insights, WorkerAbout

TRUSTED_FOR: Micros = 10 * SECOND


class Signatures:
    """What live workers say of their handlers, by tenant."""

    def __init__(self, insights: Insights, clock: Clock) -> None:
        self._insights = insights
        self._clock = clock
        self._known: dict[int, tuple[Micros, list[WorkerAbout]]] = {}

    async def check(self, job: Job, payloads: Sequence[str]) -> None:
        """Raises Invalid (DULY-E117) for the first that nobody who serves the job would take."""
        spec = job.version.spec
        if spec.steps or spec.batch > 1 or spec.target.handler is None or not payloads:
            return
        needs = Needs(spec.target.pool, route_labels(spec.target.requires), spec.target.handler)
        offers = _offers(await self._live(job.version.tenant), needs)
        if any(common_refusal(needs.handler, offers, payload) is not None for payload in payloads):
            offers = _offers(await self._read(job.version.tenant), needs)
            for payload in payloads:
                if (refused := common_refusal(needs.handler, offers, payload)) is not None:
                    raise refused

    async def _live(self, tenant: int) -> list[WorkerAbout]:
        read_at, found = self._known.get(tenant, (0, None))
        if found is not None and 0 <= self._clock.boottime() - read_at < TRUSTED_FOR:
            return found
        return await self._read(tenant)

    async def _read(self, tenant: int) -> list[WorkerAbout]:
        began = self._clock.boottime()
        found = await self._insights.offers(self._clock.now(), tenant)
        self._known[tenant] = began, found
        return found


def _offers(workers: Sequence[WorkerAbout], needs: Needs) -> list[Takes | None]:
    """What those who serve it say of the handler; one who leaves takes nothing more."""
    serving = [about for about in workers if not about.draining and not misfits(about.pool, about.labels, about.handlers, needs)]
    return [about.takes.get(needs.handler) for about in serving]
