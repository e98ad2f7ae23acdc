"""Declaring jobs in code, publishing them, and enqueueing typed arguments."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from duly import App, Conflict, Context, Invalid, Retry, Rule, Secret, current
from duly.domain.ids import parse_execution_id
from duly.domain.instants import SECOND
from duly.domain.job import JobType, Priority
from duly.domain.lifecycle import JobState, State
from duly.domain.retry import Backoff, RetryRule
from duly.domain.signature import Takes
from duly.executors.python import python_handlers
from duly.ports.endings import Failure
from duly.ports.handlers import ExecutorKind, Registry
from duly.ports.store import ExecutionFilter
from duly.sdk.app import ARCHIVED
from tests.executors.attempts import python as attempt_of

TOKEN = Secret.env("TOKEN")


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    made = App("shop", store=f"sqlite:///{tmp_path / 'app.db'}")
    yield made
    await made.close()


def test_an_application_needs_a_name() -> None:
    with pytest.raises(TypeError, match="name"):
        App()  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["", "two words", "_private", "x" * 129, "line\n"])
def test_the_name_of_an_application_follows_the_rule_of_job_names(name: str) -> None:
    with pytest.raises(Invalid) as refused:
        App(name)

    assert (refused.value.code, refused.value.field) == ("DULY-E118", "name")


def test_a_job_stays_a_plain_function(app: App) -> None:
    @app.job
    def add(a: int, b: int = 1) -> int:
        """Adds two numbers."""
        return a + b

    assert add(2, b=3) == 5
    assert (add.__name__, add.name, add.__doc__) == ("add", "add", "Adds two numbers.")


def test_limits_and_rules_become_the_definition(app: App) -> None:
    @app.job(
        retry=Retry(5, give_up_on=ValueError, rules=[Rule("RateLimited", delay="1m", max_attempts=10), Rule(Failure, delay=2)]),
        execution_timeout="1h",
        heartbeat_timeout=30,
        stop_grace="0s",
    )
    async def careful() -> None: ...

    spec = careful.spec
    assert (spec.execution_timeout, spec.heartbeat_timeout, spec.stop_grace) == (3600 * SECOND, 30 * SECOND, 0)
    assert spec.retry.rules == (
        RetryRule(error="ValueError", retry=False),
        RetryRule(error="RateLimited", delay=60 * SECOND, max_attempts=10),
        RetryRule(error="duly.ports.endings.Failure", delay=2 * SECOND),
    )


def test_a_batch_handler_takes_a_list_and_not_a_process(app: App) -> None:
    @app.job(batch=10)
    async def good(ctx: Context, items: list[int]) -> None: ...

    def two(a: list[int], b: int) -> None: ...

    def no_list(item: int) -> None: ...

    def in_a_process(items: list[int]) -> None: ...

    assert (good.spec.batch, good.call().batch) == (10, 10)
    for function, options in ((two, {}), (no_list, {}), (in_a_process, {"executor": "process"})):
        with pytest.raises(Invalid) as refused:
            app.job(batch=10, **options)(function)  # type: ignore[call-overload]
        assert refused.value.code == "DULY-E118"


async def test_items_of_a_batch_are_enqueued_as_they_are(app: App) -> None:
    @app.job(batch=10)
    async def add(ctx: Context, items: list[int]) -> list[str]:
        return [f"{item}:{context.run_id}" for item, context in zip(items, ctx.items, strict=True)]

    one = await add.enqueue(1)
    more = await add.enqueue_many([2, 3])
    with pytest.raises(Invalid, match="Expected `int`"):
        await add.enqueue("four")

    connection = await app.connection()
    payloads = [(await connection.executions.show(connection.actor, parse_execution_id(id))).payload for id in (one, *more)]
    assert payloads == ["1", "2", "3"]


def test_options_become_the_definition(app: App) -> None:
    @app.job(
        cron="30 2 * * *",
        tz="Europe/Berlin",
        overlap="queue_one",
        catch_up="none",
        retry=Retry(5, backoff="linear"),
        timeout="10m",
        priority="high",
        pool="etl",
    )
    async def nightly_report(ctx: Context, region: str = "eu") -> None:
        """Builds the report."""

    spec = nightly_report.spec
    assert (spec.timing.type, spec.timing.cron, spec.timing.zone) == (JobType.CRON, "30 2 * * *", "Europe/Berlin")
    assert (spec.overlap.policy, spec.catch_up.policy, spec.priority, spec.target.pool) == ("queue_one", "none", Priority.HIGH, "etl")
    assert (spec.retry.max_attempts, spec.retry.backoff, spec.timeout) == (5, Backoff.LINEAR, 600_000_000)
    assert spec.description == "Builds the report."


def test_a_schedule_may_be_said_in_words(app: App) -> None:
    @app.job(cron="every weekday at 07:30", tz="Europe/Berlin")
    def early() -> None: ...

    @app.job(cron="every 10 seconds", seconds=True)
    def often() -> None: ...

    assert early.spec.timing.cron == "30 7 * * 1-5"
    assert often.spec.timing.cron == "*/10 * * * * *"


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({"cron": "every 7 minutes"}, "DULY-E101", 'every="7m"'),
        ({"cron": "61 * * * *"}, "DULY-E101", "minute"),
        ({"cron": "0 0 30 2 *"}, "DULY-E102", ""),
        ({"cron": "0 0 * * *", "tz": "Europe/Berln"}, "DULY-E103", "Europe/Berlin"),
        ({"every": "often"}, "DULY-E104", "15m"),
        ({"cron": "* * * * *", "every": "5m"}, "DULY-E118", "contradict"),
        ({"overlap": "sometimes"}, "DULY-E118", "queue_one"),
        ({"at": datetime(2026, 1, 1)}, "DULY-E105", "zone"),
        ({"at": datetime(2026, 1, 2, tzinfo=UTC), "end_at": datetime(2026, 1, 1, tzinfo=UTC)}, "DULY-E102", "after endAt"),
        ({"at": datetime(2026, 1, 1, tzinfo=UTC), "start_at": datetime(2026, 1, 2, tzinfo=UTC)}, "DULY-E102", "before startAt"),
        ({"every": "5m", "tz": "Europe/Berlin"}, "DULY-E118", "tz"),
        ({"retry": 0}, "DULY-E106", "between 1 and"),
        ({"executor": "loop"}, "DULY-E118", "executor"),
        ({"crom": "* * * * *"}, "DULY-E118", "'cron'"),
    ],
)
def test_a_wrong_declaration_fails_at_import_and_says_what_to_change(app: App, options: dict[str, object], code: str, words: str) -> None:
    with pytest.raises(Invalid) as refused:

        @app.job(**options)  # type: ignore[arg-type]
        def report() -> None: ...

    assert refused.value.code == code
    assert "report" in str(refused.value)
    assert words in str(refused.value)


def test_a_name_is_declared_once(app: App) -> None:
    app.job(name="twice")(lambda: None)

    with pytest.raises(Invalid, match="declared twice"):
        app.job(name="twice")(lambda: None)


def test_a_function_that_json_cannot_call_is_refused(app: App) -> None:
    with pytest.raises(Invalid, match="cannot be sent as JSON"):

        @app.job
        def greedy(*names: str) -> None: ...


def test_the_executor_follows_from_the_function(app: App) -> None:
    async def on_loop() -> None: ...

    def on_thread() -> None: ...

    assert app.job(on_loop).kind is ExecutorKind.LOOP
    assert app.job(on_thread).kind is ExecutorKind.THREAD
    assert app.job(name="apart", executor="process")(on_thread).kind is ExecutorKind.PROCESS


@dataclass
class Parcel:
    weight: float
    to: str


class Order(msgspec.Struct):
    id: UUID
    day: date


async def test_typed_arguments_arrive_as_they_were_declared(app: App) -> None:
    seen: list[object] = []

    @app.job
    async def ship(ctx: Context, parcel: Parcel, order: Order, when: datetime, tags: set[str]) -> None:
        seen.extend([parcel, order, when, tags, ctx.attempt, current() is ctx])

    order = Order(UUID(int=7), date(2026, 3, 1))
    when = datetime(2026, 3, 1, 12, tzinfo=UTC)
    payload = msgspec.json.decode(
        ship.arguments.to_payload((), {"parcel": Parcel(1.5, "Rome"), "order": order, "when": when, "tags": {"a"}})
    )
    await app.calls()["ship"].call(attempt_of("ship", payload=payload))

    assert seen == [Parcel(1.5, "Rome"), order, when, {"a"}, 1, True]


async def test_bad_arguments_are_refused_when_they_are_enqueued(app: App) -> None:
    @app.job
    async def resize(width: int, height: int = 1) -> None: ...

    for args, kwargs, field in [
        (("wide",), {}, "width"),
        ((), {"height": 2}, None),
        ((1,), {"depth": 3}, None),
        ((1,), {"width": 2}, "width"),
        ((1, 2, 3), {}, None),
        ((object(),), {}, None),
    ]:
        with pytest.raises(Invalid) as refused:
            await resize.enqueue(*args, **kwargs)
        assert (refused.value.code, refused.value.field) == ("DULY-E117", field)
    with pytest.raises(Invalid) as refused:
        await app.job(name="text")(_takes_text).enqueue("a\x00b")
    assert refused.value.code == "DULY-E110"


def test_a_handler_says_what_it_takes(app: App) -> None:
    @app.job
    async def resize(ctx: Context, width: int, height: int = 1, token: Secret = TOKEN) -> None: ...

    @app.job(batch=10)
    async def many(items: list[int]) -> None: ...

    registry = Registry()
    for handler in python_handlers(app.calls(), threads=0, processes=None):
        registry.add(handler)

    assert registry.takes() == {"resize": Takes(("width", "height", "token"), ("width",))}


async def _takes_text(text: str) -> None: ...


async def test_a_payload_that_no_longer_fits_is_dead_at_once(app: App) -> None:
    @app.job
    async def resize(width: int) -> None: ...

    with pytest.raises(Failure) as failed:
        await app.calls()["resize"].call(attempt_of("resize", payload={"width": "wide"}))

    assert (failed.value.type, failed.value.retry) == ("InvalidPayload", False)


async def test_enqueue_writes_one_execution_for_each_call(app: App) -> None:
    @app.job
    async def work(n: int) -> None: ...

    now = await work.enqueue(1)
    later = await work.enqueue_in("5m", n=2)
    at = await work.enqueue_at(datetime.now(UTC) + timedelta(hours=1), 3)
    many = await work.enqueue_many([{"n": 4}, {"n": 5}])

    connection = await app.connection()
    shown = {f"run_{execution.id.hex}": execution for execution in await connection.executions.find(ExecutionFilter(1))}
    assert [shown[id].state for id in (now, later, at, *many)] == [
        State.PENDING,
        State.SCHEDULED,
        State.SCHEDULED,
        State.PENDING,
        State.PENDING,
    ]
    assert shown[many[1]].payload == '{"n":5}'


async def test_publishing_again_changes_nothing(app: App) -> None:
    app.job(cron="0 3 * * *", name="nightly")(_nothing)
    before = (await app.publish())["nightly"]

    after = (await app.publish())["nightly"]

    assert (after.id, after.version.number) == (before.id, before.version.number)


async def test_publishing_a_change_makes_a_new_version_and_never_unpauses(tmp_path: Path) -> None:
    first, second = (App("shop", store=f"sqlite:///{tmp_path / 'app.db'}") for _ in range(2))
    first.job(cron="0 3 * * *", name="nightly")(_nothing)
    job = (await first.publish())["nightly"]
    connection = await first.connection()
    await connection.jobs.pause(connection.actor, job.id, "moving")

    second.job(cron="0 4 * * *", name="nightly")(_nothing)
    after = (await second.publish())["nightly"]

    assert (after.id, after.version.version, after.state, after.pause_reason) == (job.id, 2, JobState.PAUSED, "moving")
    await first.close()
    await second.close()


async def test_a_job_that_is_gone_from_the_code_is_archived_and_others_are_left_alone(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'app.db'}"
    before, after, other = App("shop", store=store), App("shop", store=store), App("billing", store=store)
    for app, names in ((before, ("kept", "gone")), (after, ("kept",)), (other, ("bill",))):
        for name in names:
            app.job(name=name)(_nothing)
    published = await before.publish() | await other.publish()

    await after.publish()

    connection = await after.connection()
    now = {name: await connection.jobs.show(connection.actor, job.id) for name, job in published.items()}
    assert {name: job.state for name, job in now.items()} == {"kept": JobState.ACTIVE, "gone": JobState.PAUSED, "bill": JobState.ACTIVE}
    assert now["gone"].pause_reason == ARCHIVED == "archived: no longer declared in the code"
    for app in (before, after, other):
        await app.close()


async def test_two_applications_do_not_undo_each_others_jobs_of_one_name(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'app.db'}"
    shop, crm, renamed = App("shop", store=store), App("crm", store=store), App("store", store=store, formerly="shop")
    for app, cron in ((shop, "0 3 * * *"), (crm, "0 4 * * *"), (renamed, "0 5 * * *")):
        app.job(cron=cron, name="report")(_nothing)
    first = (await shop.publish())["report"]

    with pytest.raises(Conflict, match="another application, 'shop'") as refused:
        await crm.publish()
    taken_over = (await renamed.publish())["report"]
    with pytest.raises(Conflict, match="another application, 'store'"):
        await shop.publish()

    assert refused.value.code == "DULY-E208"
    assert (taken_over.id, taken_over.version.version) == (first.id, 2)
    for app in (shop, crm, renamed):
        await app.close()


async def test_enqueueing_nothing_is_nothing(app: App) -> None:
    task = app.job(name="nothing")(_nothing)

    assert await task.enqueue_many([]) == []


async def test_archiving_leaves_what_is_not_active_as_it_is(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'app.db'}"
    before, after = App("shop", store=store), App("shop", store=store)
    for name in ("paused", "cancelled"):
        before.job(cron="0 3 * * *", name=name)(_nothing)
    published = await before.publish()
    connection = await before.connection()
    await connection.jobs.pause(connection.actor, published["paused"].id, "moving")
    await connection.jobs.cancel(connection.actor, published["cancelled"].id)

    await after.publish()

    now = {name: await connection.jobs.show(connection.actor, job.id) for name, job in published.items()}
    assert (now["paused"].state, now["paused"].pause_reason) == (JobState.PAUSED, "moving")
    assert now["cancelled"].state is JobState.CANCELLED
    await before.close()
    await after.close()


async def test_an_old_release_that_restarts_during_a_roll_out_does_no_lasting_harm(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'app.db'}"
    old, new = App("shop", store=store), App("shop", store=store)
    new.job(cron="0 3 * * *", name="nightly")(_nothing)
    job = (await new.publish())["nightly"]
    await old.publish()

    again = (await new.publish())["nightly"]

    assert (again.id, again.state, again.pause_reason) == (job.id, JobState.ACTIVE, None)
    assert again.next_fire_at is not None
    await old.close()
    await new.close()


async def test_an_archived_job_comes_back_changed_and_under_its_id(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'app.db'}"
    first, without, second = (App("shop", store=store) for _ in range(3))
    first.job(cron="0 3 * * *", name="nightly")(_nothing)
    job = (await first.publish())["nightly"]
    await without.publish()

    second.job(every="1h", name="nightly")(_nothing)
    again = (await second.publish())["nightly"]

    assert (again.id, again.state, again.version.version) == (job.id, JobState.ACTIVE, 2)
    assert again.next_fire_at is not None
    assert again.next_fire_at % 3_600_000_000 == 0
    for app in (first, without, second):
        await app.close()


async def test_processes_that_publish_at_once_agree(tmp_path: Path) -> None:
    apps = [App("shop", store=f"sqlite:///{tmp_path / 'app.db'}") for _ in range(4)]
    for app in apps:
        app.job(cron="0 3 * * *", name="nightly")(_nothing)

    jobs = await asyncio.gather(*(app.publish() for app in apps))

    assert len({job["nightly"].id for job in jobs}) == 1
    for app in apps:
        await app.close()


def test_callers_without_a_loop_have_the_same_names(tmp_path: Path) -> None:
    app = App("shop", store=f"sqlite:///{tmp_path / 'app.db'}")

    @app.job
    def work(n: int) -> None: ...

    ids = [
        app.sync.work.enqueue(1),
        app.sync.work.enqueue_in("5m", n=2),
        app.sync.work.enqueue_at(datetime.now(UTC), 3),
        *app.sync.work.enqueue_many([{"n": 4}]),
    ]

    assert len({id for id in ids if id.startswith("run_")}) == 4
    with pytest.raises(AttributeError, match="declares no job"):
        app.sync.wrok  # noqa: B018
    app.sync.close()


def test_current_works_inside_a_handler_only() -> None:
    with pytest.raises(RuntimeError):
        current()


def _nothing() -> None: ...


async def test_a_client_that_makes_the_default_store_is_told_that_nobody_serves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DULY_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.delenv("DULY_STORE", raising=False)

    for _ in range(2):
        app = App("shop")
        await app.job(name="work")(_nothing).enqueue()
        await app.close()

    assert [record.getMessage() for record in caplog.records if "made a new store" in record.getMessage()] == [
        f"made a new store in {tmp_path / 'elsewhere'}; nobody serves it yet: run `duly up` there, or set DULY_STORE"
    ]
