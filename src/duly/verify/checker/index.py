"""One pass over a history; afterwards every question is a look-up: by run, by job, by worker, by shard."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from duly.verify.checker.codes import BY_SCHEDULE, SKIPPED
from duly.verify.history import Call, Effect, Event, History


class Run:
    """One execution: what the store wrote about it, and what its handlers did."""

    __slots__ = ("attempts", "begun", "cancels", "checkpoints", "created", "effects", "ends", "events", "grants", "id", "starts", "waits")

    def __init__(self, id: str) -> None:
        self.id = id
        self.created: Event | None = None
        self.events: list[Event] = []
        self.waits: list[Event] = []
        self.grants: list[Event] = []
        self.attempts: list[Event] = []
        self.ends: list[Event] = []
        self.checkpoints: list[Event] = []
        self.cancels: list[Event] = []
        self.effects: list[Effect] = []
        self.starts: list[Effect] = []
        # When its steps began to be made, if it consists of some.
        self.begun: Event | None = None

    @property
    def is_step(self) -> bool:
        """Whether it is a step of another run, or an item of a step."""
        return self.data.get("flow") is not None

    @property
    def data(self) -> dict[str, Any]:
        """What the header says."""
        return self.created.data if self.created is not None else {}

    @property
    def job(self) -> str | None:
        """Whose run it is."""
        return self.created.job if self.created is not None else None

    @property
    def nominal(self) -> int:
        """The instant it stands for."""
        return int(self.data.get("nominal") or 0)

    @property
    def due(self) -> int:
        """The instant before which it must not start."""
        due = self.data.get("due")
        return self.nominal if due is None else int(due)

    @property
    def by_schedule(self) -> bool:
        """Whether a schedule made it."""
        return self.data.get("trigger") == BY_SCHEDULE

    @property
    def state(self) -> int | None:
        """Its final state; None while it has none."""
        return self.ends[0].data.get("state") if self.ends else None

    @property
    def is_skipped(self) -> bool:
        """Whether it was recorded and not run."""
        return self.state == SKIPPED

    @property
    def started_at(self) -> int | None:
        """When a handler first began with it, by the handlers' account."""
        return min((effect.at for effect in self.starts), default=None)

    @property
    def began_at(self) -> int | None:
        """When it first began: by the handlers' account, or when a worker took it where no handler speaks."""
        started = self.started_at
        if self.begun is not None:
            return self.begun.at
        return started if started is not None else self.grants[0].at if self.grants else None


class Job:
    """One job: what clients asked about it and what the store wrote."""

    __slots__ = ("calls", "changes", "created", "fires", "id", "moves", "places", "runs", "versions")

    def __init__(self, id: str) -> None:
        self.id = id
        self.created: Event | None = None
        self.calls: list[Call] = []
        self.changes: list[Event] = []
        self.versions: dict[int, Event] = {}
        self.moves: list[Event] = []
        self.places: list[Event] = []
        self.runs: list[Run] = []
        self.fires: list[Run] = []

    @property
    def name(self) -> str:
        """What people call it."""
        return str(self.created.data.get("name", self.id)) if self.created is not None else self.id


class Worker:
    """One start of a worker."""

    __slots__ = ("grants", "id", "lost", "registered")

    def __init__(self, id: int) -> None:
        self.id = id
        self.registered: Event | None = None
        self.lost: Event | None = None
        self.grants: list[Event] = []


class Index:
    """The history, looked up."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.runs: dict[str, Run] = {}
        self.jobs: dict[str, Job] = {}
        self.workers: dict[int, Worker] = {}
        self.shards: dict[int, list[Event]] = defaultdict(list)
        self.slots: dict[str, list[Event]] = defaultdict(list)
        for event in history.events:
            self._note(event)
        for run in self.runs.values():
            if run.job is not None:
                job = self._job(run.job)
                if run.is_step:
                    # It counts with its run: the job was not run once more.
                    continue
                job.runs.append(run)
                if run.by_schedule:
                    job.fires.append(run)
        for effect in history.effects:
            run = self._run(effect.run)
            run.effects.append(effect)
            if effect.phase == "start":
                run.starts.append(effect)
        for call in history.calls:
            if call.job is not None:
                self._job(call.job).calls.append(call)

    def _run(self, id: str) -> Run:
        run = self.runs.get(id)
        if run is None:
            run = self.runs[id] = Run(id)
        return run

    def _job(self, id: str) -> Job:
        job = self.jobs.get(id)
        if job is None:
            job = self.jobs[id] = Job(id)
        return job

    def _worker(self, id: int) -> Worker:
        worker = self.workers.get(id)
        if worker is None:
            worker = self.workers[id] = Worker(id)
        return worker

    def _note(self, event: Event) -> None:
        kind = event.kind
        if event.run is not None:
            run = self._run(event.run)
            run.events.append(event)
            match kind:
                case "run.ready" | "run.scheduled" | "run.blocked":
                    run.waits.append(event)
                case "lease.granted":
                    run.grants.append(event)
                    if event.worker is not None:
                        self._worker(event.worker).grants.append(event)
                case "run.ended":
                    run.ends.append(event)
                case "fire.created":
                    if run.created is None:
                        run.created = event
                case "flow.begun":
                    run.begun = event
                case "attempt.ended":
                    run.attempts.append(event)
                case "checkpoint.saved":
                    run.checkpoints.append(event)
                case "cancel.asked":
                    run.cancels.append(event)
                case "place.taken" | "place.left":
                    if event.job is not None:
                        self._job(event.job).places.append(event)
                case "slot.taken" | "slot.left":
                    self.slots[event.data["gate"]].append(event)
                case _:
                    pass
            return
        match kind:
            case "schedule.advanced" | "schedule.set" | "schedule.removed" if event.job is not None:
                self._job(event.job).moves.append(event)
            case "job.created" if event.job is not None:
                self._job(event.job).created = event
            case "job.changed" if event.job is not None:
                self._job(event.job).changes.append(event)
            case "version.created" if event.job is not None:
                self._job(event.job).versions[event.data["versionId"]] = event
            case "shard.taken" if event.shard is not None:
                self.shards[event.shard].append(event)
            case "worker.registered" if event.worker is not None:
                self._worker(event.worker).registered = event
            case "worker.lost" if event.worker is not None:
                self._worker(event.worker).lost = event
            case _:
                pass
