"""The SQL functions of PostgreSQL: enqueue and complete inside a transaction that is somebody else's."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.transport_postgres import CHANNEL
from duly.domain.execution import Claimed
from duly.domain.ids import ExecutionId, execution_text, instant_of, parse_execution_id
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND
from duly.domain.job import HEAD_STARTS, Priority
from duly.domain.lifecycle import Outcome, State, Trigger
from duly.domain.overlap import OverlapPolicy
from tests.conformance.conftest import opened
from tests.conformance.ledger import raw
from tests.conformance.world import World

ENQUEUE = "SELECT duly.duly_enqueue($1, $2::text::jsonb)"
COMPLETE = "SELECT duly.duly_complete($1, $2, $3::text::jsonb)"

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "exactly-once.md"

Connection = asyncpg.Connection


@pytest.fixture
async def world(postgres_store: str) -> AsyncIterator[World]:
    """A ledger whose clock says what the server's says: the functions read the server's."""
    async with opened(PostgresEngine(postgres_store)) as engine:
        yield World(engine, now=time.time_ns() // 1000)


@pytest.fixture
async def user(postgres_store: str) -> AsyncIterator[Connection]:
    """A connection of the user's own, with a table of theirs."""
    connection = await asyncpg.connect(postgres_store)
    await connection.execute("CREATE TABLE IF NOT EXISTS public.effects (n integer NOT NULL); TRUNCATE public.effects")
    yield connection
    await connection.close()


async def effects(world: World) -> int:
    return int((await raw(world.engine, "SELECT count(*) AS n FROM public.effects"))[0]["n"])


@asynccontextmanager
async def undone(user: Connection, **options: Any) -> AsyncIterator[None]:
    """A transaction, or a savepoint in one, that is rolled back at its end."""
    transaction = user.transaction(**options)
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()


# ---------------------------------------------------------------- enqueue


