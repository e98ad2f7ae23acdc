"""What an answer is made of: reasons, each with a code from a closed list, a sentence, facts, and what to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from duly.domain.durations import format_duration
from duly.domain.instants import MINUTE, SECOND, Instant, Micros, to_rfc3339


class WhyCode(StrEnum):
    """Every reason there is. Programs may rely on the codes; the sentences are for people."""

    # It waits for a time.
    NOT_DUE = "NOT_DUE"
    RETRY_WAIT = "RETRY_WAIT"
    LOSS_WAIT = "LOSS_WAIT"
    SNOOZED = "SNOOZED"
    RELEASED = "RELEASED"
    DISPATCHER_BEHIND = "DISPATCHER_BEHIND"
    # It waits for others.
    OVERLAP_QUEUE = "OVERLAP_QUEUE"
    CONCURRENCY_LIMIT = "CONCURRENCY_LIMIT"
    RATE_LIMIT = "RATE_LIMIT"
    DEPENDENCY_WAIT = "DEPENDENCY_WAIT"
    # It waits for a worker.
    APPROVAL_WAIT = "APPROVAL_WAIT"
    SIGNAL_WAIT = "SIGNAL_WAIT"
    STEPS_UNDER_WAY = "STEPS_UNDER_WAY"

    QUEUED = "QUEUED"
    STARTS_SOON = "STARTS_SOON"
    WORKERS_FULL = "WORKERS_FULL"
    SLOTS_KEPT_OPEN = "SLOTS_KEPT_OPEN"
    WORKERS_DRAINING = "WORKERS_DRAINING"
    NO_WORKER = "NO_WORKER"
    NO_WORKER_IN_POOL = "NO_WORKER_IN_POOL"
    LABELS_MISSING = "LABELS_MISSING"
    HANDLER_NOT_OFFERED = "HANDLER_NOT_OFFERED"
    # It runs.
    RUNNING = "RUNNING"
    STOP_ASKED = "STOP_ASKED"
    WORKER_SILENT = "WORKER_SILENT"
    # It has ended.
    SUCCEEDED = "SUCCEEDED"
    ATTEMPTS_USED_UP = "ATTEMPTS_USED_UP"
    GAVE_UP = "GAVE_UP"
    POISON = "POISON"
    EXECUTION_TIMEOUT = "EXECUTION_TIMEOUT"
    CANCELLED = "CANCELLED"
    DISCARDED = "DISCARDED"
    SKIPPED_MISFIRE = "SKIPPED_MISFIRE"
    SKIPPED_OVERLAP = "SKIPPED_OVERLAP"
    SKIPPED_ASKED = "SKIPPED_ASKED"
    SKIPPED_STEP = "SKIPPED_STEP"
    SKIPPED_DEPENDENCY = "SKIPPED_DEPENDENCY"
    REPLAYED = "REPLAYED"
    DISMISSED = "DISMISSED"
    # The job does not fire.
    JOB_PAUSED = "JOB_PAUSED"
    JOB_CANCELLED = "JOB_CANCELLED"
    JOB_COMPLETED = "JOB_COMPLETED"
    NO_SCHEDULE = "NO_SCHEDULE"
    WAITS_FOR_FIRE = "WAITS_FOR_FIRE"
    # There was no fire at that time.
    NOT_A_FIRE = "NOT_A_FIRE"
    CLOCKS_CHANGED = "CLOCKS_CHANGED"
    EXCLUDED = "EXCLUDED"
    BEFORE_JOB = "BEFORE_JOB"
    OTHER_VERSION = "OTHER_VERSION"
    BEFORE_START = "BEFORE_START"
    AFTER_END = "AFTER_END"
    FIRE_LATE = "FIRE_LATE"
    REMOVED = "REMOVED"
    NOT_RECORDED = "NOT_RECORDED"


MEANINGS: dict[WhyCode, str] = {
    WhyCode.NOT_DUE: "Its time has not come: it was enqueued with a delay or for a time.",
    WhyCode.RETRY_WAIT: "An attempt failed; it waits for its next one.",
    WhyCode.LOSS_WAIT: "The worker that ran it is gone; it starts again soon.",
    WhyCode.SNOOZED: "Its handler put it off to a later time.",
    WhyCode.RELEASED: "A worker gave it back, for example because it was stopping; it costs no attempt.",
    WhyCode.DISPATCHER_BEHIND: "It is due and no dispatcher has made it ready yet.",
    WhyCode.OVERLAP_QUEUE: "The job runs one at a time; it waits for the run before it.",
    WhyCode.CONCURRENCY_LIMIT: "A limit of how many may run at a time is reached.",
    WhyCode.RATE_LIMIT: "A limit of how many may start in a period is reached.",
    WhyCode.DEPENDENCY_WAIT: "It waits until another job has succeeded for the same day, or whatever period the job names.",
    WhyCode.QUEUED: "Others are ahead of it in the queue of its route.",
    WhyCode.STARTS_SOON: "It is first in its queue and a worker is free: it starts in a moment.",
    WhyCode.WORKERS_FULL: "Every worker that could run it has all its slots in use.",
    WhyCode.SLOTS_KEPT_OPEN: "The slots that are free are kept for tenants that have less than their share of them.",
    WhyCode.WORKERS_DRAINING: "Every worker that could run it is stopping and takes no more.",
    WhyCode.NO_WORKER: "No worker is alive.",
    WhyCode.NO_WORKER_IN_POOL: "No live worker is in the pool that the job names.",
    WhyCode.LABELS_MISSING: "No live worker of the pool has the labels that the job requires.",
    WhyCode.HANDLER_NOT_OFFERED: "No live worker of the pool offers the job's handler.",
    WhyCode.RUNNING: "It is running.",
    WhyCode.STOP_ASKED: "It is running and was asked to stop.",
    WhyCode.WORKER_SILENT: "It is running on a worker whose heartbeat has stopped; it will be taken from it.",
    WhyCode.SUCCEEDED: "It has succeeded.",
    WhyCode.ATTEMPTS_USED_UP: "Every attempt that its job allows has failed.",
    WhyCode.GAVE_UP: "It failed in a way that is not retried, by a rule of its job or by its handler.",
    WhyCode.POISON: "It was running each time a worker died, so it is quarantined.",
    WhyCode.EXECUTION_TIMEOUT: "All its attempts together took longer than its job allows.",
    WhyCode.CANCELLED: "Somebody cancelled it.",
    WhyCode.DISCARDED: "Its handler ended it as not worth doing.",
    WhyCode.SKIPPED_MISFIRE: "No dispatcher was there at its time, and the job's catch-up policy did not make up for it.",
    WhyCode.SKIPPED_OVERLAP: "The job's run before it was still live, and the overlap policy skips.",
    WhyCode.SKIPPED_ASKED: "Somebody asked to skip this one fire.",
    WhyCode.REPLAYED: "This dead letter was replayed as another execution.",
    WhyCode.DISMISSED: "Somebody discarded this dead letter.",
    WhyCode.JOB_PAUSED: "The job is paused and does not fire.",
    WhyCode.JOB_CANCELLED: "The job is cancelled and fires no more.",
    WhyCode.JOB_COMPLETED: "The job's schedule has no more fires.",
    WhyCode.NO_SCHEDULE: "The job has no schedule: it runs only when it is asked to.",
    WhyCode.APPROVAL_WAIT: "A step waits for somebody to approve it.",
    WhyCode.SIGNAL_WAIT: "A step waits for a signal from outside.",
    WhyCode.STEPS_UNDER_WAY: "The run waits for its steps.",
    WhyCode.SKIPPED_STEP: "A step was skipped: its path was broken or not taken.",
    WhyCode.SKIPPED_DEPENDENCY: "The job that it waited for did not succeed in time.",
    WhyCode.WAITS_FOR_FIRE: "The job waits for its next fire.",
    WhyCode.NOT_A_FIRE: "The schedule names no such time.",
    WhyCode.CLOCKS_CHANGED: "A change of the clocks moved, joined or removed the fire.",
    WhyCode.EXCLUDED: "A calendar excludes this time, or moved the fire.",
    WhyCode.BEFORE_JOB: "The job did not exist at that time.",
    WhyCode.OTHER_VERSION: "Another version of the job was current at that time.",
    WhyCode.BEFORE_START: "It lies before the schedule's startAt.",
    WhyCode.AFTER_END: "It lies after the schedule's endAt.",
    WhyCode.FIRE_LATE: "It is a fire of the schedule and no dispatcher has come to it yet.",
    WhyCode.REMOVED: "It is older than the history that is kept.",
    WhyCode.NOT_RECORDED: "It is a fire of the schedule and nothing is recorded of it: the job did not fire then.",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: a code, a sentence, the facts behind it, since and until when it holds, and what to do about it."""

    code: WhyCode
    message: str
    facts: dict[str, Any] = field(default_factory=dict)
    since: Instant | None = None
    until: Instant | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The reasons, most important first; never none."""

    reasons: list[Reason]

    @property
    def summary(self) -> str:
        """The whole answer in one sentence."""
        return self.reasons[0].message


def moment(at: Instant) -> str:
    """A time in a sentence: to the second, in UTC."""
    return to_rfc3339(at // SECOND * SECOND)


def span(length: Micros) -> str:
    """A length of time in a sentence: two units at most."""
    length = max(length, 0)
    if length < SECOND:
        return f"{length // 1000} ms"
    rounded = length // SECOND * SECOND if length < 60 * MINUTE else length // MINUTE * MINUTE
    return format_duration(rounded)


def counted(count: int, one: str, many: str | None = None) -> str:
    """`1 run`, `3 runs`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def known(**facts: Any) -> dict[str, Any]:
    """Facts without those that nobody knows."""
    return {name: value for name, value in facts.items() if value is not None}
