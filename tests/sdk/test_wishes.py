"""Enqueueing models, and saying when beside the arguments."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly import App, Invalid
from duly.testing import TestApp
from tests.sdk.welcome_app import Order, Parcel, Welcome, app, later, many, pack, seen, send_welcome, ship


@pytest.fixture
def t() -> Iterator[TestApp]:
    seen.clear()
    with TestApp(app) as opened:
        yield opened


@pytest.mark.parametrize(
    ("job", "model", "fields"),
    [(send_welcome, Welcome(user_id=7), {"user_id": 7}), (pack, Order(7), {"id": 7}), (ship, Parcel(7), {"id": 7})],
    ids=["pydantic", "msgspec", "dataclass"],
)
def test_a_model_is_enqueued_whole_by_name_or_by_its_fields(t: TestApp, job: Any, model: Any, fields: dict[str, Any]) -> None:
    (name,) = job.arguments.fields
    for run in (lambda: t.enqueue(job, model), lambda: t.enqueue(job, **{name: model}), lambda: t.enqueue(job, **fields)):
        ran = run()
        t.travel("1m")
        assert (ran.state, ran.result) == ("succeeded", 7)

    assert seen == [model] * 3
    t.assert_enqueued(job, count=3, **fields)
    t.refute_enqueued(job, **dict.fromkeys(fields, 8))


def test_a_misspelt_field_is_refused(t: TestApp) -> None:
    with pytest.raises(Invalid, match="usr_id"):
        t.enqueue(ship, id=7, usr_id=8)


def test_keys_of_limits_are_fields_of_the_model() -> None:
    unique, concurrency, rate = send_welcome.spec.limits.unique, pack.spec.limits.concurrency, ship.spec.limits.rate

    assert unique is not None
    assert concurrency is not None
    assert rate is not None
    assert (unique.key, concurrency.key, rate.key) == (("args.user_id",), ("order.id",), ("parcel.id", "parcel.to"))
    with pytest.raises(Invalid, match="'shop' is not an argument of the function, and no field of Parcel"):
        App("other").job(unique="shop")(ship._function)


def test_what_is_unique_by_a_field_is_enqueued_once(t: TestApp) -> None:
    first = t.enqueue(send_welcome, Welcome(user_id=7), delay="1h")
    other = t.enqueue(send_welcome, Welcome(user_id=8))

    assert t.enqueue(send_welcome, Welcome(user_id=7, language="de")) == first
    t.travel("2h")
    assert (first.state, other.state, len(t.runs(send_welcome))) == ("succeeded", "succeeded", 2)


def test_when_it_runs_is_said_beside_the_arguments(t: TestApp) -> None:
    async def enqueue() -> list[str]:
        return [
            await send_welcome.enqueue(Welcome(user_id=1), delay="5m"),
            await send_welcome.enqueue(user_id=2, delay=timedelta(minutes=10), at=None, tx=None),
            await send_welcome.enqueue(Welcome(user_id=3), at=datetime(2026, 1, 15, 13, tzinfo=UTC)),
            await pack.enqueue(Order(4), delay="20m"),
            await pack.enqueue(id=5, delay=6),
            await many.enqueue(Order(6), delay="30m"),
            *await send_welcome.enqueue_many([Welcome(user_id=8), {"user_id": 9}]),
        ]

    runs = [t.run(id) for id in t.world.run(enqueue())]
    sync = t.run(app.sync.send_welcome.enqueue(Welcome(user_id=10), delay="5m"))
    t.travel("2h")

    assert [round((run.due_at - runs[4].due_at).total_seconds() / 60) for run in (*runs, sync)] == [5, 10, 60, 20, 0, 30, 0, 0, 5]
    assert {run.state for run in (*runs, sync)} == {"succeeded"}
    assert Order(5, delay=6) in seen


def test_an_argument_of_the_handler_goes_before_and_a_clash_says_what_to_do(t: TestApp) -> None:
    run = t.run(t.world.run(later.enqueue(delay=5, at="work")))
    t.travel("1s")
    assert run.result == [5, "work"]

    with pytest.raises(Invalid, match=r"argument of the handler itself.*enqueue_in") as refused:
        t.world.run(later.enqueue(delay="5m"))
    assert refused.value.code == "DULY-E117"
    with pytest.raises(Invalid, match="which means something else here"):
        t.enqueue(pack, id=5, delay=6)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"delay": "5m", "at": datetime(2026, 1, 16, tzinfo=UTC)}, "at and delay contradict"),
        ({"at": datetime(2026, 1, 16)}, "no zone"),
        ({"at": "tomorrow"}, "not a datetime"),
        ({"delay": "soon"}, "not a duration"),
        ({"tx": sqlite3.connect(":memory:")}, "SQLite"),
        ({"tx": "db"}, "not a connection"),
    ],
    ids=["both", "no zone", "no time", "no duration", "SQLite", "no connection"],
)
def test_wishes_that_cannot_be_are_refused(t: TestApp, given: dict[str, Any], told: str) -> None:
    for call in (
        lambda: t.world.run(send_welcome.enqueue(Welcome(user_id=1), **given)),
        lambda: app.sync.send_welcome.enqueue(user_id=1, **given),
    ):
        with pytest.raises(Invalid, match=told):
            call()
    with pytest.raises(Invalid, match="delay and the time contradict"):
        t.world.run(send_welcome.enqueue_at(datetime(2026, 1, 16, tzinfo=UTC), Welcome(user_id=1), delay="5m"))
    if isinstance(given.get("tx"), sqlite3.Connection):
        given["tx"].close()