async def test_what_is_enqueued_is_what_the_port_would_have_written(world: World, user: Connection) -> None:
    job = await world.job("mail", priority=Priority.HIGH)

    run = parse_execution_id(await user.fetchval(ENQUEUE, "mail", '{"user": 7}'))

    found = await world.execution(run)
    assert (found.job_id, found.state, found.trigger, json.loads(found.payload)) == (job.id, State.PENDING, Trigger.ENQUEUE, {"user": 7})
    assert abs(instant_of(run) - found.due_at) < 1000
    assert abs(found.due_at - time.time_ns() // 1000) < 10 * SECOND
    [ready] = await raw(world.engine, "SELECT rank, attempt, failures FROM ready")
    assert ready == {"rank": found.due_at - HEAD_STARTS[Priority.HIGH], "attempt": 1, "failures": 0}
    assert await world.run() == [run]


async def test_without_a_payload_the_job_s_own_is_used(world: World, user: Connection) -> None:
    await world.job("mail", payload='{"own":true}')

    run = parse_execution_id(await user.fetchval("SELECT duly_enqueue('mail')"))

    assert json.loads((await world.execution(run)).payload) == {"own": True}
    assert (await raw(world.engine, "SELECT payload FROM executions")) == [{"payload": None}]


async def test_a_rolled_back_enqueue_never_was(world: World, user: Connection) -> None:
    job = await world.job("mail")

    async with undone(user):
        await user.fetchval(ENQUEUE, "mail", "{}")
    async with user.transaction():
        async with undone(user):
            await user.fetchval(ENQUEUE, "mail", "{}")
        kept = await user.fetchval(ENQUEUE, "mail", "{}")

    assert [execution_text(execution.id) for execution in await world.of_job(job)] == [kept]


@pytest.mark.parametrize("scheduled", [False, True])
async def test_a_delayed_one_is_promoted_when_it_is_due(world: World, user: Connection, scheduled: bool) -> None:
    await world.job("mail", **({"every": DAY, "anchor": world.now + DAY} if scheduled else {}))

    run = parse_execution_id(await user.fetchval("SELECT duly_enqueue('mail', delay => '90 minutes', priority => 'low')"))

    found = await world.execution(run)
    assert found.state is State.SCHEDULED
    assert abs(found.due_at - world.now - 90 * MINUTE) < 10 * SECOND
    world.turn(HOUR)
    assert (await world.promote()).promoted == 0
    world.turn(HOUR)
    assert (await world.promote()).promoted == 1
    assert await raw(world.engine, "SELECT rank FROM ready") == [{"rank": found.due_at + 5 * MINUTE}]


async def test_a_delay_in_days_is_counted_in_utc(world: World, user: Connection) -> None:
    await world.job("mail")
    await user.execute("SET timezone = 'America/New_York'")

    run = parse_execution_id(await user.fetchval("SELECT duly_enqueue('mail', delay => '365 days')"))

    found = await world.execution(run)
    assert found.due_at - found.created_at == 365 * DAY


async def test_a_time_in_the_past_is_due_and_stands_first(world: World, user: Connection) -> None:
    await world.job("mail")

    run = await user.fetchval("SELECT duly_enqueue('mail', run_at => '2020-01-01T00:00:00Z')")
    await user.fetchval("SELECT duly_enqueue('mail')")

    claimed = await world.claimed(await world.worker(), 1)
    assert [execution_text(id) for id in claimed.ids] == [run]


async def test_ids_are_in_the_order_of_the_calls(world: World, user: Connection) -> None:
    await world.job("mail")

    singly = [await user.fetchval("SELECT duly_enqueue('mail')") for _ in range(200)]
    at_once = [
        row[0] for row in await user.fetch("SELECT duly.duly_enqueue_many('mail', (SELECT json_agg(n) FROM generate_series(1, 5000) n))")
    ]

    assert singly + at_once == sorted(set(singly + at_once))
    assert {(parse_execution_id(run).version, parse_execution_id(run).variant) for run in at_once} == {(7, "specified in RFC 4122")}
    assert [(await world.execution(parse_execution_id(run))).payload for run in at_once[:3]] == ["1", "2", "3"]


async def test_workers_hear_of_it_when_it_is_committed(world: World, user: Connection, postgres_store: str) -> None:
    await world.job("mail")
    heard: asyncio.Queue[str] = asyncio.Queue()
    listener = await asyncpg.connect(postgres_store)
    await listener.add_listener(CHANNEL, lambda *words: heard.put_nowait(str(words[-1])))

    async with user.transaction():
        await user.fetchval("SELECT duly_enqueue('mail')")
        await user.fetchval("SELECT duly_enqueue('mail')")
        await listener.fetchval("SELECT 1")
        assert heard.empty()
    assert await asyncio.wait_for(heard.get(), 10) == "ready"
    run = await user.fetchval("SELECT duly_enqueue('mail', delay => '1 hour')")
    due = await asyncio.wait_for(heard.get(), 10)

    assert due == f" {(await world.execution(parse_execution_id(run))).due_at}"
    assert heard.empty()
    await listener.close()


@pytest.mark.parametrize(
    "payload", ['"\\ud83d\\ude00"', "1.7976931348623157e308", "-1.7976931348623157e308", "9" * 300, "[" * 32 + "]" * 32]
)
async def test_what_a_worker_can_read_is_taken(world: World, user: Connection, payload: str) -> None:
    await world.job("mail")

    await user.fetchval("SELECT duly_enqueue_many('mail', $1)", f"[{payload}]")

    assert (await world.claimed(await world.worker())).payloads == [json.loads(payload)]


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        ("duly_enqueue('nobody')", "DULY-E204", "has no job 'nobody'"),
        ("duly_enqueue('mail', tenant => 'stranger')", "DULY-E204", "'stranger'"),
        ("duly_enqueue('gone')", "DULY-E210", "is cancelled"),
        ("duly_enqueue('mail', to_jsonb(repeat('x', 262144)))", "DULY-E109", "262146 bytes"),
        ("duly_enqueue('mail', priority => 'urgent')", "DULY-E106", "'urgent'"),
        ("duly_enqueue('mail', run_at => now(), delay => '1s')", "DULY-E106", "contradict"),
        ("duly_enqueue('mail', delay => '-1s')", "DULY-E104", "negative"),
        ("duly_enqueue('mail', run_at => 'infinity')", "DULY-E105", "infinity"),
        ("duly_enqueue('mail', run_at => '1969-12-31')", "DULY-E105", "1969"),
        ("duly.duly_enqueue_many('mail', '{}')", "DULY-E107", "array"),
        ("duly.duly_enqueue_many('mail', '[\"\\u0000\"]')", "DULY-E110", "NUL"),
        ("duly.duly_enqueue_many('mail', '[\"\\ud83d\"]')", "DULY-E110", "surrogate"),
        ("duly_enqueue('mail', '[1e400]')", "DULY-E106", "out of range"),
        ("duly_enqueue('mail', '{\"n\": {\"n\": -1e309}}')", "DULY-E106", "out of range"),
        ("duly.duly_enqueue_many('mail', '[1, 1e999999]')", "DULY-E110", "overflow"),
        ("duly_enqueue('mail', (repeat('[', 33) || repeat(']', 33))::jsonb)", "DULY-E108", "32 levels"),
        ("duly_complete(1, 'run_7')", "DULY-E111", "'run_7'"),
        ("duly_complete(1, 'run_' || repeat('0', 32), to_jsonb(repeat('x', 1048576)))", "DULY-E109", "result"),
    ],
)
async def test_a_refusal_has_a_stable_code(world: World, user: Connection, call: str, code: str, words: str) -> None:
    await world.job("mail")
    await world.cancel_job(await world.job("gone"))

    with pytest.raises(asyncpg.PostgresError) as refused:
        await user.fetchval(f"SELECT {call}")

    assert refused.value.sqlstate == f"DU{code[-3:]}"
    assert str(refused.value).startswith(f"{code}: ")
    assert words in str(refused.value)
    assert refused.value.hint


