"""What a declaration may be, and how a wrong one is told: at import, with what to write instead."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from duly import App, Concurrency, Invalid, Rate, Retry
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND, Micros
from duly.domain.job import JobSpec


def declared(**options: Any) -> JobSpec:
    @App("shop").job(**options)
    def report(user_id: int = 1) -> None: ...

    return report.spec


@pytest.mark.parametrize(
    ("options", "field", "words"),
    [
        ({"retry": "5"}, "retry", "retry=5"),
        ({"retry": True}, "retry", "retry=1"),
        ({"retry": 2.5}, "retry", "retry=5"),
        ({"max_concurrent": "3"}, "max_concurrent", "max_concurrent=3"),
        ({"max_queued": "3"}, "max_queued", "max_queued=100"),
        ({"batch": "2"}, "batch", "batch=10"),
        ({"batch": True}, "batch", "batch=10"),
        ({"cron": ["0 3 * * *"]}, "cron", 'cron="30 2 * * *"'),
        ({"cron": 5}, "cron", 'cron="30 2 * * *"'),
        ({"rrule": 5}, "rrule", "FREQ"),
        ({"tz": 2}, "tz", "Europe/Berlin"),
        ({"every": ["5m"]}, "every", 'every="15m"'),
        ({"timeout": True}, "timeout", 'timeout="15m"'),
        ({"rate": 3}, "rate", 'rate="100/m"'),
        ({"rate": "fast"}, "rate", 'rate="100/m"'),
        ({"rate": "100/fortnight"}, "rate", 'rate="100/m"'),
        ({"concurrency": 3}, "concurrency", "max_concurrent=3"),
        ({"priority": 10}, "priority", 'priority="high"'),
        ({"priority": "urgent"}, "priority", "'high'"),
        ({"pool": 4}, "pool", 'pool="mail"'),
        ({"overlap": False}, "overlap", 'overlap="skip"'),
        ({"requires": "gpu"}, "requires", 'requires=["gpu"]'),
        ({"requires": 1}, "requires", 'requires=["gpu"]'),
        ({"requires": ["gpu", 1]}, "requires", 'requires=["gpu"]'),
        ({"requires": {"gpu": 1}}, "requires", 'requires=["gpu"]'),
        ({"calendars": 3, "every": "1h"}, "calendars", 'calendars=["holidays"]'),
        ({"unique": 3}, "unique", 'unique="user_id"'),
        ({"after": 5, "every": "1h"}, "after", "after=extract"),
        ({"alert": "15m"}, "alert", "app.alert"),
        ({"name": 5}, "name", "name="),
        ({"description": 5}, "description", "description="),
        ({"heartbeat": "30s", "heartbeat_timeout": "30s"}, "heartbeat", "leave one of them out"),
    ],
    ids=str,
)
def test_a_value_of_the_wrong_kind_is_told_at_import_with_what_to_write(options: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        declared(**options)

    assert (refused.value.code, refused.value.field) == ("DULY-E118", field)
    assert "'report'" in str(refused.value)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Retry("5"),  # type: ignore[arg-type]
        lambda: Retry(5, backoff="slow"),
        lambda: Retry(5, jitter="some"),  # type: ignore[arg-type]
        lambda: Rate("100"),  # type: ignore[arg-type]
        lambda: Concurrency("3"),  # type: ignore[arg-type]
        lambda: App(5),  # type: ignore[arg-type]
        lambda: App("shop").workflow("etl").step(name="load", map="extract", max_parallel="20")(lambda path: None),
        lambda: App("shop").workflow("etl", retry="5"),
    ],
)
def test_the_same_holds_for_what_is_made_apart(declare: Any) -> None:
    with pytest.raises(Invalid) as refused:
        declare()

    assert refused.value.code == "DULY-E118"


@pytest.mark.parametrize(
    ("text", "count", "per"),
    [
        ("100/m", 100, MINUTE),
        ("10/s", 10, SECOND),
        ("5 per minute", 5, MINUTE),
        ("20 / 15m", 20, 15 * MINUTE),
        ("1000/hour", 1000, HOUR),
        ("3 per day", 3, DAY),
    ],
)
def test_a_rate_may_be_text(text: str, count: int, per: Micros) -> None:
    assert declared(rate=text).limits == declared(rate=Rate(count, per=timedelta(microseconds=per))).limits


def test_labels_may_be_a_list() -> None:
    assert declared(requires=["gpu", "region=eu"]).target.requires == {"gpu": "", "region": "eu"}
    assert declared(requires={"gpu": ""}).target.requires == {"gpu": ""}


def test_heartbeat_is_short_for_heartbeat_timeout() -> None:
    assert declared(heartbeat="30s") == declared(heartbeat_timeout="30s")


def test_what_is_none_was_not_given() -> None:
    given = dict.fromkeys(("cron", "tz", "retry", "max_concurrent", "rate", "requires", "calendars", "priority", "unique", "alert"))

    assert declared(**given) == declared()
