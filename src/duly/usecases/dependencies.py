"""Jobs that wait for one another in a circle are refused when they are made."""

from __future__ import annotations

from collections.abc import Iterable

from duly.domain.dependencies import circle
from duly.domain.job import JobSpec
from duly.ports.store import Definitions

# So many jobs are looked at; a longer chain is nobody's, and what waits in it ends at its deadline.
FARTHEST = 200


async def refuse_circles(store: Definitions, tenant: int, specs: Iterable[JobSpec]) -> None:
    """Raises Invalid (DULY-E157). A job that is not there yet may be named: its own making is checked in turn."""
    new = {spec.name: spec for spec in specs}
    known: dict[str, JobSpec | None] = {}

    async def find(name: str) -> JobSpec | None:
        if name in new:
            return new[name]
        if name not in known:
            job = await store.job_named(tenant, name) if len(known) < FARTHEST else None
            known[name] = None if job is None else job.version.spec
        return known[name]

    for start in [spec for spec in new.values() if spec.after]:
        paths = [[start.name]]
        seen = {start.name}
        while paths:
            path = paths.pop()
            spec = await find(path[-1])
            for one in () if spec is None else spec.after:
                if one.job == start.name:
                    raise circle([*path, start.name])
                if one.job not in seen:
                    seen.add(one.job)
                    paths.append([*path, one.job])
