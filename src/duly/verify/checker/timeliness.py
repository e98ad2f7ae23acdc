"""I7, and the end of I1: everything begins by its deadline, and nothing stands for ever.

Twice, from two sides. By key: the store says which run belongs to which target. By the effects alone: starts are paired with
targets, trusting nothing that the product wrote but whose run it was. When the two disagree, the books lie.
"""

from __future__ import annotations

from duly.verify.checker.book import Book
from duly.verify.checker.codes import BLOCKED, CANCELLED, DEAD, NEVER, PENDING, SCHEDULED, STATE_NAMES, SUCCEEDED
from duly.verify.checker.expected import Expected
from duly.verify.checker.index import Index, Job, Run
from duly.verify.checker.joins import Joined
from duly.verify.checker.lives import Life
from duly.verify.checker.matching import pair
from duly.verify.checker.sanity import standing
from duly.verify.checker.windows import Windows
from duly.verify.checker.words import span, when


def judge(index: Index, lives: dict[str, Life], joined: dict[str, Joined], windows: Windows, book: Book) -> None:
    """Every job that is judged, and every execution that is not final."""
    if windows.bent:
        return
    final = index.history.final
    end = final.at if final is not None else index.history.ended_at
    slots = _Slots(index, windows, end)
    speaking = {_handler(life) for life in lives.values() if any(run.starts for run in life.job.runs)} - {None}
    for id, found in joined.items():
        life = lives[id]
        speaks = _handler(life) in speaking or any(run.starts for run in life.job.runs)
        late = _by_key(life.job, found.expected, windows, end, speaks, slots, book)
        if speaks and life.known:
            _by_effects(life.job, found, late, windows.skew, book)
    _standing(index, windows, end, book)


def _handler(life: Life) -> str | None:
    return next((str((plan.body.get("target") or {}).get("handler")) for plan in life.plans if not plan.body.get("steps")), None)


def _waited(run: Run) -> bool:
    """Whether it had to wait for a place or a limit: nobody promised when that would be free."""
    return any(event.kind == "run.blocked" for event in run.waits)


def _needs_no_start(run: Run) -> bool:
    """Skipped, cancelled before it began, or dead because its workers were."""
    return run.is_skipped or (not run.starts and run.state in (CANCELLED, DEAD))


def _begun(run: Run, speaks: bool) -> int | None:
    if run.begun is not None:
        return run.begun.at
    return run.started_at if speaks else run.grants[0].at if run.grants else None


class _Slots:
    """Workers that are all busy take nothing more. about["slots"] says how many handlers can run at once; without it nobody is excused."""

    def __init__(self, index: Index, windows: Windows, end: int) -> None:
        self._most = int(index.history.about.get("slots") or 0)
        self._index, self._end = index, end
        self._needs = windows.calm + windows.forgiveness
        self._windows = windows
        self._free: list[tuple[int, int]] | None = None

    def deadline(self, at: int) -> int:
        """The deadline, moved on to when there was room for long enough; and past the faults that it meets there."""
        while self._most and at < self._end:
            moved = self._room_after(at)
            if moved > at:
                moved = self._windows.deadline(moved - self._needs)
            if moved <= at:
                break
            at = moved
        return at

    def _room_after(self, at: int) -> int:
        if self._free is None:
            self._free = self._find()
        for since, until in self._free:
            if until - max(since, at - self._needs) >= self._needs:
                return max(since + self._needs, at)
        return self._end

    def _find(self) -> list[tuple[int, int]]:
        steps: list[tuple[int, int]] = []
        for run in self._index.runs.values():
            over = {event.fence: event.at for event in (*run.attempts, *run.ends)}
            ended = {effect.fence: effect.at for effect in run.effects if effect.phase == "end"}
            for start in run.starts:
                steps += [(start.at, 1), (ended.get(start.fence, over.get(start.fence, self._end)), -1)]
        free: list[tuple[int, int]] = []
        since, busy = self._index.history.started_at, 0
        for at, step in sorted(steps):
            if step > 0 and busy == self._most - 1:
                free.append((since, at))
            busy += step
            if step < 0 and busy == self._most - 1:
                since = at
        return [*free, (since, max(self._end, since))] if busy < self._most else free


