"""Rules, calendars and jitter declared in code, and published with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duly import App, Invalid
from duly.domain.calendars import Calendar, Holiday, OnExcluded, Weekday, WeeklyWindow
from duly.domain.errors import NotFound
from duly.domain.instants import SECOND, from_datetime
from duly.domain.job import JobType
from duly.domain.lifecycle import JobState
from duly.domain.schedule import fires
from duly.sdk.app import ARCHIVED


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    made = App("shop", store=f"sqlite:///{tmp_path / 'app.db'}")
    yield made
    await made.close()


def test_a_calendar_is_declared_in_few_words(app: App) -> None:
    app.calendar(
        "de",
        tz="Europe/Berlin",
        business_days="MON-FRI",
        holidays=["2026-12-25", (date(2026, 12, 26), "Boxing Day")],
        windows=[(datetime(2026, 12, 1, tzinfo=UTC), datetime(2026, 12, 2, tzinfo=UTC), "disks")],
        weekly={"SAT-SUN": ["02:00-04:00"], "FRI": "22:00-02:00"},
    )

    declared = app.calendars["de"]
    assert (declared.zone, declared.business_days) == ("Europe/Berlin", tuple(Weekday)[:5])
    assert declared.holidays == (Holiday(day=date(2026, 12, 25)), Holiday(day=date(2026, 12, 26), name="Boxing Day"))
    assert declared.windows[0].name == "disks"
    assert declared.weekly == (
        WeeklyWindow(days=(Weekday.SAT, Weekday.SUN), start=120, end=240),
        WeeklyWindow(days=(Weekday.FRI,), start=1320, end=120),
    )


@pytest.mark.parametrize(
    "options",
    [
        {"business_days": "MON-FUN"},
        {"holidays": ["soon"]},
        {"weekly": {"SUN": "02:00"}},
        {"weekly": {"SUN": "2-4"}},
        {"windows": [(datetime(2026, 12, 2, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))]},
        {"windows": [(datetime(2026, 12, 1), datetime(2026, 12, 2))]},
    ],
)
def test_a_wrong_calendar_is_refused_where_it_is_declared(app: App, options: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        app.calendar("de", **options)

    assert refused.value.code == "DULY-E135"


def test_a_calendar_is_declared_once(app: App) -> None:
    app.calendar("de")

    with pytest.raises(Invalid, match="declared twice"):
        app.calendar("de")


def test_options_become_the_timing(app: App) -> None:
    @app.job(rrule="FREQ=WEEKLY;BYDAY=MO;BYHOUR=9", tz="Europe/Berlin", calendars=["de"], on_excluded="previous_business_day", jitter="30s")
    def report() -> None: ...

    timing = report.spec.timing
    assert (timing.type, timing.rule, timing.zone) == (JobType.RRULE, "FREQ=WEEKLY;BYDAY=MO;BYHOUR=9", "Europe/Berlin")
    assert (timing.calendars, timing.on_excluded, timing.jitter) == (
        (Calendar(name="de"),),
        OnExcluded.PREVIOUS_BUSINESS_DAY,
        30 * SECOND,
    )


@pytest.mark.parametrize(
    "options",
    [
        {"rrule": "FREQ=HOURLY"},
        {"rrule": "FREQ=DAILY", "cron": "0 9 * * *"},
        {"cron": "0 9 * * *", "on_excluded": "never"},
        {"cron": "0 9 * * *", "jitter": "2d"},
        {"jitter": "5s"},
        {"calendars": ["de"]},
    ],
)
def test_a_wrong_option_is_refused_where_it_is_declared(app: App, options: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="job 'report'"):

        @app.job(**options)
        def report() -> None: ...


async def test_calendars_are_published_with_the_jobs_that_name_them(app: App) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date()
    app.calendar("closed", holidays=[tomorrow])
    app.calendar("unused", business_days="MON-FRI")

    @app.job(cron="0 9 * * *", calendars=["closed"])
    def report() -> None: ...

    published = (await app.publish())["report"]
    again = (await app.publish())["report"]

    assert again.version.version == 1
    schedule = published.version.schedule
    assert schedule is not None
    midnight = from_datetime(datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=UTC))
    assert fires(schedule, midnight, midnight + 86_400 * SECOND - 1, 9) == []
    connection = await app.connection()
    assert {row.calendar.name for row in await connection.calendars.find(connection.actor)} == {"closed", "unused"}


async def test_a_changed_calendar_changes_the_job(app: App) -> None:
    app.calendar("de", business_days="MON-FRI")

    @app.job(cron="0 9 * * *", calendars=["de"])
    def report() -> None: ...

    await app.publish()
    app.calendars["de"] = Calendar(name="de")

    job = (await app.publish())["report"]

    assert (job.version.version, job.version.spec.timing.calendars[0].business_days) == (2, None)


async def test_a_calendar_that_nobody_made_is_not_there(app: App) -> None:
    @app.job(cron="0 9 * * *", calendars=["elsewhere"])
    def report() -> None: ...

    with pytest.raises(NotFound, match="elsewhere"):
        await app.publish()


async def test_a_job_whose_pause_would_end_is_archived_for_good(app: App) -> None:
    @app.job(cron="0 9 * * *")
    def report() -> None: ...

    job = (await app.publish())["report"]
    connection = await app.connection()
    until = connection.clock.now() + 86_400 * SECOND
    await connection.jobs.pause(connection.actor, job.id, None, until)
    del app.tasks["report"]

    await app.publish()

    after = await connection.jobs.show(connection.actor, job.id)
    assert (after.state, after.pause_reason, after.paused_until) == (JobState.PAUSED, ARCHIVED, None)
