"""Backfills on the wire."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Raw, UnsetType, field

from duly.domain.backfill import Rerun
from duly.domain.job import Priority
from duly.wire.bulk import Rate
from duly.wire.executions import StateName
from duly.wire.shapes import Moment, Shape, View


class BackfillShape(Shape, kw_only=True):
    """Run what the schedule named from `from` to `to`, both included, and what did not run then."""

    first: Moment = field(name="from")
    last: Moment = field(name="to")
    rerun: Rerun = Rerun.NONE
    dry_run: bool = False
    rate_per_sec: Rate | None = None
    max_concurrent: Annotated[int, Meta(ge=1, le=1000)] = 1
    payload: Raw | UnsetType = UNSET
    priority: Priority = Priority.LOW


class LeftView(View, kw_only=True):
    """A time that is left alone, because it has a run in this state."""

    at: str
    state: StateName


class BackfillView(View, kw_only=True):
    """What a backfill runs; `batchId` is null after a dry run, or when there is nothing to do. The lists show the first hundred."""

    batch_id: str | None
    targets: int
    run: int
    left: int
    first_runs: list[str]
    first_left: list[LeftView]
