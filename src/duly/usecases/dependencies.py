"""Jobs that wait for one another in a circle are refused when they are made."""

from __future__ import annotations

from collections.abc import Iterable

from duly.domain.dependencies import FARTHEST, refuse_circle
from duly.domain.job import JobSpec
from duly.ports.store import Definitions


async def refuse_circles(store: Definitions, tenant: int, specs: Iterable[JobSpec]) -> None:
    """Raises Invalid (DULY-E157). A job that is not there yet may be named: its own making is checked in turn."""
    waits = {spec.name: [one.job for one in spec.after] for spec in specs}
    new = list(waits)
    left = [name for names in waits.values() for name in names]
    asked = 0
    while left:
        if (name := left.pop()) in waits:
            continue
        job = await store.job_named(tenant, name) if asked < FARTHEST else None
        asked += 1
        waits[name] = [] if job is None else [one.job for one in job.version.spec.after]
        left += waits[name]
    for start in new:
        refuse_circle(start, waits)
