"""I11: how many executions of a job are live at once, who waits, and who was skipped because of it; and what limits let through."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from duly.verify.checker.book import Book
from duly.verify.checker.codes import BY_BACKFILL, RELEASED, SKIPPED, WAITS_FOR_A_PLACE
from duly.verify.checker.index import Index, Job, Run
from duly.verify.checker.lives import Life
from duly.verify.checker.windows import Windows
from duly.verify.checker.words import span
from duly.verify.history import SECOND, Event
from duly.verify.targets import Plan

_REPLACING = ("cancel_previous", "kill_previous")


def places(plan: Plan) -> int | None:
    """How many executions may be live; None: any number."""
    if plan.body.get("overlap", "skip") == "allow":
        most = plan.body.get("maxRunning")
        return None if most is None else int(most)
    return 1


def queue_depth(plan: Plan) -> int:
    """How many fires may wait for a place."""
    policy = plan.body.get("overlap", "skip")
    if policy == "queue_all":
        return int(plan.body.get("maxQueued") or 100)
    return 1 if policy in ("queue_one", *_REPLACING) else 0


def judge(index: Index, lives: dict[str, Life], windows: Windows, book: Book) -> None:
    """Every job that has places, and every limit."""
    for life in lives.values():
        if any(run.data.get("holdsPlace") for run in life.job.fires) or any(places(plan) is not None for plan in life.plans):
            _Places(life, index, windows, book).go()
        elif life.known:
            for run in life.job.fires:
                if run.is_skipped and run.data.get("skip") is None:
                    book.broken("I11", f"{run.id} was skipped because of another, and its job allows any number", job=run.job, run=run.id)
    _limits(index, lives, book)
    _rates(lives, windows, book)


class _Places:
    """The places of one job while its events go by."""

    def __init__(self, life: Life, index: Index, windows: Windows, book: Book) -> None:
        self.life, self.index, self.windows, self.book = life, index, windows, book
        self.live: set[str] = set()
        self.leased: set[str] = set()
        self.waiting: set[str] = set()
        self.last_left = self.last_let_in = 0
        self.to_stop: list[tuple[Run, Event]] = []

    def go(self) -> None:
        job = self.life.job
        holders = {run.id: run for run in job.fires if run.data.get("holdsPlace") or run.is_skipped}
        events = [event for run in holders.values() for event in run.events]
        for event in sorted(events, key=lambda event: event.seq):
            run = holders[event.run or ""]
            plan = self.life.plan_of(run.data.get("versionId"))
            match event.kind:
                case "place.taken":
                    self._take(run, plan, event)
                case "place.left":
                    self.live.discard(run.id)
                    self.last_left = event.at
                case "run.blocked" if event.data.get("reason") == WAITS_FOR_A_PLACE:
                    self._wait(run, plan, event)
                case "run.ready":
                    self._let_in(run, event)
                case "lease.granted":
                    self._grant(run, plan, event)
                case "attempt.ended":
                    self.leased.discard(run.id)
                case "run.ended":
                    self.leased.discard(run.id)
                    if event.data.get("state") == SKIPPED and run.data.get("skip") is None:
                        self._skip(run, plan, event)
                    self._let_in(run, event)
                case _:
                    pass
        for run, event in self.to_stop:
            if not run.cancels and not (run.ends and run.ends[0].at <= event.at + self.windows.forgiveness):
                self._break(f"{event.run} waits for {run.id}, which nobody asked to stop", event)

    def _break(self, says: str, event: Event) -> None:
        job = self.life.job
        self.book.broken("I11", f"{job.name}: {says}", at=event.at, job=job.id, run=event.run, seqs=(event.seq,))

    def _let_in(self, run: Run, event: Event) -> None:
        if run.id in self.waiting:
            self.waiting.discard(run.id)
            self.last_let_in = event.at

    def _take(self, run: Run, plan: Plan | None, event: Event) -> None:
        self.book.look("I11")
        self.live.add(run.id)
        self._let_in(run, event)
        most = None if plan is None else places(plan)
        if most is not None and len(self.live) > most:
            self._break(f"{len(self.live)} executions are live, and {most} may be", event)

    def _wait(self, run: Run, plan: Plan | None, event: Event) -> None:
        self.book.look("I11")
        self.waiting.add(run.id)
        if plan is None:
            return
        if len(self.waiting) > queue_depth(plan):
            self._break(f"{len(self.waiting)} fires wait, and {queue_depth(plan)} may", event)
        if plan.body.get("overlap") in _REPLACING:
            self.to_stop += [(self.index.runs[holder], event) for holder in self.live]

    def _grant(self, run: Run, plan: Plan | None, event: Event) -> None:
        self.book.look("I11")
        if run.id not in self.live:
            self._break(f"{run.id} was granted without a place", event)
        self.leased.add(run.id)
        most = None if plan is None else places(plan)
        if most is not None and len(self.leased) > most:
            self._break(f"{len(self.leased)} executions are leased at once, and {most} may be", event)

    def _skip(self, run: Run, plan: Plan | None, event: Event) -> None:
        """Skipped because of another: then another must have been live, or the queue full. Who left in that very moment counts."""
        self.book.look("I11")
        if plan is None:
            return
        most, policy = places(plan), plan.body.get("overlap", "skip")
        lately = event.at - self.windows.forgiveness
        if run.id in self.waiting:
            if policy not in _REPLACING:
                self._break(f"{run.id} waited and was skipped, and {policy} replaces nobody", event)
        elif most is None or policy in _REPLACING:
            self._break(f"{run.id} was skipped because of another, and {policy} skips nothing", event)
        elif len(self.live - {run.id}) < most and self.last_left < lately and not self.waiting:
            self._break(f"{run.id} was skipped because of another, and none was live", event)
        elif len(self.waiting) < queue_depth(plan) and self.last_let_in < lately:
            self._break(f"{run.id} was skipped because of another, and the queue had room", event)


def _limits(index: Index, lives: dict[str, Life], book: Book) -> None:
    """Slots: never more at once than the widest limit of the jobs that share the gate."""
    for gate, events in index.slots.items():
        widest = 0
        for run_id in {event.run for event in events}:
            run = index.runs[run_id or ""]
            life = lives.get(run.job or "")
            if run.data.get("trigger") == BY_BACKFILL or life is None or not life.known:
                widest = 0
                break
            widest = max([widest, *(limit for plan in life.plans for limit in _capacities(plan.body))])
        if not widest:
            continue
        live: set[tuple[str | None, int | None]] = set()
        for event in events:
            if event.kind == "slot.left":
                live.discard((event.run, event.attempt))
                continue
            book.look("I11")
            live.add((event.run, event.attempt))
            if len(live) > widest:
                says = f"{len(live)} executions are in gate {gate}, and {widest} may be"
                book.broken("I11", says, at=event.at, run=event.run, seqs=(event.seq,))


def _capacities(body: dict[str, Any]) -> list[int]:
    found = [body.get("maxConcurrent"), (body.get("concurrency") or {}).get("max"), (body.get("rateLimit") or {}).get("count")]
    return [int(limit) for limit in found if limit is not None]


def _rates(lives: dict[str, Life], windows: Windows, book: Book) -> None:
    """A rate of a job's own, from the grants alone: in any period no more starts than it allows.

    A claim that was held up on its way is granted later than it was asked for, so a start lies somewhere between the two. What is
    told is broken wherever it lies.
    """
    for life in lives.values():
        if len(life.plans) != 1:
            continue
        rate = life.plans[0].body.get("rateLimit")
        if not rate or rate.get("key") or rate.get("name"):
            continue
        period, most = round(float(rate.get("perSec", 1)) * SECOND), int(rate["count"])
        starts = sorted(_starts(life.job))
        for nth in range(len(starts) - most):
            book.look("I11")
            together = starts[nth : nth + most + 1]
            first, last = together[0][0], max(granted for _, granted in together)
            if last - first < period - windows.skew:
                book.broken("I11", f"{life.job.name} began {most + 1} times within {span(last - first)}", at=last, job=life.job.id)


def _starts(job: Job) -> list[tuple[int, int]]:
    """Of each grant that was begun: when it was asked for, and when it was given. A clock that lags may show the second first."""
    found: list[tuple[int, int]] = []
    for run in job.runs:
        unstarted: dict[int | None, bool] = defaultdict(bool)
        for event in run.attempts:
            unstarted[event.fence] = event.data.get("outcome") == RELEASED
        for grant in run.grants:
            if not unstarted[grant.fence]:
                asked = grant.data.get("granted") or grant.at
                found.append((asked, max(asked, grant.at)))
    return found
