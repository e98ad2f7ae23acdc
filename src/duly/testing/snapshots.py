"""Every fire of the coming time in a file that is committed: a change of a schedule shows in review as the fires that it moves."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from duly.domain.errors import Invalid
from duly.domain.instants import DAY, Instant, from_datetime, to_datetime
from duly.domain.job import schedule_of
from duly.domain.schedule import Schedule, explain_fire, fires
from duly.domain.words import describe
from duly.domain.zones import load_zone, tzdata_version
from duly.sdk.app import App
from duly.testing.moments import Moment, moment_of

# More fires than this of one job are told as counts by day.
MOST_FIRES = 1_000
MOST_COUNTED = 200_000
LONGEST_DIFF = 40
_HEADER = re.compile(r"from (\d{4}-\d{2}-\d{2}) for (\d+) days")
# `H` takes its slot from the id that a job gets when it is created, which nobody knows yet.
_NOBODY = UUID(int=0)


def snapshot_schedule(app: App, path: str | Path = "schedules.txt", *, days: int | None = None, start: Moment | None = None) -> bool:
    """Write every fire of the application's jobs into a file; True when it says something else than before.

    It begins where the file that is there begins, so that only changes of schedules change it: `start` and `days` (400) begin another.
    """
    path = Path(path)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    text = _snapshot(app, *_range(before, start, days))
    if text != before:
        path.write_text(text, encoding="utf-8")
    return text != before


def check_schedule(app: App, path: str | Path = "schedules.txt") -> None:
    """The committed file says what the code says. Raises AssertionError with the fires that differ."""
    path = Path(path)
    if not path.exists():
        raise AssertionError(f"There is no {path}. Write it with duly.testing.snapshot_schedule(app, {str(path)!r}) and commit it.")
    before = path.read_text(encoding="utf-8")
    text = _snapshot(app, *_range(before, None, None))
    if text != before:
        changes = list(difflib.unified_diff(before.splitlines(), text.splitlines(), "committed", "declared", lineterm="", n=1))
        more = [f"… and {len(changes) - LONGEST_DIFF} lines more"] if len(changes) > LONGEST_DIFF else []
        how = f"If that is meant, write it again with duly.testing.snapshot_schedule(app, {str(path)!r}), or run pytest --duly-snapshots."
        raise AssertionError("\n".join([f"{path} is not what the code declares. {how}", *changes[:LONGEST_DIFF], *more]))


def _range(before: str, start: Moment | None, days: int | None) -> tuple[Instant, int]:
    found = _HEADER.search(before.partition("\n")[0])
    if days is not None and not 1 <= days <= 3_660:
        raise Invalid("DULY-E104", f"{days} is not between 1 and 3660.", field="days")
    if start is not None:
        first = moment_of(start, "start", "UTC")[0]
    elif found is not None:
        first = moment_of(found[1], "start", "UTC")[0]
    else:
        first = from_datetime(datetime(datetime.now(UTC).year, 1, 1, tzinfo=UTC))
    return first, days or (int(found[2]) if found is not None else 400)


def _snapshot(app: App, start: Instant, days: int) -> str:
    lines = [f"# The fires of {app.name} from {to_datetime(start):%Y-%m-%d} for {days} days. tzdata {tzdata_version()}."]
    lines.append("# Written by duly.testing.snapshot_schedule: commit it, and a change of a schedule shows in review.")
    for name, task in sorted(app.declared.items()):
        lines += ["", *_of_job(app, name, task, start, start + days * DAY)]
    return "\n".join(lines) + "\n"


def _of_job(app: App, name: str, task: Any, start: Instant, end: Instant) -> Iterator[str]:
    timing = task.spec.timing
    schedule = schedule_of(_written_out(app, timing), _NOBODY)
    if schedule is None:
        yield f"{name}: only when enqueued"
        return
    found = fires(schedule, start - 1, end - 1, MOST_COUNTED)
    yield f"{name}: {describe(schedule)} ({timing.zone}), {len(found)} fires"
    if timing.cron is not None and "H" in timing.cron.upper():
        yield "  H is a slot of the job's own, chosen when it is created: the times here stand for it"
    if len(found) > MOST_FIRES:
        yield from _by_day(schedule, timing.zone, found)
    else:
        for at in found:
            yield _line(schedule, timing.zone, at)


def _line(schedule: Schedule, zone: str, at: Instant) -> str:
    local = to_datetime(at).astimezone(load_zone(zone))
    shown = f"  {local:%a} {local.isoformat(sep=' ', timespec='auto' if local.microsecond else 'seconds' if local.second else 'minutes')}"
    note = explain_fire(schedule, at)
    return shown if note is None else f"{shown}  {note}"


def _by_day(schedule: Schedule, zone: str, found: list[Instant]) -> Iterator[str]:
    """Days that are alike in one line: how often, the first and the last time of each."""
    days: dict[datetime, list[datetime]] = {}
    for at in found:
        local = to_datetime(at).astimezone(load_zone(zone))
        days.setdefault(datetime(local.year, local.month, local.day, tzinfo=UTC), []).append(local)
    runs: list[tuple[datetime, datetime, str]] = []
    for day, locals_ in days.items():
        told = f"{len(locals_)} fires, {locals_[0]:%H:%M:%S} to {locals_[-1]:%H:%M:%S}"
        if runs and runs[-1][2] == told and runs[-1][1] + timedelta(days=1) == day:
            runs[-1] = (runs[-1][0], day, told)
        else:
            runs.append((day, day, told))
    for first, last, told in runs:
        span = f"{first:%Y-%m-%d}" if first == last else f"{first:%Y-%m-%d} to {last:%Y-%m-%d}, each day"
        yield f"  {span}: {told}"


def _written_out(app: App, timing: Any) -> Any:
    """With the calendars that the application declares; one of elsewhere is not known here."""
    if not timing.calendars:
        return timing
    unknown = sorted(named.name for named in timing.calendars if named.name not in app.calendars)
    if unknown:
        hint = "Declare it with app.calendar(…), or leave the job out of the snapshot."
        raise Invalid("DULY-E118", f"the calendar {unknown[0]!r} is not declared by {app.name}.", field="calendars", hint=hint)
    return replace(timing, calendars=tuple(app.calendars[named.name] for named in timing.calendars))
