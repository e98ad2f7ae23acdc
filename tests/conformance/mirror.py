"""The ledger as its recorded events tell it, to be compared with the tables themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from duly.adapters.sql.engine import Engine
from duly.domain.ids import execution_text, job_text
from duly.verify.history import Event
from tests.conformance.ledger import raw, tables

Key = Any


@dataclass
class Mirror:
    """What stands in the tables, in plain values; ids are the public ones."""

    jobs: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    versions: dict[int, tuple[str, int]] = field(default_factory=dict)
    schedules: dict[str, tuple[int, int]] = field(default_factory=dict)
    shards: dict[int, tuple[int, str | None]] = field(default_factory=dict)
    executions: dict[str, tuple[str, int, int, int | None, int]] = field(default_factory=dict)
    waiting: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    running: dict[str, tuple[int, int]] = field(default_factory=dict)
    attempts: dict[tuple[str, int], tuple[int, int | None, int | None]] = field(default_factory=dict)
    outcomes: dict[str, tuple[int, int, int | None]] = field(default_factory=dict)
    workers: dict[int, tuple[int, bool]] = field(default_factory=dict)
    cancels: set[str] = field(default_factory=set)
    checkpoints: dict[str, tuple[int, int]] = field(default_factory=dict)
    places: set[tuple[str, str]] = field(default_factory=set)
    slots: dict[tuple[str, str, int], int | None] = field(default_factory=dict)


def told(events: list[Event]) -> Mirror:
    """The tables that these events lead to."""
    mirror = Mirror()
    for event in events:
        _take(mirror, event)
    return mirror


def _take(mirror: Mirror, event: Event) -> None:
    job, run, attempt, data = event.job or "", event.run or "", event.attempt or 0, event.data
    slot = (data.get("gate", ""), run, attempt)
    match event.kind:
        case "job.created" | "job.changed":
            mirror.jobs[job] = (data["state"], data.get("pausedAt"))
        case "version.created":
            mirror.versions[data["versionId"]] = (job, data["version"])
        case "schedule.set":
            mirror.schedules[job] = (data["next"], data["paused"])
        case "schedule.advanced":
            assert mirror.schedules[job][0] == data["from"]
            mirror.schedules[job] = (data["to"], data["paused"])
        case "shard.taken":
            mirror.shards[event.shard or 0] = (event.epoch or 0, data["owner"])
        case "fire.created":
            assert run not in mirror.executions
            mirror.executions[run] = (job, data["trigger"], data["due"], data["skip"], data["holdsPlace"])
        case "run.scheduled" | "timer.changed":
            mirror.waiting[run] = ("timers", attempt, data["due"])
        case "run.ready":
            mirror.waiting[run] = ("ready", attempt, data["rank"])
        case "run.blocked" | "block.changed":
            mirror.waiting[run] = ("blocked", attempt, data["reason"])
        case "lease.granted":
            del mirror.waiting[run]
            mirror.running[run] = (event.fence or 0, attempt)
        case "attempt.ended" | "attempt.changed":
            mirror.attempts[run, attempt] = (data["outcome"], event.fence, data["retryAt"])
            if mirror.running.get(run, (0, 0))[1] == attempt:
                del mirror.running[run]
        case "run.ended":
            assert run not in mirror.outcomes
            mirror.outcomes[run] = (data["state"], attempt, event.fence)
            mirror.waiting.pop(run, None)
            mirror.running.pop(run, None)
        case "worker.registered":
            mirror.workers[event.worker or 0] = (data["expires"], False)
        case "worker.renewed":
            mirror.workers[event.worker or 0] = (data["expires"], mirror.workers[event.worker or 0][1])
        case "worker.lost":
            mirror.workers[event.worker or 0] = (mirror.workers[event.worker or 0][0], True)
        case "cancel.asked":
            mirror.cancels.add(run)
        case "checkpoint.saved":
            mirror.checkpoints[run] = (data["number"], attempt)
        case "place.taken":
            mirror.places.add((job, run))
        case "place.left":
            mirror.places.remove((job, run))
        case "slot.taken" | "slot.changed":
            mirror.slots[slot] = data["until"]
        case "slot.left":
            del mirror.slots[slot]
        case _:
            raise AssertionError(f"nobody knows what {event.kind} means")


async def found(engine: Engine) -> Mirror:
    """The same, read from the tables."""
    rows = await tables(engine)
    ended = {row["id"] for row in rows["outcomes"]} | {(row["id"], row["attempt"]) for row in rows["attempts"]}
    waits = [
        (name, row, row[column]) for name, column in (("timers", "due_at"), ("ready", "rank"), ("blocked", "reason")) for row in rows[name]
    ]
    headers = await raw(engine, "SELECT id, job_id, trigger, due_at, skip_reason, holds_place FROM executions")
    return Mirror(
        jobs={job_text(row["id"]): (row["state"], row["paused_at"]) for row in await raw(engine, "SELECT id, state, paused_at FROM jobs")},
        versions={
            row["id"]: (job_text(row["job_id"]), row["version"])
            for row in await raw(engine, "SELECT id, job_id, version FROM job_versions")
        },
        schedules={job_text(row["job_id"]): (row["next_fire_at"], int(row["paused"])) for row in rows["schedules"]},
        shards={
            row["shard"]: (row["epoch"], row["owner"])
            for row in await raw(engine, "SELECT shard, epoch, owner FROM shards WHERE owner IS NOT NULL")
        },
        executions={
            execution_text(row["id"]): (job_text(row["job_id"]), row["trigger"], row["due_at"], row["skip_reason"], int(row["holds_place"]))
            for row in headers
        },
        waiting={execution_text(row["id"]): (name, row["attempt"], value) for name, row, value in waits},
        running={
            execution_text(row["id"]): (row["lease_id"], row["attempt"])
            for row in rows["members"]
            if row["id"] not in ended and (row["id"], row["attempt"]) not in ended
        },
        attempts={
            (execution_text(row["id"]), row["attempt"]): (row["outcome"], row["lease_id"], row["retry_at"]) for row in rows["attempts"]
        },
        outcomes={execution_text(row["id"]): (row["state"], row["attempt"], row["lease_id"]) for row in rows["outcomes"]},
        workers={
            row["id"]: (row["expires_at"], row["lost_at"] is not None)
            for row in await raw(engine, "SELECT id, expires_at, lost_at FROM workers")
        },
        # A wish goes when its execution has ended; that it was asked stays true.
        cancels={execution_text(row["id"]) for row in rows["cancels"]},
        checkpoints={
            execution_text(row["id"]): (row["number"], row["attempt"])
            for row in await raw(engine, "SELECT id, number, attempt FROM checkpoints WHERE number > 0")
        },
        places={(job_text(row["job_id"]), execution_text(row["id"])) for row in rows["places"]},
        slots={(_hex(row["gate"]), execution_text(row["id"]), row["attempt"]): row["until"] for row in rows["slots"]},
    )


def _hex(gate: UUID) -> str:
    return f"{gate.int:032x}"
