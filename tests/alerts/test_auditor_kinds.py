"""The auditor against every kind of schedule, in weeks in which the clocks change: it misses what is gone, and nothing else."""

from __future__ import annotations

import random
from datetime import date
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duly.domain.schedule as schedules
from duly.domain.calendars import Calendar, Holiday, WeeklyWindow
from duly.domain.calendars import Weekday as Day
from duly.domain.fire_audit import Life, owed
from duly.domain.ids import JobId
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND, Instant, from_rfc3339, to_rfc3339
from duly.domain.job import Job, JobVersion
from duly.ports.store import ExecutionFilter
from duly.verify.targets import Plan
from duly.wire.jobs import JobShape
from duly.wire.specs import spec_of
from tests.alerts.conftest import Town
from tests.alerts.test_auditor import WHOLE_WEEK, audit_round, change, missing, pass_time, remove
from tests.roles.conftest import ACTOR

FORWARD, BACK = "2026-03-27T22:58:30Z", "2026-10-23T21:58:30Z"
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC")
HALF_AN_HOUR = 1800


# Most on the store that is quickest, and of each direction of the clocks one on the other.
SEEDS = [("sqlite", seed) for seed in range(6)] + [("postgres", 0), ("postgres", 1)]
WEEKS = [
    pytest.param(store, (BACK, FORWARD)[seed % 2], seed, id=f"{store}-{('back', 'forward')[seed % 2]}-{seed}") for store, seed in SEEDS
]
AWAY = [("sqlite", 3 * HOUR), ("sqlite", 3 * DAY), ("postgres", 3 * HOUR)]


def jobs_of(dice: random.Random) -> list[dict[str, Any]]:
    """One of every kind, each with its own numbers."""
    zone = dice.choice(ZONES[:3])
    minute, hour = dice.randrange(60), dice.randrange(4)
    found: list[dict[str, Any]] = [
        {"schedule": f"{minute} * * * *", "timezone": zone},
        {"schedule": f"{minute} {hour} * * *", "timezone": zone},
        {"schedule": f"*/{dice.choice((7, 20, 45))} 1-3 * * *", "timezone": zone},
        {"schedule": "30 2 * * *", "timezone": "Europe/Berlin", "dstGap": dice.choice(("skip", "shift")), "dstOverlap": "both"},
        {"schedule": "15 2 * * *", "timezone": "America/New_York", "dstOverlap": "second"},
        {"schedule": f"{minute} {hour} * * *", "timezone": zone, "calendars": ["closed"]},
        {"schedule": "0 */2 * * *", "timezone": zone, "calendars": ["nights"]},
        {"schedule": "0 9 * * *", "timezone": zone, "calendars": ["closed"], "onExcluded": "next_business_day"},
        {"intervalSec": dice.randrange(900, 7200), "jitterSec": dice.randrange(1, 300)},
        {"type": "RRULE", "schedule": f"FREQ=DAILY;BYHOUR={hour},{hour + 9};BYMINUTE={minute};BYSECOND=0", "timezone": zone},
        {"type": "RRULE", "schedule": f"FREQ=WEEKLY;BYDAY=MO,SU;BYHOUR=2;BYMINUTE={minute};BYSECOND=0", "timezone": zone},
        {"schedule": "@hourly", "endAt": None},
        {"type": "ONE_TIME", "runAt": None},
    ]
    for nth, job in enumerate(found):
        job |= {"name": f"job-{nth:02}", "overlap": dice.choice(("skip", "allow")), "catchUp": dice.choice(("none", "latest", "all"))}
    return found


async def calendars_for(town: Town, first: Instant) -> None:
    day = date.fromisoformat(to_rfc3339(first + 3 * DAY)[:10])
    await town.calendars.put(ACTOR, Calendar(name="closed", zone="Europe/Berlin", holidays=(Holiday(day=day),)))
    nights = WeeklyWindow(days=tuple(Day), start=60, end=300)
    await town.calendars.put(ACTOR, Calendar(name="nights", zone="Europe/Berlin", weekly=(nights,)))


@pytest.mark.parametrize(("town", "begins", "seed"), WEEKS, indirect=["town"])
async def test_of_a_week_of_every_kind_nothing_is_missed_and_whatever_is_removed_is(town: Town, begins: str, seed: int) -> None:
    dice = random.Random(seed)
    first = town.clock.instant = from_rfc3339(begins)
    await calendars_for(town, first)
    jobs: list[Job] = []
    for body in jobs_of(dice):
        ends = {"endAt": to_rfc3339(first + 3 * DAY)} if "endAt" in body else {}
        once = {"runAt": to_rfc3339(first + 2 * DAY)} if "runAt" in body else {}
        jobs.append(await town.create(**body | ends | once))
    dispatcher, auditor = town.dispatcher(), town.auditor(**WHOLE_WEEK)
    # What was before it began it does not know.
    await audit_round(town, auditor)

    quiet = 0
    for _ in range(14):
        quiet += await pass_time(town, dispatcher, DAY / SECOND / 2, HALF_AN_HOUR, auditor)
        await disturb(town, dice, jobs)
    await pass_time(town, dispatcher, DAY / SECOND, HALF_AN_HOUR)
    await audit_round(town, auditor)
    assert quiet == 0
    assert await missing(town) == set()

    fired = [(run.job_id, run.scheduled_at or run.due_at) for run in await town.store.insights.executions(ExecutionFilter(1, limit=5000))]
    gone = set(dice.sample(sorted(fired, key=str), 25))
    by_id = {job.id: job for job in jobs}
    for job_id, at in gone:
        await remove(town, by_id[job_id], at)
    await pass_time(town, dispatcher, DAY / SECOND, HALF_AN_HOUR)
    await audit_round(town, auditor)
    assert await missing(town) == gone