async def test_a_name_that_was_cancelled_and_taken_again_means_the_live_job(world: World, user: Connection) -> None:
    await world.cancel_job(await world.job("mail"))
    job = await world.job("mail")

    await user.fetchval(ENQUEUE, "mail", "{}")

    assert len(await world.of_job(job)) == 1


async def test_a_caller_s_search_path_and_temporary_tables_change_nothing(world: World, user: Connection) -> None:
    job = await world.job("mail")
    await user.execute(
        "CREATE TEMPORARY TABLE jobs (id integer); CREATE TEMPORARY TABLE executions (id integer); SET search_path = pg_temp, public"
    )

    await user.fetchval("SELECT public.duly_enqueue('mail')")

    assert len(await world.of_job(job)) == 1


async def test_a_role_with_the_documented_rights_can_enqueue_and_complete(world: World, user: Connection) -> None:
    [grants] = re.findall(r"```sql\n(GRANT.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    await user.execute("DO $$ BEGIN CREATE ROLE shop; EXCEPTION WHEN duplicate_object THEN END $$;" + grants)
    await user.execute("GRANT INSERT ON public.effects TO shop")
    await world.job("mail")
    await user.execute("SET ROLE shop")

    run = await user.fetchval(ENQUEUE, "mail", "{}")
    worker, claimed = await running(world)
    async with user.transaction():
        assert await complete(user, claimed)

    await user.execute("RESET ROLE")
    assert await world.state(parse_execution_id(run)) is State.SUCCEEDED
    assert await world.finish(worker, claimed) == set()


# ---------------------------------------------------------------- complete


async def running(world: World, **changes: Any) -> tuple[int, Claimed]:
    """A worker that has claimed all there is."""
    worker = await world.worker(**changes)
    return worker, await world.claimed(worker)


async def complete(user: Connection, claimed: Claimed, nth: int = 0, result: str | None = '"by hand"') -> bool:
    """The effect and the completion of one execution, in whatever transaction is open."""
    await user.execute("INSERT INTO public.effects VALUES (1)")
    return bool(await user.fetchval(COMPLETE, claimed.lease, execution_text(claimed.ids[nth]), result))


async def one_running(world: World, **changes: Any) -> tuple[int, Claimed, ExecutionId]:
    [run] = await world.enqueue(await world.job(**changes))
    worker, claimed = await running(world)
    return worker, claimed, run


async def test_effect_and_completion_commit_together_and_the_report_that_follows_is_accepted(world: World, user: Connection) -> None:
    worker, claimed, run = await one_running(world)

    async with user.transaction():
        assert await complete(user, claimed)
        assert await world.state(run) is State.RUNNING

    done = await world.execution(run)
    assert (done.state, done.result, done.fence, done.worker, done.attempt) == (State.SUCCEEDED, '"by hand"', claimed.lease, worker, 1)
    assert await world.finish(worker, claimed) == set()
    assert (await world.execution(run)).result == '"by hand"'
    assert await raw(world.engine, "SELECT lease_id FROM leases") == []
    assert await effects(world) == 1


async def test_a_rolled_back_completion_never_was(world: World, user: Connection) -> None:
    worker, claimed, run = await one_running(world)

    async with undone(user):
        assert await complete(user, claimed)

    assert await world.state(run) is State.RUNNING
    assert await world.finish(worker, claimed, Outcome.FAILED) == set()
    assert (await world.state(run), await effects(world)) == (State.SCHEDULED, 0)


async def test_a_worker_whose_lease_was_taken_away_completes_nothing(world: World, user: Connection) -> None:
    _, claimed, run = await one_running(world)
    world.turn(MINUTE)
    assert (await world.lose()).lost == 1

    async with user.transaction():
        assert not await complete(user, claimed)

    assert await world.state(run) is State.SCHEDULED


async def test_another_s_lease_or_execution_completes_nothing(world: World, user: Connection) -> None:
    _, claimed, run = await one_running(world)
    _, other, _ = await one_running(world)

    assert not await user.fetchval(COMPLETE, claimed.lease, execution_text(other.ids[0]), None)
    assert not await user.fetchval(COMPLETE, claimed.lease + 999, execution_text(run), None)

    assert await world.state(run) is State.RUNNING


async def test_an_attempt_completes_once_however_many_transactions_try(world: World, user: Connection) -> None:
    worker, claimed, _ = await one_running(world)

    async with user.transaction():
        assert await complete(user, claimed)
        assert await user.fetchval(COMPLETE, claimed.lease, execution_text(claimed.ids[0]), None), "the same transaction asks again"
    async with undone(user):
        # Its first commit may have been answered with an error: the effect is there, and a second one must not be.
        assert not await complete(user, claimed)

    assert await effects(world) == 1
    assert await world.finish(worker, claimed) == set()


async def test_after_a_savepoint_is_rolled_back_it_can_be_completed_anew(world: World, user: Connection) -> None:
    worker, claimed, run = await one_running(world)

    async with user.transaction():
        async with undone(user):
            assert await complete(user, claimed)
        assert await complete(user, claimed)

    assert (await world.state(run), await effects(world)) == (State.SUCCEEDED, 1)
    assert await world.finish(worker, claimed) == set()


async def test_the_sweeper_waits_for_an_open_completion_and_then_loses_nothing(world: World, user: Connection) -> None:
    _, claimed, run = await one_running(world)

    async with user.transaction():
        assert await complete(user, claimed)
        world.turn(MINUTE)
        assert (await world.lose()).leases == 0
    assert await world.lose() is not None

    assert (await world.state(run), await world.outcomes_of(run)) == (State.SUCCEEDED, [Outcome.SUCCEEDED])
    assert await raw(world.engine, "SELECT lease_id FROM leases") == []


@pytest.mark.parametrize("worker_dies", [False, True])
async def test_a_freed_place_is_passed_on_by_the_report_or_by_the_sweeper(world: World, user: Connection, worker_dies: bool) -> None:
    job = await world.job(every=MINUTE, overlap=OverlapPolicy.QUEUE_ALL)
    await world.fire()
    worker, claimed = await running(world)
    world.turn(MINUTE)
    assert (await world.fire()).queued == 1
    waiting = (await world.of_job(job))[-1].id

    async with user.transaction():
        assert await complete(user, claimed)
    if worker_dies:
        assert await world.store.losses.unstick(world.now, 10) == 1
        assert (await world.lose()).lost == 0
    else:
        assert await world.finish(worker, claimed) == set()

    assert await world.state(waiting) is State.PENDING


async def test_a_slot_is_given_back_with_the_completion_and_a_rate_s_is_not(world: World, user: Connection) -> None:
    worker, claimed, run = await one_running(world)
    for gate, lasts in (("1" * 32, "NULL"), ("2" * 32, "60000000")):
        await raw(world.engine, f"INSERT INTO slots (gate, id, attempt, lasts) VALUES ('{gate}', '{run}', 1, {lasts})")

    async with user.transaction():
        assert await complete(user, claimed)

    assert await raw(world.engine, "SELECT lasts FROM slots") == [{"lasts": 60_000_000}]
    assert await world.finish(worker, claimed) == set()


async def test_after_an_answer_that_no_message_can_hold_less_is_asked_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, worker, fetch = await world.enqueue(await world.job(), 300), await world.worker(), world.engine.fetch

    async def too_large(name: str, params: dict[str, Any], *lane: Any) -> Any:
        if name == "claim" and sum(params["quotas"]) > 256:
            raise asyncpg.ProgramLimitExceededError("out of memory")
        return await fetch(name, params, *lane)

    monkeypatch.setattr(world.engine, "fetch", too_large)

    with pytest.raises(asyncpg.ProgramLimitExceededError):
        await world.claim(worker, 300)

    assert len((await world.claimed(worker, 300)).ids) == 256
    assert len((await world.claimed(worker, 256)).ids) == len(ids) - 256


# ---------------------------------------------------------------- an attempt that ends twice


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMED_OUT, Outcome.RELEASED, Outcome.CANCELLED])
async def test_a_failure_reported_after_the_completion_changes_nothing(world: World, user: Connection, outcome: Outcome) -> None:
    worker, claimed, run = await one_running(world)

    async with user.transaction():
        assert await complete(user, claimed)
    refused = await world.finish(worker, claimed, outcome)

    assert refused == set()
    assert (await world.state(run), await world.outcomes_of(run)) == (State.SUCCEEDED, [Outcome.SUCCEEDED])
    assert await raw(world.engine, "SELECT lease_id FROM leases") == []