def _by_key(job: Job, expected: Expected, windows: Windows, end: int, speaks: bool, slots: _Slots, book: Book) -> int:
    """Each run against its own deadline; answers how many fires were late or never began."""
    late = 0
    for run in job.runs:
        if _needs_no_start(run) or _waited(run) or run.created is None:
            continue
        if run.by_schedule:
            deadline = expected.must.get(run.nominal)
            if deadline is None:
                continue
            deadline = max(deadline, windows.deadline(run.due))
        else:
            deadline = windows.deadline(max(run.due, run.created.at))
        began = _begun(run, speaks)
        book.look("I7")
        if began is None:
            if deadline <= end and not run.grants and not run.begun and slots.deadline(deadline) <= end:
                late += run.by_schedule
                book.broken("I7", f"{run.id} of {job.name} never began", at=run.due, job=job.id, run=run.id)
        elif began > deadline:
            late += run.by_schedule
            deadline = slots.deadline(deadline)
            if began <= deadline:
                continue
            says = f"{run.id} of {job.name} began {span(began - deadline)} after its deadline"
            book.broken("I7", says, at=began, job=job.id, run=run.id)
    return late


def _by_effects(job: Job, found: Joined, late: int, skew: int, book: Book) -> None:
    """The starts against the targets, and what that says against what the store says."""
    expected = found.expected
    by_nominal = {run.nominal: run for run in reversed(job.fires)}
    must: list[tuple[int, int]] = []
    may: list[tuple[int, int]] = [(target - skew, NEVER) for target in expected.may]
    for target, deadline in expected.must.items():
        run = by_nominal.get(target)
        may.append((target - skew, NEVER))
        if run is None:
            must.append((target - skew, deadline))
        elif not _needs_no_start(run):
            must.append((target - skew, NEVER if _waited(run) else deadline + run.due - run.nominal))
    starts = [run.started_at for run in job.fires if run.started_at is not None]
    lost, _ = pair(must, starts)
    book.look("I7", len(must))
    if len(lost) > len(found.missing) + late + sum(1 for run in job.fires if not run.starts and not _needs_no_start(run)):
        targets = ", ".join(when(must[place][0]) for place in lost[:5])
        book.broken(
            "I7", f"{job.name}: no start can be paired with {targets}, and the store says that all ran", at=must[lost[0]][0], job=job.id
        )
    if expected.by_oracle:
        _, extra = pair(may, starts)
        book.look("I2", len(starts))
        if len(extra) > len(found.twice) + len(found.phantom):
            at = starts[extra[0]]
            book.broken("I2", f"{job.name} began {len(starts)} times, more often than it has targets", at=at, job=job.id)
    for run in job.runs:
        if run.is_skipped and run.starts:
            book.broken("I2", f"{run.id} was recorded as skipped, and a handler ran it", at=run.started_at, job=job.id, run=run.id)
        elif run.state == SUCCEEDED and run.ends and not any(start.fence == run.ends[0].fence for start in run.starts):
            says = f"{run.id} has succeeded under fence {run.ends[0].fence}, and no handler ran it"
            book.broken("I2", says, at=run.ends[0].at, job=job.id, run=run.id, seqs=(run.ends[0].seq,))


def _standing(index: Index, windows: Windows, end: int, book: Book) -> None:
    """What is not final at the end has a reason that is younger than the time to recover."""
    held = {event.run for events in index.slots.values() for event in events}
    for run in index.runs.values():
        if run.created is None:
            continue
        book.look("I1")
        if run.ends:
            continue
        since = _stuck_since(run, index, held)
        if since is not None and windows.deadline(since) <= end:
            state = STATE_NAMES[standing(run)]
            book.broken("I1", f"{run.id} is still {state}, and nothing holds it", at=since, job=run.job, run=run.id)


def _stuck_since(run: Run, index: Index, held: set[str | None]) -> int | None:
    """Since when it could have gone on; None while something lawful holds it."""
    last = run.events[-1]
    state = standing(run)
    if state == SCHEDULED:
        waits = [event for event in run.events if event.kind in ("run.scheduled", "timer.changed")]
        return max(waits[-1].data.get("due") or 0, waits[-1].at) if waits else last.at
    if state == PENDING:
        return run.waits[-1].at
    if state == BLOCKED:
        others = index.jobs[run.job].runs if run.job in index.jobs else []
        if any(other is not run and not other.ends for other in others) or held - {run.id}:
            return None
        return max((other.ends[0].at for other in others if other.ends), default=last.at)
    if not run.grants:
        # A run of a workflow: it waits for those of its steps that have not ended.
        steps = [other for other in index.runs.values() if other.created is not None and other.created.data.get("flow") == run.id]
        return None if any(not step.ends for step in steps) else max((step.ends[0].at for step in steps), default=last.at)
    grant = run.grants[-1]
    worker = index.workers.get(grant.worker or 0)
    if worker is not None and worker.lost is not None:
        return max(worker.lost.at, grant.at)
    done = [effect.at for effect in run.effects if effect.fence == grant.fence and effect.phase == "end"]
    if done:
        return max(done)
    # A handler that has begun may take as long as it likes.
    return grant.at if index.history.effects and not any(start.fence == grant.fence for start in run.starts) else None
