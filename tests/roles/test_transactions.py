"""Handlers whose effect commits with the end of their attempt, in a real worker on both stores."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from duly import App, Context, Invalid, LeaseLost
from duly.adapters.sql.bell import Bell
from duly.adapters.sql.engine import Engine
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.engine_sqlite import InlineSqliteEngine, SqliteEngine
from duly.adapters.sql.migrate import upgrade
from duly.adapters.sql.postgres.transactions import LONGEST_PAUSE, PostgresTransactions
from duly.adapters.sql.sqlite.transactions import SqliteTransactions
from duly.adapters.sql.store import store_on
from duly.domain.execution import Execution
from duly.domain.ids import ExecutionId
from duly.domain.lifecycle import Outcome, State
from duly.executors.processes import ProcessPool
from duly.executors.python import python_handlers
from duly.ports.transactions import Transactions
from duly.roles.worker import Worker
from duly.usecases.executions import Executions
from duly.usecases.jobs import Jobs
from duly.usecases.overdue import Overdue
from duly.usecases.quotas import Directory
from tests.conformance.ledger import assert_ledger_is_sound, raw
from tests.executors.attempts import python as attempt_of
from tests.roles import child_bank
from tests.roles.conftest import ACTOR, HandClock, World
from tests.services.cut import Door, Where

EFFECTS = "bank_effects"
INSERT = f"INSERT INTO {EFFECTS} (n) VALUES (1)"


@dataclass
class Bank:
    """A world with an application whose handlers write into a table of their own beside the ledger."""

    world: World
    engine: Engine
    app: App
    transactions: Transactions

    @property
    def is_postgres(self) -> bool:
        return self.engine.name == "postgres"

    async def run(self, function: Callable[..., Any], **shape: Any) -> tuple[ExecutionId, Worker]:
        """Declare a handler, enqueue it once, and work until nothing is left to do now."""
        self.app.job(function)
        for handler in python_handlers(self.app.calls(), threads=4, processes=None, transactions=self.transactions):
            self.world.registry.add(handler)
        job = await self.world.create(name=function.__name__, target={"handler": function.__name__}, **shape)
        [run] = await self.world.enqueue(job)
        worker = await self.world.worker()
        await self.work(worker)
        return run, worker

    async def work(self, worker: Worker) -> None:
        quiet = 0
        async with asyncio.timeout(60):
            while quiet < 2:
                step = await worker.step(self.world.clock.now())
                # Twice: what a finish sets free is found by the claim that follows it.
                quiet = quiet + 1 if worker.is_idle and not step.did["claimed"] else 0
                if worker.is_idle:
                    continue
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.25):
                        await worker.wake.wait()

    async def write(self, connection: Any) -> None:
        """The effect, on whatever `ctx.transaction()` gave."""
        if self.is_postgres:
            await connection.execute(INSERT)
        else:
            connection.execute(INSERT)

    async def effects(self) -> int:
        where = f"public.{EFFECTS}" if self.is_postgres else EFFECTS
        return int((await raw(self.engine, f"SELECT count(*) AS n FROM {where}"))[0]["n"])

    async def outcomes(self, run: ExecutionId) -> list[Outcome | None]:
        return [attempt.outcome for attempt in await self.world.store.insights.attempts(run)]

    async def show(self, run: ExecutionId) -> Execution:
        return await self.world.show(run)

    async def lose_everything(self) -> None:
        """The sweeper takes the worker's leases away, whatever the worker itself believes."""
        self.world.clock.instant += 60_000_000
        for _ in range(3):
            await self.world.sweeper().step(self.world.clock.now())


def bank_on(engine: Engine, transactions: Transactions) -> Bank:
    store, clock, transport = store_on(engine), HandClock(), Bell()
    entropy = random.Random(7).getrandbits
    quotas = Directory(store.tenants, clock)
    jobs = Jobs(store.definitions, Overdue(store.schedules, store.leases, quotas, transport), quotas, clock, entropy, transport)
    executions = Executions(jobs, store.intake, store.cancels, store.insights, quotas, clock, entropy, transport)
    return Bank(World(store, clock, entropy, transport, jobs, executions), engine, App("bank"), transactions)


