"""Histories written by hand, in a few readable lines.

Times are seconds from the start of the history; `at` marks one as an instant. A `Story` writes the same four sources that a
real run has: what clients asked, what the store recorded, what handlers did, what was broken.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from duly.verify.history import SECOND, Call, Effect, Event, Fault, Final, History, Refusal, Stands, Status, Timing

# Noon of a plain Monday.
START = int(datetime(2026, 1, 5, 12, tzinfo=UTC).timestamp()) * SECOND
STATES = ["SCHEDULED", "BLOCKED", "PENDING", "RUNNING", "SUCCEEDED", "DEAD", "CANCELLED", "SKIPPED"]
NEVER = 1 << 62


def at(seconds: float) -> int:
    """So many seconds after the start."""
    return START + round(seconds * SECOND)


def text(seconds: float) -> str:
    """The same as the wire writes it."""
    return datetime.fromtimestamp(at(seconds) / SECOND, UTC).isoformat().replace("+00:00", "Z")


class Told:
    """One execution, told step by step."""

    def __init__(self, story: Story, run: str, job: str, nominal: float, attempt: int = 1) -> None:
        self.story, self.run, self.job, self.nominal, self.attempt = story, run, job, nominal, attempt
        self.fence = 0
        self.worker = 1
        self.holds = False
        self.state = "SCHEDULED"

    def _event(self, kind: str, when: float, **fields: Any) -> Event:
        return self.story.event(kind, when, run=self.run, **fields)

    def scheduled(self, when: float, due: float) -> Told:
        self._event("run.scheduled", when, attempt=self.attempt, data={"due": at(due)})
        self.state = "SCHEDULED"
        return self

    def blocked(self, when: float, reason: int = 0) -> Told:
        self._event("run.blocked", when, attempt=self.attempt, data={"reason": reason})
        self.state = "BLOCKED"
        return self

    def ready(self, when: float) -> Told:
        self._event("run.ready", when, attempt=self.attempt, data={"rank": at(self.nominal)})
        self.state = "PENDING"
        return self

    def place(self, when: float) -> Told:
        self._event("place.taken", when, job=self.job)
        self.holds = True
        return self

    def leave(self, when: float) -> Told:
        if self.holds:
            self._event("place.left", when, job=self.job)
        self.holds = False
        return self

    def grant(self, when: float, *, fence: int | None = None, worker: int = 1, asked: float | None = None) -> Told:
        self.story.fence += 1
        self.fence = self.story.fence if fence is None else fence
        self.worker = worker
        self._event(
            "lease.granted",
            when,
            attempt=self.attempt,
            fence=self.fence,
            worker=worker,
            data={"granted": at(when if asked is None else asked)},
        )
        self.state = "RUNNING"
        return self

    def start(self, when: float, *, checkpoint: int | None = None) -> Told:
        return self._effect("start", when, checkpoint=checkpoint)

    def end(self, when: float) -> Told:
        return self._effect("end", when)

    def sink(self, when: float, *, accepted: bool = True, fence: int | None = None) -> Told:
        return self._effect("effect", when, accepted=accepted, fence=fence)

    def _effect(self, phase: Any, when: float, *, fence: int | None = None, **fields: Any) -> Told:
        self.story.effects.append(
            Effect(
                phase=phase,
                at=at(when),
                job=self.job,
                run=self.run,
                attempt=self.attempt,
                fence=self.fence if fence is None else fence,
                nominal=at(self.nominal),
                **fields,
            )
        )
        return self

    def checkpoint(self, when: float, number: int, *, attempt: int | None = None) -> Told:
        self._event("checkpoint.saved", when, attempt=self.attempt if attempt is None else attempt, data={"number": number})
        return self

    def cancel(self, when: float, by: str = "key") -> Told:
        self._event("cancel.asked", when, data={"by": by})
        return self

    def fails(self, when: float, *, retry: float | None = None, outcome: int = 2, fence: int | None = None) -> Told:
        """An unsuccessful attempt; with a retry it waits for it."""
        data = {"outcome": outcome, "retryAt": None if retry is None else at(retry)}
        self._event("attempt.ended", when, attempt=self.attempt, fence=fence or self.fence, worker=self.worker, data=data)
        if retry is not None:
            self.attempt += 1
            self.scheduled(when, retry)
        return self

    def lost(self, when: float, *, retry: float | None = None) -> Told:
        return self.fails(when, retry=retry, outcome=4)

    def ends(self, when: float, state: str = "SUCCEEDED", *, fence: int | None = None, worker: int | None = None) -> Told:
        """The outcome."""
        code = STATES.index(state)
        held: dict[str, Any] = {"attempt": self.attempt, "fence": fence or self.fence, "worker": worker or self.worker}
        if state == "SKIPPED" or not self.fence or self.state != "RUNNING":
            held = {"attempt": 0}
        self._event("run.ended", when, data={"state": code}, **held)
        self.state = state
        return self.leave(when)

    def runs(self, begin: float, finish: float, **grant: Any) -> Told:
        """Taken, begun, written to the sink, ended, succeeded."""
        self.grant(begin, **grant).start(begin)
        return self.sink(finish).end(finish).ends(finish)


class Story:
    """A history in the making."""

    def __init__(self, *, seconds: float = 60, timing: Timing | None = None) -> None:
        self.seconds = seconds
        self.timing = timing or Timing()
        self.calls: list[Call] = []
        self.events: list[Event] = []
        self.effects: list[Effect] = []
        self.refusals: list[Refusal] = []
        self.faults: list[Fault] = []
        self.told: list[Told] = []
        self.about: dict[str, Any] = {}
        self.counts: dict[str, int] = {}
        self.deleted: set[str] = set()
        self.overlap: dict[str, str] = {}
        self.next: dict[str, float] = {}
        self.fence = 100
        self.actor: str | None = None
        # What is done to the history when it is told: the things that cannot be told in order.
        self.twist: Callable[[History], None] = lambda history: None

    def event(self, kind: str, when: float, **fields: Any) -> Event:
        event = Event(seq=len(self.events) + 1, at=at(when), kind=kind, actor=self.actor, **fields)
        self.events.append(event)
        return event

    def call(self, op: str, when: float, status: Status = "ok", *, took: float = 0.01, **fields: Any) -> Call:
        call = Call(op=op, status=status, invoked_at=at(when), ended_at=at(when + took), **fields)
        self.calls.append(call)
        return call

    def job(self, name: str = "a", when: float = 0, status: Status = "ok", *, id: str | None = None, tenant: int = 1, **body: Any) -> str:
        """Create a job: what was asked, and what the store made of it."""
        id = id or f"job_{name}"
        body = {"name": name, "target": {"handler": "h"}, "overlap": "allow"} | body
        answer = {"jobId": id, "version": 1} | ({"anchorAt": text(when)} if "intervalSec" in body and "anchorAt" not in body else {})
        self.call("job.create", when, status, job=id if status == "ok" else None, body=body, answer=answer if status == "ok" else {})
        self.event("job.created", when, tenant=tenant, job=id, data={"name": name, "state": 0, "version": 1})
        self.version(when, id, 1)
        self.overlap[id] = body["overlap"]
        return id

    def version(self, when: float, job: str, version: int) -> None:
        self.event("version.created", when, job=job, data={"versionId": self.number(job, version), "version": version, "maxAttempts": 3})

    @staticmethod
    def number(job: str, version: int) -> int:
        return sum(map(ord, job)) * 100 + version

    def change(self, job: str, when: float, version: int, status: Status = "ok", *, took: float = 0.01, **body: Any) -> None:
        """A new version of a job."""
        body = {"name": job.removeprefix("job_"), "target": {"handler": "h"}, "overlap": "allow"} | body
        self.call("job.update", when, status, took=took, job=job, body=body, answer={"version": version} if status == "ok" else {})
        self.version(when, job, version)

    def fire(
        self,
        job: str,
        nominal: float,
        when: float | None = None,
        *,
        run: str | None = None,
        skip: int | None = None,
        trigger: int = 0,
        due: float | None = None,
        version: int = 1,
        tenant: int = 1,
        place: bool = False,
        **data: Any,
    ) -> Told:
        """A fire, as it is recorded; where it stands comes next."""
        when = nominal + 0.01 if when is None else when
        told = Told(self, run or f"run_{job.removeprefix('job_')}_{nominal:g}", job, nominal)
        header = {"trigger": trigger, "nominal": at(nominal), "due": at(nominal if due is None else due), "skip": skip}
        header |= {"versionId": self.number(job, version), "holdsPlace": int(place)} | data
        self.event("fire.created", when, tenant=tenant, job=job, run=told.run, data=header)
        self.told.append(told)
        if skip is not None:
            told.ends(when, "SKIPPED")
        return told

    def good(self, job: str, nominal: float, *, took: float = 0.5, **fields: Any) -> Told:
        """A fire as it should be: ready at once, run, succeeded."""
        when = nominal + 0.01
        return self.fire(job, nominal, **fields).ready(when).runs(when + 0.01, when + took)

    def advance(self, job: str, frm: float, to: float | None, when: float | None = None, *, paused: bool = False, **fields: Any) -> None:
        """The schedule moves on."""
        when = frm + 0.01 if when is None else when
        data = {"from": at(frm), "to": NEVER if to is None else at(to), "paused": int(paused), "owner": fields.pop("owner", None)}
        data["versionId"] = self.number(job, fields.pop("version", 1))
        self.event("schedule.advanced", when, job=job, data=data, **{"shard": 1, "epoch": 1} | fields)

    def fault(self, kind: str, since: float, until: float | None, *nodes: str, **about: Any) -> None:
        """Something breaks."""
        self.faults.append(Fault(kind=kind, since=at(since), until=None if until is None else at(until), nodes=list(nodes), about=about))

    def history(self) -> History:
        """What was told, with a final read that agrees with it."""
        stands = [
            Stands(run=told.run, job=told.job, state=told.state, nominal=at(told.nominal))
            for told in {told.run: told for told in self.told}.values()
        ]
        jobs = [
            event.job for event in self.events if event.kind == "job.created" and event.job is not None and event.job not in self.deleted
        ]
        read = Final(at=at(self.seconds), jobs=jobs, executions=stands, counts=self.counts)
        # A story may go back in time; the store does not.
        events = sorted(self.events, key=lambda event: event.at)
        for seq, event in enumerate(events, 1):
            event.seq = seq
        history = History(
            started_at=START,
            ended_at=at(self.seconds),
            timing=self.timing,
            calls=self.calls,
            events=events,
            effects=self.effects,
            refusals=self.refusals,
            faults=self.faults,
            final=read,
            about=self.about,
        )
        self.twist(history)
        return history
