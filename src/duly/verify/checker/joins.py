"""Targets against fires, by their key: I1 and I2. What should have fired and did not, what fired and should not have, what fired twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from duly.verify.checker.book import Book
from duly.verify.checker.codes import BY_ENQUEUE, BY_HAND, SKIP_ASKED, SKIP_MISFIRE
from duly.verify.checker.expected import Expected, expect
from duly.verify.checker.index import Index, Job, Run
from duly.verify.checker.lives import Life
from duly.verify.checker.windows import Windows
from duly.verify.checker.words import span, when
from duly.verify.history import Call


@dataclass(slots=True)
class Joined:
    """What the join found about one job."""

    expected: Expected
    missing: list[int] = field(default_factory=list)
    phantom: list[Run] = field(default_factory=list)
    twice: list[Run] = field(default_factory=list)


def judge(index: Index, lives: dict[str, Life], windows: Windows, book: Book) -> dict[str, Joined]:
    """Every job; answers what was found about each, for those who look at it from another side."""
    final = index.history.final
    end = final.at if final is not None else index.history.ended_at
    found = {id: _join(life, windows, end, book) for id, life in lives.items()}
    _jobs(index, lives, book)
    _enqueued(index, book, windows, end)
    return found


def _join(life: Life, windows: Windows, end: int, book: Book) -> Joined:
    job = life.job
    joined = Joined(expect(life, windows, end))
    expected = joined.expected
    by_nominal: dict[int, Run] = {}
    # Whoever pauses or deletes a job does not want what was due and not fired yet.
    unwanted = any(call.op in ("job.skip", "job.pause", "job.delete") for call in job.calls)
    for run in job.fires:
        book.look("I2")
        nominal = run.nominal
        if nominal in by_nominal:
            joined.twice.append(run)
            says = f"{job.name} fired twice for {when(nominal)}: {by_nominal[nominal].id} and {run.id}"
            book.broken("I2", says, at=nominal, job=job.id, run=run.id, seqs=_seqs(run))
            continue
        by_nominal[nominal] = run
        if nominal in expected.stopped:
            joined.phantom.append(run)
            book.broken(
                "I13", f"{job.name} fired for {when(nominal)}, paused or deleted", at=nominal, job=job.id, run=run.id, seqs=_seqs(run)
            )
        elif not windows.bent and not expected.allows(nominal):
            joined.phantom.append(run)
            book.broken(
                "I2", f"{job.name} fired for {when(nominal)}, which is no target", at=nominal, job=job.id, run=run.id, seqs=_seqs(run)
            )
        _jitter(run, life, book)
        skip = run.data.get("skip")
        if skip is not None and skip not in (SKIP_MISFIRE, SKIP_ASKED):
            book.broken("I2", f"{run.id} was skipped for the reason {skip}, which nobody knows", job=job.id, run=run.id, seqs=_seqs(run))
        if skip == SKIP_ASKED and not unwanted:
            book.broken("I2", f"{run.id} was skipped as asked, and nobody asked", at=nominal, job=job.id, run=run.id, seqs=_seqs(run))
    book.look("I1", len(expected.must))
    book.look("I2", len(expected.must))
    for target in expected.must:
        if target not in by_nominal:
            joined.missing.append(target)
            book.broken("I1", f"{job.name} lost its target {when(target)}: neither fired nor skipped", at=target, job=job.id)
            book.broken("I2", f"{job.name} did not fire for {when(target)}", at=target, job=job.id)
    return joined


def _seqs(run: Run) -> tuple[int, ...]:
    return () if run.created is None else (run.created.seq,)


def _jitter(run: Run, life: Life, book: Book) -> None:
    """The nominal time stays; what is due moves, and by less than the jitter."""
    plan = life.plan_of(run.data.get("versionId"))
    if plan is not None and not 0 <= run.due - run.nominal <= max(plan.jitter - 1, 0):
        says = f"{run.id} is due {span(run.due - run.nominal)} after its time, and its jitter is {span(plan.jitter)}"
        book.broken("I2", says, at=run.nominal, job=run.job, run=run.id, seqs=_seqs(run))


def _jobs(index: Index, lives: dict[str, Life], book: Book) -> None:
    """Every job whose create was acknowledged is there, unless somebody asked to delete it."""
    history = index.history
    read = set(history.final.jobs) if history.final is not None else None
    refused = {str(call.body.get("name")) for call in history.calls if call.op == "job.create" and call.status == "fail"}
    for life in lives.values():
        job = life.job
        if any(call.op == "job.create" and call.status == "ok" for call in job.calls):
            book.look("I1")
            if job.created is None:
                book.broken("I1", f"{job.id} was acknowledged and the store never had it", job=job.id)
            elif read is not None and job.id not in read and not any(call.op == "job.delete" for call in job.calls):
                book.broken("I1", f"{job.name} was acknowledged and is not there any more", job=job.id)
        elif job.created is not None and job.name in refused and not life.known:
            book.broken("I2", f"{job.name} is there, and its create was refused", at=job.created.at, job=job.id, seqs=(job.created.seq,))


def _enqueued(index: Index, book: Book, windows: Windows, end: int) -> None:
    """Every enqueue that was acknowledged has its runs, and no run is there that nobody asked for."""
    asked: set[str] = set()
    spare: Counter[str] = Counter()
    for call in index.history.calls:
        if call.op != "run.enqueue":
            continue
        if call.status == "ok":
            _acknowledged(index, call, book)
            asked.update(call.runs)
        elif call.status == "info" and call.job is not None:
            spare[call.job] += int(call.body.get("count") or 1)
    if not asked and not spare:
        return
    for job in index.jobs.values():
        _unasked(job, asked, spare, book)


def _acknowledged(index: Index, call: Call, book: Book) -> None:
    for id in call.runs:
        book.look("I1")
        run = index.runs.get(id)
        if run is None or run.created is None:
            book.broken("I1", f"{id} was acknowledged and the store never had it", at=call.ended_at, job=call.job, run=id)
        elif call.job is not None and run.job != call.job:
            book.broken("I16", f"{id} was asked of {call.job} and belongs to {run.job}", at=call.ended_at, job=call.job, run=id)


def _unasked(job: Job, asked: set[str], spare: Counter[str], book: Book) -> None:
    for run in job.runs:
        if run.data.get("trigger") in (BY_ENQUEUE, BY_HAND) and run.id not in asked:
            book.look("I2")
            spare[job.id] -= 1
            if spare[job.id] < 0:
                book.broken("I2", f"{run.id} was enqueued, and nobody asked for it", job=job.id, run=run.id, seqs=_seqs(run))
