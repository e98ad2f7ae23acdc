"""What will fire, on the wire."""

from __future__ import annotations

from msgspec import field

from duly.wire.shapes import View


class UpcomingFireView(View, kw_only=True):
    """One fire to come. `note` says what the clocks or a calendar did to it; `isSkipped`: somebody asked to skip it."""

    at: str
    job_id: str
    job_name: str
    pool: str
    is_skipped: bool
    note: str | None


class MinuteView(View, kw_only=True):
    """How many fires a minute has."""

    at: str
    fires: int


class UpcomingView(View, kw_only=True):
    """Fires in the order of their times; with `summary=minute` the minutes that have any instead.

    The answer is complete before `until`, which is earlier than asked for when there is too much to compute. `capped` jobs have
    more fires in the window than are shown of one job.
    """

    since: str = field(name="from")
    until: str
    items: list[UpcomingFireView]
    minutes: list[MinuteView]
    capped: int
    next_cursor: str | None = None
