"""The invariants that stand alone: hints (I19), drain (I20), local times (I22), actors and secrets (I23), resources (I24)."""

from __future__ import annotations

from typing import Any

import msgspec

from duly.verify.checker.book import Book
from duly.verify.checker.index import Index, Worker
from duly.verify.checker.lives import Life
from duly.verify.checker.windows import Windows
from duly.verify.checker.words import span
from duly.verify.history import SECOND
from duly.verify.oracle import local, zone_of

HOUR = 3600 * SECOND


def judge(index: Index, lives: dict[str, Life], windows: Windows, book: Book) -> None:
    """All five; hints last, for they are judged by what the others found."""
    _drains(index, windows, book)
    _local_times(lives, book)
    _actors(index, book)
    _canaries(index, book)
    _slopes(index, book)


def hints(index: Index, book: Book) -> None:
    """With hints lost, repeated and reordered, everything else holds; and afterwards the index is what the store says."""
    injected = index.history.about.get("hints")
    if not injected:
        return
    book.look("I19", len(injected) if isinstance(injected, list | dict) else int(injected))
    broken = [invariant for invariant in (f"I{number}" for number in range(1, 19)) if book.count(invariant)]
    if broken:
        book.broken("I19", f"hints were wrong, and {', '.join(broken)} did not hold")
    differs = index.history.about.get("indexDiffers")
    if differs:
        book.broken("I19", f"after all was healed the index differed from the store: {differs}")


def _drains(index: Index, windows: Windows, book: Book) -> None:
    """A worker that was asked to stop takes nothing more, and gives back what it does not finish."""
    for fault in index.history.faults:
        if fault.kind != "drain" or windows.bent:
            continue
        grace = fault.about.get("grace")
        for worker in index.workers.values():
            # One that registered since may be the next on that node: by a clock that was set back it may seem to have come before.
            if not _lives_on(worker, fault.nodes) or worker.registered is None or worker.registered.at > fault.since - windows.skew:
                continue
            book.look("I20")
            for grant in worker.grants:
                # When it asked: a claim that was under way may arrive long after.
                asked_at = int(grant.data.get("granted") or grant.at)
                if min(asked_at - windows.skew, grant.at) > fault.since + windows.forgiveness:
                    says = f"{grant.run} was granted to worker {worker.id} {span(grant.at - fault.since)} after it began to drain"
                    book.broken("I20", says, at=grant.at, run=grant.run, seqs=(grant.seq,))
            if grace is not None:
                _given_back(index, worker, fault.since, fault.since + int(grace) + windows.forgiveness, book)


def _lives_on(worker: Worker, nodes: list[str]) -> bool:
    event = worker.registered
    if event is None:
        return False
    return event.actor in nodes or any(str(event.data.get("name", "")).startswith(node) for node in nodes)


def _given_back(index: Index, worker: Worker, since: int, by: int, book: Book) -> None:
    for grant in worker.grants:
        run = index.runs[grant.run or ""]
        over = [event.at for event in (*run.attempts, *run.ends) if event.fence == grant.fence]
        if by <= index.history.ended_at and grant.at <= since and not any(at <= by for at in over):
            book.broken("I20", f"{run.id} was neither finished nor given back by worker {worker.id}", at=by, run=run.id, seqs=(grant.seq,))


def _local_times(lives: dict[str, Life], book: Book) -> None:
    """A fixed local time fires once, whatever the clocks on walls do."""
    for life in lives.values():
        plans = life.plans
        if len(plans) != 1 or not plans[0].judges or not plans[0].is_fixed_time or plans[0].body.get("dstOverlap") == "both":
            continue
        zone = zone_of(plans[0].zone)
        seen: dict[object, int] = {}
        for run in life.job.fires:
            book.look("I22")
            shown = local(run.nominal // SECOND, zone)
            before = seen.setdefault(shown, run.nominal)
            if before != run.nominal:
                says = f"{life.job.name} fired twice for {shown} in {plans[0].zone}"
                book.broken("I22", says, at=run.nominal, job=life.job.id, run=run.id)


def _actors(index: Index, book: Book) -> None:
    """Where the store can tell who writes, it can always tell."""
    events = index.history.events
    if not any(event.actor for event in events):
        return
    book.look("I23", len(events))
    for event in events:
        if not event.actor:
            book.broken("I23", f"{event.kind} has no actor", at=event.at, job=event.job, run=event.run, seqs=(event.seq,))


def _canaries(index: Index, book: Book) -> None:
    """A secret that was handed in stands nowhere but with whoever needs it. `leaks` are other texts of the run: logs, pages, dumps."""
    history = index.history
    canaries = [str(canary) for canary in history.about.get("canaries") or ()]
    if not canaries:
        return
    sources: dict[str, Any] = {
        "an answer": [call.answer for call in history.calls],
        "an event": history.events,
        "an effect": history.effects,
        "the final read": history.final,
        "a text": history.about.get("texts") or {},
    }
    for where, source in sources.items():
        text = msgspec.json.encode(source)
        for canary in canaries:
            book.look("I23")
            if canary.encode() in text:
                book.broken("I23", f"a secret stands in {where}")


def _slopes(index: Index, book: Book) -> None:
    """`samples` are numbers over time, `slopes` says by how much each may grow in an hour: a line through them must not rise faster."""
    samples = index.history.about.get("samples") or []
    bounds = index.history.about.get("slopes") or {}
    for name, most in bounds.items():
        points = [(sample["at"], float(sample[name])) for sample in samples if sample.get(name) is not None]
        if len(points) < 3:
            continue
        book.look("I24", len(points))
        slope = _slope(points)
        if slope > float(most):
            book.broken("I24", f"{name} grows by {slope:,.1f} an hour, and {most:,} is the bound", at=points[-1][0])


def _slope(points: list[tuple[int, float]]) -> float:
    """Per hour, by least squares."""
    hours = [(at - points[0][0]) / HOUR for at, _ in points]
    middle, level = sum(hours) / len(hours), sum(value for _, value in points) / len(points)
    spread = sum((hour - middle) ** 2 for hour in hours)
    return sum((hour - middle) * (value - level) for hour, (_, value) in zip(hours, points, strict=True)) / spread if spread else 0.0
