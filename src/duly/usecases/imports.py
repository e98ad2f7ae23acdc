"""An import before it is done: each draft with the fires that it would have here beside those that the old system has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import msgspec

from duly.domain.errors import DulyError
from duly.domain.imports.difference import Difference, compare
from duly.domain.imports.draft import Draft
from duly.domain.instants import SECOND, Instant
from duly.domain.job import check_spec, schedule_of
from duly.domain.schedule import Schedule
from duly.domain.schedule import fires as new_fires
from duly.domain.words import describe
from duly.wire.jobs import JobShape
from duly.wire.specs import spec_of

DAYS = 400
# A fire each minute of 400 days and a little: more is not compared one by one.
MOST_FIRES = 600_000


@dataclass(frozen=True, slots=True)
class Preview:
    """A draft, the job in words, and the difference; `refusal` says why Duly would not take it."""

    draft: Draft
    words: str | None = None
    difference: Difference | None = None
    refusal: str | None = None
    # Over how many days fires were compared: fewer than asked for what fires very often.
    days: int = 0

    @property
    def cannot(self) -> str | None:
        """Why it cannot be a job."""
        return self.draft.cannot or self.refusal


def preview(drafts: Sequence[Draft], now: Instant, days: int = DAYS, *, most: int = MOST_FIRES) -> list[Preview]:
    """Look at each of them over so many days from now on, or as many as `most` fires take. An interval is compared as if both began now."""
    return [_preview(draft, now // SECOND * SECOND, days, most) for draft in drafts]


def _preview(draft: Draft, now: Instant, days: int, most: int) -> Preview:
    if draft.body is None or draft.old is None:
        return Preview(draft)
    try:
        shape = msgspec.json.decode(msgspec.json.encode({"name": draft.name, **draft.body}), type=JobShape)
        spec = spec_of(shape, now, fallback_name=draft.name)
        check_spec(spec)
        # Nothing that is imported says H, so the job's own id, which nobody knows yet, changes nothing.
        schedule = schedule_of(spec.timing, UUID(int=0))
    except DulyError as error:
        return Preview(draft, refusal=f"Duly does not take it: {error.message}")
    except msgspec.ValidationError as error:
        return Preview(draft, refusal=f"Duly does not take it: {error}.")
    if schedule is None:
        return Preview(draft, refusal="It has no schedule.")
    after = now // SECOND
    a_day = len(draft.old(after, after + 86_400))
    days = days if a_day * days <= most else max(1, most // a_day)
    until = after + days * 86_400
    return Preview(draft, describe(schedule), compare(draft.old(after, until), _seconds(schedule, now, until)), days=days)


def _seconds(schedule: Schedule, now: Instant, until: int) -> list[int]:
    # One a second is the most that any schedule does.
    return [at // SECOND for at in new_fires(schedule, now, until * SECOND, until - now // SECOND + 1)]