@pytest.mark.parametrize("commits", [True, False])
async def test_a_failure_reported_meanwhile_waits_for_what_the_transaction_says(world: World, user: Connection, commits: bool) -> None:
    worker, claimed, run = await one_running(world)

    transaction = user.transaction()
    await transaction.start()
    assert await complete(user, claimed)
    report = asyncio.create_task(world.finish(worker, claimed, Outcome.TIMED_OUT))
    await until_somebody_waits(world)
    await (transaction.commit() if commits else transaction.rollback())

    assert await report == set()
    expected = [Outcome.SUCCEEDED] if commits else [Outcome.TIMED_OUT]
    assert await world.outcomes_of(run) == expected
    assert await world.state(run) is (State.SUCCEEDED if commits else State.SCHEDULED)
    assert await effects(world) == commits


async def until_somebody_waits(world: World) -> None:
    async with asyncio.timeout(20):
        while not await raw(world.engine, "SELECT pid FROM pg_locks WHERE NOT granted"):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read", "serializable"])
async def test_what_was_reported_as_failed_cannot_be_completed(world: World, user: Connection, isolation: str) -> None:
    first, second = await world.enqueue(await world.job(), 2)
    worker, claimed = await running(world)
    nth = claimed.ids.index(first)

    # Its snapshot is older than the report, and its lease lives on for the second execution.
    async with undone(user, isolation=isolation):
        await user.fetchval("SELECT count(*) FROM public.effects")
        assert await world.finish(worker, claimed, Outcome.TIMED_OUT, only=[first]) == set()
        if isolation == "read_committed":
            assert not await complete(user, claimed, nth)
        else:
            with pytest.raises(asyncpg.SerializationError):
                await complete(user, claimed, nth)

    assert (await world.state(first), await effects(world)) == (State.SCHEDULED, 0)
    assert await world.finish(worker, claimed, only=[second]) == set()


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_a_stricter_isolation_completes_as_well(world: World, user: Connection, isolation: str) -> None:
    worker, claimed, run = await one_running(world)

    async with user.transaction(isolation=isolation):
        assert await complete(user, claimed)

    assert await world.finish(worker, claimed) == set()
    assert (await world.state(run), await effects(world)) == (State.SUCCEEDED, 1)
