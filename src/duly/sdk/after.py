"""Dependencies between jobs, as code declares them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from duly.domain.dependencies import Dependency, OnDeadline, Per
from duly.domain.durations import parse_duration
from duly.domain.errors import Invalid


class After:
    """Fire only after another job has succeeded for the same day: `after=After("extract", within="6h", otherwise="run")`.

    `per` is hour, day, week or month, on the clock of the job's zone. A fire waits `within` from its scheduled time; then it is skipped,
    or runs all the same (`otherwise="run"`).
    """

    def __init__(self, job: Any, *, per: str = "day", within: str | float | timedelta = "1d", otherwise: str = "skip") -> None:
        if per not in set(Per):
            raise Invalid("DULY-E118", f"{per!r} is not one of {', '.join(Per)}.", field="after")
        if otherwise not in set(OnDeadline):
            raise Invalid("DULY-E118", f"{otherwise!r} is not one of {', '.join(OnDeadline)}.", field="after")
        name = job if isinstance(job, str) else getattr(job, "name", None)
        if not isinstance(name, str):
            hint = 'Write after=extract, after="extract" or after=After("extract", within="6h").'
            raise Invalid("DULY-E118", f"{repr(job)[:60]} is no job, and no name of one.", field="after", hint=hint)
        self.dependency = Dependency(
            job=name, per=Per(per), within=parse_duration(within, field="after"), on_deadline=OnDeadline(otherwise)
        )


def dependencies_of(given: Any) -> tuple[Dependency, ...]:
    """What `after=` may be: a job, its name, an After, or several of them."""
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [] if given is None else [given]
    return tuple((one if isinstance(one, After) else After(one)).dependency for one in several)
