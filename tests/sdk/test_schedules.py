"""A declared schedule, explained before anybody runs it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from duly import App, Invalid

BEFORE = datetime(2026, 10, 23, 12, tzinfo=UTC)


@pytest.fixture
def app() -> App:
    return App("shop")


def test_a_schedule_is_told_in_words_with_its_fires_and_what_the_clocks_do(app: App) -> None:
    @app.job(cron="30 2 * * *", tz="Europe/Berlin", jitter="2m")
    def nightly_report() -> None: ...

    lines = nightly_report.schedule.explain(after=BEFORE).splitlines()
    spring = nightly_report.schedule.explain(2, after=datetime(2027, 3, 27, 12, tzinfo=UTC)).splitlines()

    assert lines[0] == "nightly_report: Every day at 02:30 Berlin time"
    assert len(lines) == 12
    assert lines[1:4] == [
        "  Sat 2026-10-24 02:30+02:00",
        "  Sun 2026-10-25 02:30+02:00   02:30 happens twice on this day; runs at the first",
        "  Mon 2026-10-26 02:30+01:00",
    ]
    assert lines[11] == "! each starts up to 2m later (jitter)"
    assert "02:30 does not exist" in spring[1]
    assert str(nightly_report.schedule).startswith("nightly_report: ")
    assert [at.isoformat() for at in nightly_report.schedule.fires(2, after=BEFORE)] == [
        "2026-10-24T02:30:00+02:00",
        "2026-10-25T02:30:00+02:00",
    ]


def test_what_a_person_may_not_have_meant_is_told(app: App) -> None:
    @app.job(cron="0 4 13 * 5")
    def friday() -> None: ...

    @app.job(cron="H 4 * * *")
    def slotted() -> None: ...

    @app.job(cron="0 4 * * *", calendars=["elsewhere"])
    def held() -> None: ...

    assert "! day-of-month and day-of-week are both restricted" in friday.schedule.explain()
    assert "! H is a slot of the job's own" in slotted.schedule.explain()
    assert "! the calendar 'elsewhere' is not declared by shop" in held.schedule.explain()


def test_calendars_of_the_application_count(app: App) -> None:
    app.calendar("days", business_days="MON-FRI")

    @app.job(cron="0 4 * * *", calendars=["days"])
    def held() -> None: ...

    assert [at.day for at in held.schedule.fires(2, after=BEFORE)] == [26, 27]


def test_a_herd_of_the_application_is_told(app: App) -> None:
    for nth in range(10):
        app.job(name=f"job{nth}", cron="0 3 * * *")(lambda: None)
    alone = app.job(name="alone", cron="0 5 * * *")(lambda: None)

    assert "! 10 fires of shop share the minute 03:00 UTC" in app.tasks["job3"].schedule.explain()
    assert "share" not in alone.schedule.explain()


def test_what_has_no_schedule_or_never_fires_again_says_so(app: App) -> None:
    once = app.job(name="once", at=BEFORE - timedelta(days=1))(lambda: None)
    on_demand = app.job(name="asked")(lambda: None)
    etl = app.workflow("etl", cron="0 4 * * *", tz="UTC")

    assert on_demand.schedule.explain() == "asked: only when enqueued"
    assert on_demand.schedule.fires() == []
    assert "never" in once.schedule.explain(after=BEFORE)
    assert etl.schedule.explain(1, after=BEFORE).splitlines()[1] == "  Sat 2026-10-24 04:00+00:00"
    with pytest.raises(Invalid, match="zone"):
        once.schedule.explain(after=datetime(2026, 1, 1))
