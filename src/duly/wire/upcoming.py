"""What will fire, on the wire."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from duly.wire.shapes import Shape, View


class UpcomingFireView(View, kw_only=True):
    """One fire to come. `note` says what the clocks or a calendar did to it; `isSkipped`: somebody asked to skip it.

    `expectedSec` is what its runs mostly take, where enough is known.
    """

    at: str
    job_id: str
    job_name: str
    pool: str
    is_skipped: bool
    note: str | None
    expected_sec: float | None = None


class MinuteView(View, kw_only=True):
    """How many fires a minute has; with `summary=load` also for how long runs are expected to run in it, all together."""

    at: str
    fires: int
    busy_sec: float | None = None


class UpcomingView(View, kw_only=True):
    """Fires in the order of their times; with `summary=minute` or `summary=load` the minutes that have any instead.

    The answer is complete before `until`, which is earlier than asked for when there is too much to compute. `capped` jobs have
    more fires in the window than are shown of one job. `unknown` fires are in no load: their jobs have hardly run yet.
    """

    since: str = field(name="from")
    until: str
    items: list[UpcomingFireView]
    minutes: list[MinuteView]
    capped: int
    unknown: int = 0
    next_cursor: str | None = None


class SpreadMinuteView(View, kw_only=True):
    """A minute of the coming day: how many fires it has, and how many after the moves."""

    at: str
    before: int
    after: int


class MoveView(View, kw_only=True):
    """A job that would fire at a quiet minute of its own. `source`: it is declared in that code, and moved there."""

    job_id: str
    job_name: str
    pool: str
    before: str
    after: str
    source: str | None


class SpreadView(View, kw_only=True):
    """The fewest moves that leave no minute of the coming day to more than `most` jobs, as far as they can be moved; nothing is changed.

    The minutes that have any fires, of jobs that fire at most once an hour; `often` jobs fire more often, and are in none. `isWhole` is
    false where there are more jobs than are looked at.
    """

    since: str = field(name="from")
    most: int
    moves: list[MoveView]
    minutes: list[SpreadMinuteView]
    often: int
    is_whole: bool


class MoveShape(Shape, kw_only=True):
    """A job whose cron expression becomes another, if it still is the one before."""

    job_id: Annotated[str, Meta(max_length=64)]
    before: Annotated[str, Meta(min_length=1, max_length=200)]
    after: Annotated[str, Meta(min_length=1, max_length=200)]


class RescheduleShape(Shape, kw_only=True):
    """Moves, each carried out by itself. To undo them, send them with `before` and `after` exchanged."""

    moves: Annotated[list[MoveShape], Meta(min_length=1, max_length=200)]


class RefusedMoveView(View, kw_only=True):
    """A move that was not carried out, and why."""

    job_id: str
    code: str
    detail: str


class RescheduledView(View, kw_only=True):
    """What has become of the moves."""

    done: list[str]
    refused: list[RefusedMoveView]
