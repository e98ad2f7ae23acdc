"""Looking for executions: every filter finds what it names and nothing else, page by page, and one step costs what a step may."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from duly.adapters.sql import search as adapter
from duly.domain.instants import HOUR, SECOND
from duly.domain.lifecycle import Outcome, State, Trigger
from duly.ports.search import ExecutionSearch, PayloadMatch
from duly.usecases import search as usecase
from duly.usecases.search import Search
from tests.conformance.test_insights import Crowd
from tests.conformance.world import START, World


class Still:
    """A clock that has all the time."""

    def now(self) -> int:
        return START

    def boottime(self) -> int:
        return START


async def found(world: World, limit: int = 3, **wanted: Any) -> list[UUID]:
    """All that a search finds, page by page."""
    search = Search(world.store.search, Still())
    seen: list[UUID] = []
    before = None
    while True:
        page, before = await search.find(ExecutionSearch(**{"tenant": 1} | wanted), before, limit)
        assert len(page) <= limit
        seen += [execution.id for execution in page]
        if before is None:
            assert seen == sorted(set(seen), reverse=True)
            return seen


@pytest.fixture
async def crowd(world: World) -> Crowd:
    return await Crowd.gather(world)


async def test_without_a_filter_everything_of_the_tenant_is_found(world: World, crowd: Crowd) -> None:
    assert set(await found(world)) == {id for ids in crowd.ids.values() for id in ids}
    assert len(await found(world, tenant=2)) == 2
    assert await found(world, tenant=3) == []


@pytest.mark.parametrize("state", list(State))
async def test_a_state_is_found_also_beside_other_filters(world: World, crowd: Crowd, state: State) -> None:
    of_job = {execution.id for execution in await world.of_job(crowd.job)}

    assert await found(world, state=state) == sorted(crowd.ids[state], reverse=True)
    assert set(await found(world, state=state, job_id=crowd.job.id)) == of_job & set(crowd.ids[state])
    assert set(await found(world, state=state, job_name="plain")) == of_job & set(crowd.ids[state])
    assert await found(world, state=state, job_name="theirs") == []
    assert await found(world, state=state, job_name="plain", job_id=UUID(int=1)) == []


async def test_headers_are_filtered(world: World, crowd: Crowd) -> None:
    everything = await found(world)
    fired = await found(world, trigger=Trigger.SCHEDULE)

    assert set(fired) == set(crowd.ids[State.BLOCKED] + crowd.ids[State.SKIPPED] + crowd.ids[State.PENDING][-1:])
    assert await found(world, pool="queue") == fired
    assert await found(world, pool="nowhere") == []
    assert await found(world, handler="noop", pool="default") == [id for id in everything if id not in fired]
    assert await found(world, handler="other") == []
    assert await found(world, since=START + HOUR) == sorted(crowd.ids[State.SCHEDULED], reverse=True)
    assert await found(world, until=START + HOUR) == [id for id in everything if id not in crowd.ids[State.SCHEDULED]]
    assert await found(world, batch=UUID(int=7)) == []


async def test_how_the_last_attempt_ended_and_who_ran_it(world: World, crowd: Crowd) -> None:
    worker = (await world.store.insights.execution(1, crowd.ids[State.RUNNING][0])).worker

    assert await found(world, last_outcome=Outcome.FAILED) == sorted(crowd.ids[State.DEAD], reverse=True)
    assert await found(world, last_outcome=Outcome.SUCCEEDED) == sorted(crowd.ids[State.SUCCEEDED], reverse=True)
    assert set(crowd.ids[State.RUNNING]) <= set(await found(world, worker=worker))
    assert await found(world, worker=worker, state=State.PENDING) == []
    assert await found(world, worker=999_999) == []


PAYLOADS = {
    "number": '{"customer": 42}',
    "string": '{"customer": "42"}',
    "other": '{"customer": 43}',
    "float": '{"customer": 42.0}',
    "null": '{"customer": null}',
    "true": '{"customer": true, "deep": {"er": {"x": "é\\u00e9 \\"q\\""}}}',
    "list": '{"customer": [42], "deep": [{"er": 1}]}',
    "bare": '"42"',
    "object": '{"customer": {"id": 42}}',
    "key": '{"customer.id": 42}',
}


@pytest.mark.parametrize(
    ("path", "value", "names"),
    [
        ("customer", "42", {"number", "string"}),
        ("customer", "42.0", {"float"}),
        ("customer", "null", {"null"}),
        ("customer", "true", {"true"}),
        ("customer.id", "42", {"object"}),
        ("deep.er.x", 'éé "q"', {"true"}),
        ("customer", "1", set()),
        ("customer", "", set()),
        ("nothing", "null", set()),
        ("customer", "' OR 1=1 --", set()),
    ],
)
async def test_a_value_in_the_payload_is_found(world: World, path: str, value: str, names: set[str]) -> None:
    job = await world.job("plain")
    ids = {name: (await world.enqueue(job, 1, payload=payload))[0] for name, payload in PAYLOADS.items()}

    assert set(await found(world, payload=(PayloadMatch(tuple(path.split(".")), value),))) == {ids[name] for name in names}


async def test_all_values_must_fit_and_a_plain_fire_has_its_versions_payload(world: World) -> None:
    job = await world.job("fires", every=SECOND, payload='{"a": 1, "b": {"c": "x"}}')
    bare = await world.job("bare", every=SECOND)
    world.turn(SECOND)
    await world.fire()
    fired = [execution.id for execution in await world.of_job(job)]
    a, c, wrong = PayloadMatch(("a",), "1"), PayloadMatch(("b", "c"), "x"), PayloadMatch(("b", "c"), "y")

    assert fired
    assert await world.of_job(bare)
    assert sorted(await found(world, payload=(a, c))) == sorted(fired)
    assert await found(world, payload=(a, wrong)) == []


async def test_a_search_that_finds_nothing_ends_all_the_same(world: World, crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(adapter, "FEW_JOBS", 0)
    monkeypatch.setattr(usecase, "MOST_STEPS", 3)
    search = Search(world.store.search, Still())
    page, reached = await search.find(ExecutionSearch(tenant=1, handler="noop", worker=999_999), None, 10)

    assert page == []
    assert reached == sorted((id for id in await all_ids(world)), reverse=True)[5]
    assert await found(world, handler="noop", worker=999_999) == []
    assert set(await found(world)) == {id for ids in crowd.ids.values() for id in ids}


async def all_ids(world: World) -> list[UUID]:
    return await found(world) + await found(world, tenant=2)


async def test_by_ids_only_the_tenants_own_are_shown(world: World, crowd: Crowd) -> None:
    mine, theirs = crowd.ids[State.DEAD], await found(world, tenant=2)

    assert [execution.id for execution in await world.store.search.by_ids(1, mine + theirs)] == sorted(mine, reverse=True)
    assert await world.store.search.by_ids(1, []) == []


async def test_what_the_last_hour_brought(world: World, crowd: Crowd) -> None:
    mine = [id for state, ids in crowd.ids.items() for id in ids]
    lately = await world.store.search.lately(1, START - HOUR, 1000)

    assert lately.executions == len(mine)
    assert lately.fires == len(await found(world, trigger=Trigger.SCHEDULE))
    assert lately.ended == {state: len(crowd.ids[state]) for state in (State.SUCCEEDED, State.DEAD, State.CANCELLED, State.SKIPPED)}
    assert (await world.store.search.lately(1, START + HOUR, 1000)).executions == 0
    assert (await world.store.search.lately(2, START - HOUR, 1000)).executions == 2


async def test_the_newest_and_those_that_run(world: World, crowd: Crowd) -> None:
    newest, running = await world.store.search.newest(1, 4, 2)

    assert newest == (await found(world))[:4]
    assert running == sorted(crowd.ids[State.RUNNING], reverse=True)[:2]
    assert await world.store.search.newest(3, 4, 2) == ([], [])


class Counted:
    """A store's search that counts how often it is asked what stands where."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def by_ids(self, tenant: int, ids: list[UUID]) -> Any:
        self.reads += 1
        return await self._inner.by_ids(tenant, ids)


async def test_the_newest_of_many_jobs_are_read_together_and_each_gets_its_own(world: World, crowd: Crowd) -> None:
    counted = Counted(world.store.search)
    search = Search(counted, Still())
    jobs = list({execution.job_id for execution in await world.store.search.by_ids(1, await found(world))})
    wanted = [ExecutionSearch(tenant=1, job_id=job) for job in jobs]
    alone = [await Search(world.store.search, Still()).find(each, None, 3) for each in wanted]

    together = await asyncio.gather(*(search.find(each, None, 3) for each in wanted))

    assert together == alone
    assert [{execution.job_id for execution in page} for page, _ in together] == [{job} for job in jobs]
    # The first is asked for at once, and those that come meanwhile go together.
    assert counted.reads <= 2
    assert len(jobs) > 1


async def test_the_newest_of_a_job_are_nobody_elses(world: World, crowd: Crowd) -> None:
    search = Search(world.store.search, Still())

    assert await search.find(ExecutionSearch(tenant=2, job_id=crowd.job.id), None, 3) == ([], None)
    assert await world.store.search.newest_of(2, [(crowd.job.id, 5)]) == [[]]