async def disturb(town: Town, dice: random.Random, jobs: list[Job]) -> None:
    """What people do to jobs: pause them for a while, resume them, skip a fire, change when they run."""
    for job in dice.sample(jobs[:11], 3):
        match dice.randrange(4):
            case 0:
                await town.jobs.pause(ACTOR, job.id, None, until=town.clock.now() + dice.randrange(1, 20) * HOUR)
            case 1:
                await town.jobs.resume(ACTOR, job.id)
            case 2:
                await town.jobs.unskip(ACTOR, job.id)
                await town.jobs.skip(ACTOR, job.id)
            case _:
                body = {"schedule": f"{dice.randrange(60)} */{dice.randrange(1, 5)} * * *", "timezone": dice.choice(ZONES)}
                await change(town, job, **body)


@pytest.mark.parametrize("policy", ["none", "latest", "all"])
@pytest.mark.parametrize(("town", "away"), AWAY, indirect=["town"], ids=["sqlite-hours", "sqlite-days", "postgres-hours"])
async def test_what_a_dispatcher_that_was_away_makes_up_for_or_skips_is_on_record(town: Town, policy: str, away: int) -> None:
    town.clock.instant = from_rfc3339(FORWARD)
    daily = {"name": "daily", "schedule": "30 2 * * *", "timezone": "Europe/Berlin"}
    for body in ({"name": "often", "schedule": "*/10 * * * *"}, daily, {"name": "every", "intervalSec": 60}):
        await town.create(**body, catchUp=policy, overlap="allow")
    dispatcher, auditor = town.dispatcher(), town.auditor(**WHOLE_WEEK)
    await pass_time(town, dispatcher, HOUR / SECOND, 60, auditor)

    await pass_time(town, None, away / SECOND, HALF_AN_HOUR, auditor)
    assert len(await missing(town)) > 10
    await pass_time(town, dispatcher, HOUR / SECOND, 60, auditor)
    await audit_round(town, auditor)

    assert await missing(town) == set()


async def test_a_dispatcher_that_computes_wrongly_is_noticed(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """The auditor goes the other way: what a search forwards jumps over, it sees."""
    town.clock.instant = from_rfc3339("2026-03-28T22:58:30Z")
    wrong = from_rfc3339("2026-03-29T01:00:00Z")
    right = schedules._next
    monkeypatch.setattr(
        schedules, "_next", lambda schedule, after: found if (found := right(schedule, after)) != wrong else right(schedule, wrong)
    )
    schedules.next_fire.cache_clear()
    await town.create(schedule="30 2 * * *", timezone="Europe/Berlin")
    dispatcher, auditor = town.dispatcher(), town.auditor()

    await pass_time(town, dispatcher, DAY / SECOND, HALF_AN_HOUR, auditor)

    assert {to_rfc3339(at) for _, at in await missing(town)} == {"2026-03-29T01:00:00Z"}
    schedules.next_fire.cache_clear()


CRONS = st.builds(
    lambda minute, hour, day, weekday: f"{minute} {hour} {day} * {weekday}",
    st.sampled_from(["0", "30", "*/15", "5-50/9", "*", "0,59"]),
    st.sampled_from(["*", "2", "1-3", "*/2", "0,23", "2,3"]),
    st.sampled_from(["*", "1", "25-31", "L", "*/2"]),
    st.sampled_from(["*", "sun", "sat-sun", "1-5"]),
)


@settings(max_examples=150, deadline=None)
@given(
    CRONS, st.sampled_from(ZONES), st.sampled_from([FORWARD, BACK]), st.integers(0, 8 * DAY // MINUTE), st.integers(1, 2 * DAY // MINUTE)
)
def test_what_is_owed_is_what_an_oracle_says(text: str, zone: str, week: str, after: int, length: int) -> None:
    """The oracle walks every minute, and shares no line with the product."""
    body = {"name": "job", "schedule": text, "timezone": zone, "target": {"handler": "work"}}
    first = from_rfc3339(week) + after * MINUTE
    last = first + length * MINUTE
    life = _life(body)

    found: list[Instant] = []
    reached = first
    while reached < last:
        more, reached = owed(life, reached, last, 50)
        found += more

    assert found == [at for at in Plan(body).fires(first, last) if at > first]


def _life(body: dict[str, Any]) -> Life:
    spec = spec_of(msgspec.json.decode(msgspec.json.encode(body), type=JobShape), 0, fallback_name="job")
    return Life(JobId(int=1), 1, 0, [JobVersion(1, JobId(int=1), 1, 1, "default", 1, spec, 0)])