@contextlib.asynccontextmanager
async def opened(engine: Engine, transactions: Transactions) -> AsyncIterator[Bank]:
    await upgrade(engine)
    await engine.script(f"CREATE TABLE {'public.' if engine.name == 'postgres' else ''}{EFFECTS} (n INTEGER NOT NULL);")
    try:
        yield bank_on(engine, transactions)
        await assert_ledger_is_sound(engine)
    finally:
        await transactions.close()
        await engine.close()


@pytest.fixture
async def on_postgres(postgres_dsn: str) -> AsyncIterator[Bank]:
    async with opened(PostgresEngine(postgres_dsn), PostgresTransactions(postgres_dsn)) as bank:
        yield bank


@pytest.fixture
async def on_sqlite(tmp_path: Path) -> AsyncIterator[Bank]:
    engine = SqliteEngine(str(tmp_path / "bank.db"))
    async with opened(engine, SqliteTransactions(engine)) as bank:
        yield bank


@pytest.fixture(params=["sqlite", "postgres"])
def bank(request: pytest.FixtureRequest) -> Bank:
    found: Bank = request.getfixturevalue(f"on_{request.param}")
    return found


# ---------------------------------------------------------------- together, or not at all


async def test_the_effect_the_result_and_the_end_commit_together(bank: Bank) -> None:
    async def transfer(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await bank.write(connection)
            ctx.result({"moved": 5})
            ctx.log.info("moved")

    run, worker = await bank.run(transfer)

    done = await bank.show(run)
    assert (done.state, done.result, done.attempt) == (State.SUCCEEDED, '{"moved":5}', 1)
    assert (await bank.effects(), worker.refused) == (1, 0)
    assert await raw(bank.engine, "SELECT lease_id FROM leases") == []
    assert [line.message for _, _, line in await bank.world.store.insights.logs(run, None, 0, 10)] == ["moved"]


async def test_what_the_handler_does_in_a_thread_commits_together_on_sqlite(on_sqlite: Bank) -> None:
    def transfer(ctx: Context) -> str:
        with ctx.transaction() as connection:
            connection.row_factory = sqlite3.Row
            connection.execute(INSERT)
            ctx.result("moved")
        return "moved"

    run, _ = await on_sqlite.run(transfer)

    assert ((await on_sqlite.show(run)).result, await on_sqlite.effects()) == ('"moved"', 1)


async def test_an_exception_in_the_block_rolls_back_and_is_the_attempt_s_failure(bank: Bank) -> None:
    async def transfer(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await bank.write(connection)
            if ctx.attempt == 1:
                raise ZeroDivisionError

    run, _ = await bank.run(transfer)
    assert (await bank.outcomes(run), await bank.effects()) == ([Outcome.FAILED], 0)
    bank.world.clock.turn(12)
    await bank.world.dispatcher().step(bank.world.clock.now())
    await bank.work(await bank.world.worker())

    assert (await bank.outcomes(run), await bank.effects()) == ([Outcome.FAILED, Outcome.SUCCEEDED], 1)


async def test_a_handler_whose_lease_is_gone_writes_nothing(bank: Bank) -> None:
    seen: list[BaseException] = []

    async def transfer(ctx: Context) -> None:
        if not bank.is_postgres:
            await bank.lose_everything()
        try:
            async with ctx.transaction() as connection:
                await bank.write(connection)
                if bank.is_postgres:
                    await bank.lose_everything()
        except LeaseLost as error:
            seen.append(error)
            raise

    run, worker = await bank.run(transfer)

    assert [type(error) for error in seen] == [LeaseLost]
    assert (await bank.outcomes(run), await bank.effects(), worker.refused) == ([Outcome.WORKER_LOST], 0, 1)


async def test_a_timeout_in_the_block_rolls_back(bank: Bank) -> None:
    async def transfer(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await bank.write(connection)
            bank.world.clock.turn(6)
            await asyncio.Event().wait()

    run, _ = await bank.run(transfer, timeoutSec=5, retryPolicy={"maxAttempts": 1})

    assert (await bank.outcomes(run), await bank.effects()) == ([Outcome.TIMED_OUT], 0)


async def test_what_is_enqueued_in_the_block_commits_with_it(on_postgres: Bank) -> None:
    async def notify() -> None: ...

    told = on_postgres.app.job(notify)
    await on_postgres.world.create(name="notify", target={"handler": "notify", "pool": "elsewhere"})

    async def transfer(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await told.using(connection).enqueue()
            if ctx.attempt == 1:
                raise Invalid("DULY-E106", "not yet")

    run, _ = await on_postgres.run(transfer, retryPolicy={"maxAttempts": 2, "initialDelayMs": 0})
    assert len(await on_postgres.world.all()) == 1
    await on_postgres.world.dispatcher().step(on_postgres.world.clock.now())
    await on_postgres.work(await on_postgres.world.worker())

    assert await on_postgres.outcomes(run) == [Outcome.FAILED, Outcome.SUCCEEDED]
    assert len(await on_postgres.world.all()) == 2


async def test_whoever_waits_for_the_place_gets_it(bank: Bank) -> None:
    async def transfer(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await bank.write(connection)

    bank.app.job(transfer)
    for handler in python_handlers(bank.app.calls(), threads=1, processes=None, transactions=bank.transactions):
        bank.world.registry.add(handler)
    await bank.world.create(name="transfer", target={"handler": "transfer"}, intervalSec=60, overlap="queue_all")
    dispatcher = bank.world.dispatcher()
    for _ in range(3):
        bank.world.clock.turn(60)
        await dispatcher.step(bank.world.clock.now())

    await bank.work(await bank.world.worker())

    states = [execution.state for execution in await bank.world.all()]
    assert (states, await bank.effects()) == ([State.SUCCEEDED] * len(states), len(states))
    assert len(states) >= 2


# ---------------------------------------------------------------- after the block


async def test_what_is_returned_later_is_not_kept_and_that_is_said(bank: Bank) -> None:
    async def transfer(ctx: Context) -> str:
        async with ctx.transaction() as connection:
            await bank.write(connection)
            ctx.result("committed")
        return "later"

    run, _ = await bank.run(transfer)

    assert (await bank.show(run)).result == '"committed"'
    [(_, _, line)] = await bank.world.store.insights.logs(run, None, 0, 10)
    assert (line.level, "not kept" in line.message) == ("warning", True)


async def test_a_failure_after_the_commit_changes_nothing(bank: Bank) -> None:
    async def transfer(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await bank.write(connection)
        raise ZeroDivisionError

    run, worker = await bank.run(transfer)

    assert (await bank.outcomes(run), await bank.effects(), worker.refused) == ([Outcome.SUCCEEDED], 1, 0)


async def test_there_is_one_block_per_attempt(bank: Bank) -> None:
    async def transfer(ctx: Context) -> None:
        for _ in range(2):
            async with ctx.transaction() as connection:
                await bank.write(connection)

    run, _ = await bank.run(transfer)

    assert (await bank.outcomes(run), await bank.effects()) == ([Outcome.SUCCEEDED], 1)


@pytest.mark.parametrize("word", ["COMMIT", "ROLLBACK"])
async def test_the_block_cannot_be_ended_from_inside(bank: Bank, word: str) -> None:
    async def transfer(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            if bank.is_postgres:
                await connection.execute(word)
            else:
                connection.execute(word)

    run, _ = await bank.run(transfer, retryPolicy={"maxAttempts": 1})

    done = await bank.show(run)
    assert done.state is State.DEAD
    assert ("ended inside its block" in str(done.error)) or ("not authorized" in str(done.error))


async def test_a_savepoint_in_the_block_is_the_handler_s_own(bank: Bank) -> None:
    async def transfer(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            for word in ("SAVEPOINT s", INSERT, "ROLLBACK TO s", INSERT):
                if bank.is_postgres:
                    await connection.execute(word)
                else:
                    connection.execute(word)

    await bank.run(transfer)

    assert await bank.effects() == 1


# ---------------------------------------------------------------- a commit of which nobody knows


@pytest.mark.parametrize("where", ["before", "after", "late"])
async def test_an_unknown_commit_is_tried_again_only_if_it_was_none(postgres_dsn: str, where: Where) -> None:
    seen: list[str] = []

    async def transfer(ctx: Context) -> None:
        try:
            async with ctx.transaction() as connection:
                await connection.execute(INSERT)
        except Exception as error:
            seen.append(str(error))
            raise

    async with Door(postgres_dsn, where).standing() as door, opened(PostgresEngine(postgres_dsn), PostgresTransactions(door.dsn)) as bank:
        working = asyncio.create_task(bank.run(transfer))
        if where == "late":
            # The handler has given up, and its report waits: the server has not heard the COMMIT, and holds the transaction open.
            await _until_somebody_waits(bank)
            assert await bank.effects() == 0
            door.heard.set()
        run, worker = await working

        assert door.is_cut
        assert "not known" in seen[0]
        assert worker.refused == 0
        if where == "before":
            assert (await bank.outcomes(run), await bank.effects()) == ([Outcome.FAILED], 0)
            bank.world.clock.turn(12)
            await bank.world.dispatcher().step(bank.world.clock.now())
            await bank.work(await bank.world.worker())
            assert (await bank.outcomes(run), await bank.effects()) == ([Outcome.FAILED, Outcome.SUCCEEDED], 1)
        else:
            assert (await bank.outcomes(run), await bank.effects()) == ([Outcome.SUCCEEDED], 1)
            assert await raw(bank.engine, "SELECT id FROM timers") == []


async def _until_somebody_waits(bank: Bank) -> None:
    async with asyncio.timeout(20):
        while not await raw(bank.engine, "SELECT pid FROM pg_locks WHERE NOT granted"):
            await asyncio.sleep(0.01)


# ---------------------------------------------------------------- the connection, and where there is none


async def test_the_connection_is_as_the_user_s_own_and_may_not_stand_idle_for_ever(on_postgres: Bank) -> None:
    shown: list[str] = []

    async def transfer(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            shown.extend(
                [await connection.fetchval("SHOW search_path"), await connection.fetchval("SHOW idle_in_transaction_session_timeout")]
            )
            await connection.execute("SET search_path = nowhere; SET jit = off")

    await on_postgres.run(transfer)
    await on_postgres.world.enqueue(await on_postgres.world.jobs.named(ACTOR, "transfer"))
    await on_postgres.work(await on_postgres.world.worker())

    assert shown == ['"$user", public', "1min"] * 2
    assert LONGEST_PAUSE == "60s"


async def test_a_worker_has_so_many_connections_and_the_next_one_waits(postgres_dsn: str) -> None:
    at_once: list[int] = []
    inside = 0
    two = asyncio.Event()

    async def transfer(ctx: Context) -> None:
        nonlocal inside
        async with ctx.transaction() as connection:
            inside += 1
            at_once.append(inside)
            if inside == 2:
                two.set()
            # The first waits for the second, however long its connection takes.
            await two.wait()
            await connection.execute(INSERT)
            inside -= 1

    async with opened(PostgresEngine(postgres_dsn), PostgresTransactions(postgres_dsn, most=2)) as bank:
        bank.app.job(transfer)
        for handler in python_handlers(bank.app.calls(), threads=1, processes=None, transactions=bank.transactions):
            bank.world.registry.add(handler)
        job = await bank.world.create(name="transfer", target={"handler": "transfer"})
        await bank.world.enqueue(job, 20)
        await bank.work(await bank.world.worker())

        assert (await bank.effects(), max(at_once)) == (20, 2)


async def test_many_blocks_on_sqlite_queue(on_sqlite: Bank) -> None:
    async def on_loop(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            connection.execute(INSERT)
            await asyncio.sleep(0)

    def in_thread(ctx: Context) -> None:
        with ctx.transaction() as connection:
            connection.execute(INSERT)

    on_sqlite.app.job(on_loop)
    on_sqlite.app.job(in_thread)
    for handler in python_handlers(on_sqlite.app.calls(), threads=16, processes=None, transactions=on_sqlite.transactions):
        on_sqlite.world.registry.add(handler)
    for name in ("on_loop", "in_thread"):
        await on_sqlite.world.enqueue(await on_sqlite.world.create(name=name, target={"handler": name}), 20)
    await on_sqlite.work(await on_sqlite.world.worker())

    assert await on_sqlite.effects() == 40
    assert {execution.state for execution in await on_sqlite.world.all()} == {State.SUCCEEDED}


async def test_a_plain_function_on_postgresql_is_shown_the_other_way(on_postgres: Bank) -> None:
    def transfer(ctx: Context) -> None:
        with ctx.transaction():
            pass

    run, _ = await on_postgres.run(transfer, retryPolicy={"maxAttempts": 1})

    assert "ctx.complete_with" in str((await on_postgres.show(run)).error)


async def test_a_child_process_completes_on_a_connection_of_its_own(on_postgres: Bank, postgres_dsn: str) -> None:
    pool = ProcessPool("tests.roles.child_bank:app", size=1)
    [handler] = python_handlers(child_bank.app.calls(), threads=1, processes=pool, transactions=on_postgres.transactions)
    on_postgres.world.registry.add(handler)
    job = await on_postgres.world.create(name="transfer", target={"handler": "transfer"}, retryPolicy={"maxAttempts": 1})
    [run] = await on_postgres.world.enqueue(job, payload=msgspec.json.encode({"dsn": postgres_dsn}).decode())

    await on_postgres.work(await on_postgres.world.worker())
    await pool.close()

    done = await on_postgres.show(run)
    assert (done.state, done.result, await on_postgres.effects()) == (State.SUCCEEDED, '"DULY-E132"', 1)


def test_without_a_store_behind_it_there_is_no_transaction() -> None:
    with pytest.raises(Invalid) as refused, Context(attempt_of("it")).transaction():
        pass

    assert refused.value.code == "DULY-E132"
    assert "child process" in str(refused.value)


async def test_a_store_in_memory_has_no_transaction() -> None:
    engine = InlineSqliteEngine()
    attempt = attempt_of("it")
    attempt.transactions = SqliteTransactions(engine)

    with pytest.raises(Invalid) as refused, Context(attempt).transaction():
        pass

    assert refused.value.code == "DULY-E132"
    await engine.close()


async def test_a_server_that_is_away_is_named(on_postgres: Bank) -> None:
    async def transfer(ctx: Context) -> None:
        async with ctx.transaction():
            pass

    on_postgres.transactions = away = PostgresTransactions("postgresql://nobody@127.0.0.1:1/none")
    run, _ = await on_postgres.run(transfer, retryPolicy={"maxAttempts": 1})
    await away.close()

    assert "PostgreSQL does not answer" in str((await on_postgres.show(run)).error)


async def test_a_deferred_constraint_that_fails_at_the_commit_is_the_attempt_s_failure(on_postgres: Bank, postgres_dsn: str) -> None:
    connection = await asyncpg.connect(postgres_dsn)
    await connection.execute(f"ALTER TABLE {EFFECTS} ADD UNIQUE (n) DEFERRABLE INITIALLY DEFERRED")
    await connection.close()

    async def transfer(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await tx.execute(INSERT)
            await tx.execute(INSERT)

    run, _ = await on_postgres.run(transfer, retryPolicy={"maxAttempts": 1})

    done = await on_postgres.show(run)
    assert (done.state, "UniqueViolation" in str(done.error), await on_postgres.effects()) == (State.DEAD, True, 0)
