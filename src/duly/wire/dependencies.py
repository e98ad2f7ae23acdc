"""Dependencies between jobs on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from duly.domain.choices import OnDeadline, Per
from duly.domain.instants import SECOND
from duly.wire.shapes import Name, Shape

if TYPE_CHECKING:
    from duly.domain.dependencies import Dependency


class DependencyShape(Shape, kw_only=True):
    """A job that must have succeeded for the same period. A fire waits `withinSec` for it, from its scheduled time."""

    job: Name
    per: Per = Per.DAY
    within_sec: Annotated[float, Meta(ge=1, le=2_678_400)] = 86_400
    on_deadline: OnDeadline = OnDeadline.SKIP


def dependency_shapes(dependencies: Sequence[Dependency]) -> list[DependencyShape]:
    """As they are read, and may be sent again."""
    return [DependencyShape(job=one.job, per=one.per, within_sec=one.within / SECOND, on_deadline=one.on_deadline) for one in dependencies]
