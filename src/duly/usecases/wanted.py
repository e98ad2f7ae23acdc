"""What somebody asks for when executions are enqueued: a value, without those who see to it."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from duly.domain.choices import Priority
from duly.domain.instants import Instant, Micros
from duly.domain.lifecycle import Trigger


@dataclass(frozen=True, slots=True)
class Wanted:
    """One execution that somebody asks for. Payload is JSON text; None means the job's own. `scheduled_at` is the nominal time
    of one that was due before, `batch` what asked for many at once."""

    payload: str | None = None
    run_at: Instant | None = None
    delay: Micros | None = None
    priority: Priority | None = None
    trigger: Trigger = Trigger.ENQUEUE
    scheduled_at: Instant | None = None
    batch: UUID | None = None
