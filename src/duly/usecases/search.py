"""Executions by what they are: filters, and a value in their payload. Bounded whatever is asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from duly.domain.access import Actor
from duly.domain.errors import Invalid
from duly.domain.execution import Execution
from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import SECOND, Micros
from duly.ports import search
from duly.ports.clock import Clock
from duly.ports.search import ExecutionSearch, PayloadMatch
from duly.ports.wall import behind_wall
from duly.usecases.coalesce import Coalescer

# One call looks no further than that; its cursor goes on from there.
MOST_STEPS = 20
PATIENCE: Micros = SECOND
DEEPEST = 5
MOST_MATCHES = 4
LONGEST_VALUE = 256
# Executions of several jobs that are read at once.
MOST_TOGETHER = 1000

_KEY = re.compile("[A-Za-z_][A-Za-z0-9_-]{0,63}")


class Search:
    """The use case of those who look for executions."""

    def __init__(self, store: search.Search, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._together: dict[int, Coalescer[tuple[JobId, int], tuple[bool, list[Execution]]]] = {}

    async def find(self, wanted: ExecutionSearch, before: ExecutionId | None, limit: int) -> tuple[list[Execution], ExecutionId | None]:
        """At most `limit`, newest first, and where to go on; None: these are the last.

        A search that finds little ends after a bounded number of steps, with what it has found and a place to go on from.
        """
        if before is None and wanted.job_id is not None and wanted == ExecutionSearch(tenant=wanted.tenant, job_id=wanted.job_id):
            newest = await self._newest(wanted.tenant, wanted.job_id, limit)
            if newest is not None:
                return newest
        found: list[Execution] = []
        until = self._clock.boottime() + PATIENCE
        looked_at = limit + 1
        for _ in range(MOST_STEPS):
            step = await self._store.step(wanted, before, limit + 1 - len(found), looked_at)
            # Most lists are full after the first step; a search that finds little takes longer ones.
            looked_at *= 8
            found += step.found
            if len(found) > limit:
                return found[:limit], found[limit - 1].id
            before = step.reached
            if before is None or self._clock.boottime() > until:
                break
        return found, before

    async def _newest(self, tenant: int, job_id: JobId, limit: int) -> tuple[list[Execution], ExecutionId | None] | None:
        """The newest of one job, without a filter: lists of jobs ask for those of many at once, and where they stand is read together.

        None when some have vanished meanwhile, and there may be more behind them.
        """
        if tenant not in self._together:
            self._together[tenant] = Coalescer(partial(self._of_jobs, tenant), most=MOST_TOGETHER, weigh=lambda asked: asked[1])
        has_more, found = await self._together[tenant].add((job_id, limit + 1))
        if len(found) > limit:
            return found[:limit], found[limit - 1].id
        return None if has_more else (found, None)

    async def _of_jobs(self, tenant: int, asked: Sequence[tuple[JobId, int]]) -> list[tuple[bool, list[Execution]]]:
        # Nobody but this tenant has asked, and its wall stands.
        with behind_wall(tenant):
            newest = await self._store.newest_of(tenant, asked)
            read = await self._store.by_ids(tenant, list({id: None for ids in newest for id in ids}))
        known = {execution.id: execution for execution in read}
        return [(len(ids) == most, [known[id] for id in ids if id in known]) for (_, most), ids in zip(asked, newest, strict=True)]

    async def by_ids(self, actor: Actor, ids: list[ExecutionId]) -> list[Execution]:
        """Those of these that the tenant has, newest first."""
        return await self._store.by_ids(actor.tenant, ids)

    async def version_numbers(self, actor: Actor, job_id: JobId, limit: int) -> list[int]:
        """The numbers of a job's newest versions, newest first."""
        return await self._store.version_numbers(actor.tenant, job_id, limit)


def payload_matches(given: dict[str, str]) -> tuple[PayloadMatch, ...]:
    """What `payload.customer=42` asks for, by path. Raises Invalid for a path or a value that nobody could store."""
    if len(given) > MOST_MATCHES:
        raise Invalid("DULY-E119", f"At most {MOST_MATCHES} values of a payload can be asked for at once.", field="payload")
    matches: list[PayloadMatch] = []
    for path, value in given.items():
        keys = tuple(path.split("."))
        if len(keys) > DEEPEST or not all(_KEY.fullmatch(key) for key in keys):
            raise Invalid(
                "DULY-E119",
                "is no path of object keys.",
                field=f"payload.{path[:60]}",
                hint=f"Keys are letters, digits, _ and -, at most {DEEPEST} with dots between them, such as payload.customer.id=42.",
            )
        if len(value) > LONGEST_VALUE:
            raise Invalid("DULY-E119", f"has more than {LONGEST_VALUE} characters.", field=f"payload.{path[:60]}")
        matches.append(PayloadMatch(keys, value))
    return tuple(matches)
