"""Writes down when the real systems fire, for the tests to compare with: Celery, APScheduler 3 and systemd-analyze, asked one by one.

It needs what the project itself does not: an environment with `celery`, `apscheduler` and `tzdata`, and a machine with systemd.

    python tests/imports/record.py > tests/imports/samples/recorded.json
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

BEGIN = datetime(2026, 8, 1, tzinfo=UTC)
END = BEGIN + timedelta(days=400)
BERLIN = ZoneInfo("Europe/Berlin")
# Days around the changes of the clocks, which are kept in full.
CHANGES = (
    (datetime(2026, 10, 24, tzinfo=UTC), datetime(2026, 10, 27, tzinfo=UTC)),
    (datetime(2027, 3, 27, tzinfo=UTC), datetime(2027, 3, 30, tzinfo=UTC)),
)

CRONTABS: dict[str, dict[str, Any]] = {
    "nightly-report": {"hour": 2, "minute": 30},
    "every-quarter": {"minute": "*/15"},
    "first-monday": {"minute": 0, "hour": "9,17", "day_of_month": "1-7", "day_of_week": "mon"},
    "twice-in-the-gap": {"hour": 2, "minute": "0,30,45"},
    "winter": {"minute": 5, "hour": "22-2", "month_of_year": "nov-feb", "day_of_week": "fri-mon"},
    "remind-on-mondays": {"hour": 7, "minute": 30, "day_of_week": 1},
}
TRIGGERS: dict[str, dict[str, Any]] = {
    "nightly": {"hour": 2, "minute": 30},
    "every-twenty-minutes": {"minute": "*/20"},
    "month-end": {"day": "last", "hour": 18},
    "board": {"day": "2nd tue", "hour": 10},
    "both": {"day": "1-7", "day_of_week": "mon", "hour": "2-3", "minute": "0,30"},
}
CALENDARS = (
    "*-*-* 02:30:00 Europe/Berlin",
    "*-*~03 06:00:00 Europe/Berlin",
    "Mon *-*~07/1 04:00 Europe/Berlin",
    "daily Europe/Berlin",
    "hourly Europe/Berlin",
    "*:0/20 Europe/Berlin",
    "Mon..Fri 02:00,30:15 Europe/Berlin",
    "Sat,Sun *-*-1..7 02,14:30 Europe/Berlin",
    "*-02~01 12:00 UTC",
    "quarterly America/New_York",
    "*-*-2/5 03:10/25 America/New_York",
)


def summary(fires: list[datetime]) -> dict[str, Any]:
    """A count, a hash of all, and what happens when the clocks change."""
    seconds = [int(at.timestamp()) for at in fires]
    near = [int(at.timestamp()) for at in fires if any(low <= at < high for low, high in CHANGES)]
    return {"count": len(seconds), "sha256": hashlib.sha256(json.dumps(seconds).encode()).hexdigest(), "near_changes": near[:80]}


def celery(fields: dict[str, Any]) -> Iterator[datetime]:
    """As beat does it: asked whether it is due, told when it ran last."""
    from celery import Celery  # type: ignore[import-not-found]
    from celery.schedules import crontab  # type: ignore[import-not-found]

    app = Celery()
    app.conf.timezone = "Europe/Berlin"
    schedule = crontab(**fields)
    now = BEGIN
    schedule.app, schedule.nowfun = app, lambda: now.astimezone(BERLIN)
    last = BEGIN
    while now <= END:
        is_due, seconds = schedule.is_due(last.astimezone(BERLIN))
        if is_due:
            yield now
            last, now = now, now + timedelta(seconds=1)
        else:
            now = (now + timedelta(seconds=max(1, int(seconds)))).replace(microsecond=0)


def apscheduler(trigger: Any) -> Iterator[datetime]:
    """As its scheduler does it: asked for the next time after the last."""
    before, now = None, BEGIN + timedelta(seconds=1)
    while (at := trigger.get_next_fire_time(before, now)) is not None and at <= END:
        yield at.astimezone(UTC)
        before, now = at, at


def systemd(expression: str) -> Iterator[datetime]:
    """What systemd-analyze says."""
    # In the zone of the process: for a zone of the expression it would start a process of its own at each step.
    bare, _, zone = expression.rpartition(" ")
    words = ["systemd-analyze", "calendar", "--iterations=30000", f"--base-time={BEGIN:%Y-%m-%d %H:%M:%S} UTC", bare]
    printed = subprocess.run(
        words, capture_output=True, text=True, check=True, env={"TZ": zone, "LANG": "C", "PATH": "/usr/bin:/bin"}
    ).stdout
    utc = r"\(in UTC\)" if zone != "UTC" else "Next elapse|Iter\\. #\\d+"
    for match in re.finditer(rf"(?:{utc}): \w+ (\S+ \S+) UTC", printed):
        at = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        if at <= END:
            yield at


def main() -> None:
    """Ask all of them."""
    from apscheduler.triggers.cron import CronTrigger  # type: ignore[import-not-found]

    recorded: dict[str, dict[str, Any]] = {"celery": {}, "apscheduler": {}, "systemd": {}}
    each: list[tuple[str, str, Callable[[], Iterator[datetime]]]] = []
    for name, given in CRONTABS.items():
        each.append(("celery", name, lambda given=given: celery(given)))  # type: ignore[misc]
    for name, given in TRIGGERS.items():
        each.append(("apscheduler", name, lambda given=given: apscheduler(CronTrigger(timezone=BERLIN, **given))))  # type: ignore[misc]
    each.append(("apscheduler", "from-crontab", lambda: apscheduler(CronTrigger.from_crontab("0 3 * * 1", timezone="UTC"))))
    for expression in CALENDARS:
        each.append(("systemd", expression, lambda expression=expression: systemd(expression)))  # type: ignore[misc]
    for system, name, ask in each:
        recorded[system][name] = summary(list(ask()))
    print(json.dumps(recorded, indent=1))


if __name__ == "__main__":
    main()
