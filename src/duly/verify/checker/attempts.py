"""Each execution's own story, replayed in the order of the commits: I3, I4, I5, I6, I10, I15, I18."""

from __future__ import annotations

from duly.verify.checker.book import Book
from duly.verify.checker.codes import (
    BLOCKED,
    COSTS_AN_ATTEMPT,
    DEAD,
    EDGES,
    EDGES_OF_FLOWS,
    FINAL,
    NEW,
    PENDING,
    RUNNING,
    SCHEDULED,
    STATE_NAMES,
    WORKER_LOST,
)
from duly.verify.checker.index import Index, Run
from duly.verify.checker.lives import Life
from duly.verify.checker.windows import Windows
from duly.verify.checker.words import span
from duly.verify.history import Event
from duly.verify.targets import Plan

_WAITS = {"run.scheduled": SCHEDULED, "run.blocked": BLOCKED, "run.ready": PENDING}


def judge(index: Index, lives: dict[str, Life], windows: Windows, book: Book) -> None:
    """Every execution."""
    plain = Plan({})
    _versions(index, book)
    for run in index.runs.values():
        if run.created is None:
            continue
        plan = _plan_of(run, index, lives)
        _Replay(run, book, windows).go()
        _effects(run, book)
        _starts(run, windows, book)
        version = index.jobs[run.job].versions.get(run.data.get("versionId", -1)) if run.job in index.jobs else None
        _retries(run, plan, version, index, windows, book, plain)


def _plan_of(run: Run, index: Index, lives: dict[str, Life]) -> Plan | None:
    """What was asked for: of the job, or of the step that it is."""
    of = run
    while of.is_step:
        above = index.runs.get(str(of.data["flow"]))
        if above is None:
            return None
        of = above
    life = lives.get(of.job or "")
    plan = life.plan_of(of.data.get("versionId")) if life is not None else None
    if plan is None or of is run:
        return plan
    place, steps = int(run.data["step"]), plan.body.get("steps") or []
    return Plan(steps[place], None) if place < len(steps) else None


def _versions(index: Index, book: Book) -> None:
    """The versions of a job are numbered one after another."""
    for job in index.jobs.values():
        for nth, event in enumerate(job.versions.values(), 1):
            book.look("I18")
            if event.data["version"] != nth:
                says = f"{job.name} got version {event.data['version']} after {nth - 1}"
                book.broken("I18", says, at=event.at, job=job.id, seqs=(event.seq,))


def due_at(run: Run) -> int:
    """Before this instant it must not begin. What was wanted at once is due when it was written, whatever clock named the time."""
    created = run.created
    if run.by_schedule or created is None or any(event.kind == "run.scheduled" for event in run.waits[:1]):
        return run.due
    return min(run.due, created.at)


class _Replay:
    """The registers of one execution while its events go by."""

    def __init__(self, run: Run, book: Book, windows: Windows) -> None:
        self.run, self.book, self.windows = run, book, windows
        self.state = NEW
        self.live: Event | None = None
        self.ending: Event | None = None
        self.highest = 0
        self.attempt = 1
        self.checkpoint = 0
        self.due = due_at(run)

    def go(self) -> None:
        run, book = self.run, self.book
        book.look("I18")
        if run.by_schedule and not self.windows.bent and run.created is not None and run.created.at < run.nominal - self.windows.skew:
            self._break("I6", f"was fired {span(run.nominal - run.created.at)} before its time", run.created)
        created = 0
        for event in run.events:
            match event.kind:
                case "lease.granted":
                    self._grant(event)
                case "run.ended":
                    self._end(event)
                case "run.ready" | "run.scheduled" | "run.blocked":
                    self._wait(event)
                case "flow.begun":
                    self._move(RUNNING, event)
                case "attempt.ended":
                    self._attempt(event)
                case "timer.changed":
                    # Somebody asked for the retry at once.
                    self.due = event.data.get("due") or self.due
                case "checkpoint.saved":
                    self._checkpoint(event)
                case "fire.created":
                    created += 1
                    if event.at - run.events[0].at > self.windows.forgiveness:
                        self._break("I18", "was moved before it was created", run.events[0])
                case _:
                    pass
        if created > 1:
            book.broken("I2", f"{run.id} was created {created} times", run=run.id, job=run.job)
        book.look("I3")
        if len(run.ends) > 1:
            seqs = tuple(event.seq for event in run.ends)
            book.broken("I3", f"{run.id} has {len(run.ends)} outcomes", at=run.ends[1].at, run=run.id, job=run.job, seqs=seqs)
        if not run.ends and self.state == NEW:
            self._break("I18", "was created and stands nowhere", run.created)

    def _break(self, invariant: str, says: str, event: Event | None) -> None:
        run = self.run
        seqs = () if event is None else (event.seq,)
        self.book.broken(invariant, f"{run.id} {says}", at=event.at if event else None, run=run.id, job=run.job, seqs=seqs)

    def _move(self, to: int, event: Event) -> None:
        edges = EDGES_OF_FLOWS if self.run.is_step or self.run.begun is not None else EDGES
        if to not in edges.get(self.state, frozenset()):
            before = "new" if self.state == NEW else STATE_NAMES[self.state]
            self._break("I18", f"went from {before} to {STATE_NAMES[to]}", event)
        self.state = to

    def _wait(self, event: Event) -> None:
        to = _WAITS[event.kind]
        expected = self.attempt
        if self.live is not None and to == SCHEDULED:
            # In one transaction with the end of the attempt; which of the two is written first is nobody's promise.
            self.ending, self.live = self.live, None
            expected = self.attempt = (self.ending.attempt or 0) + 1
        if event.attempt is not None and event.attempt != expected:
            self._break("I10", f"waits for attempt {event.attempt}, and attempt {expected} is next", event)
        if to == SCHEDULED:
            self.due = event.data.get("due") or self.due
        self._move(to, event)

    def _grant(self, event: Event) -> None:
        book = self.book
        book.look("I4")
        book.look("I6")
        book.look("I10")
        fence = event.fence or 0
        if self.live is not None:
            self._break("I4", f"was granted under fence {fence} while fence {self.live.fence} was live", event)
        if fence <= self.highest:
            self._break("I4", f"was granted under fence {fence} after fence {self.highest}", event)
        if event.attempt != self.attempt:
            self._break("I10", f"was granted as attempt {event.attempt}, and attempt {self.attempt} is next", event)
        if event.at < self.due - self.windows.skew and not self.windows.bent:
            self._break("I6", f"was granted {span(self.due - event.at)} before it was due", event)
        # A grant to a run that is live is said once, as I4.
        if self.live is None:
            self._move(RUNNING, event)
        self.live, self.highest = event, max(self.highest, fence)
        self.attempt = event.attempt or self.attempt

    def _attempt(self, event: Event) -> None:
        book = self.book
        book.look("I5")
        ending = self.ending
        if ending is not None and ending.fence == event.fence and ending.attempt == event.attempt:
            self.ending = None
            return
        if self._is_stale(event, "an end of its attempt"):
            return
        self.ending, self.live = self.live, None
        self.attempt = (event.attempt or 0) + 1

    def _is_stale(self, event: Event, what: str) -> bool:
        """Whether this write came from somebody who does not hold the lease; said as I5."""
        live = self.live
        if live is None:
            self._break("I5", f"took {what} under fence {event.fence}, and no lease was live", event)
            return True
        if event.fence is not None and (event.fence != live.fence or event.worker != live.worker):
            by = f"fence {event.fence} of worker {event.worker}"
            self._break("I5", f"took {what} under {by}, and fence {live.fence} of worker {live.worker} was live", event)
            return True
        if event.attempt is not None and event.attempt != live.attempt:
            self._break("I5", f"took {what} from attempt {event.attempt}, and attempt {live.attempt} was live", event)
            return True
        return False

    def _end(self, event: Event) -> None:
        state = event.data.get("state")
        if state not in FINAL:
            self._break("I18", f"ended as {state}, which is no final state", event)
            return
        if self.run.ends[0] is not event:
            return
        self.book.look("I5")
        if event.fence is None:
            if self.live is not None:
                self._break("I5", f"was ended by nobody while fence {self.live.fence} was live", event)
            self.live = None
            self._move(state, event)
            return
        ending = self.ending
        if self.live is None and ending is not None and ending.fence == event.fence and ending.attempt == event.attempt:
            # Its attempt was written first.
            self._move(state, event)
            self.ending = None
            return
        if not self._is_stale(event, "an outcome"):
            self.ending, self.live = self.live, None
        self._move(state, event)

    def _checkpoint(self, event: Event) -> None:
        self.book.look("I15")
        number = int(event.data.get("number") or 0)
        if number <= self.checkpoint:
            self._break("I15", f"saved checkpoint {number} after {self.checkpoint}", event)
        self.checkpoint = max(self.checkpoint, number)
        self.book.look("I5")
        self._is_stale(event, f"checkpoint {number}")


def _effects(run: Run, book: Book) -> None:
    """What the sink took: one write per fence, and never one of a lower fence after a higher one."""
    if not run.effects:
        return
    highest = 0
    taken: set[int] = set()
    for effect in run.effects:
        if effect.phase != "effect":
            continue
        book.look("I3")
        book.look("I5")
        if not effect.accepted:
            continue
        if effect.fence in taken:
            book.broken("I3", f"the sink took two writes of {run.id} under fence {effect.fence}", at=effect.at, run=run.id, job=run.job)
        if effect.fence < highest:
            says = f"the sink took a write of {run.id} under fence {effect.fence} after one under fence {highest}"
            book.broken("I5", says, at=effect.at, run=run.id, job=run.job)
        taken.add(effect.fence)
        highest = max(highest, effect.fence)


def _starts(run: Run, windows: Windows, book: Book) -> None:
    """By the handlers' own account: one start for each grant, none before it is due, and each with the newest checkpoint."""
    due = due_at(run)
    begun: set[int] = set()
    for start in run.starts:
        book.look("I4")
        if start.fence in begun:
            book.broken("I4", f"{run.id} was begun twice under fence {start.fence}", at=start.at, run=run.id, job=run.job)
        begun.add(start.fence)
        book.look("I6")
        if start.at < due - windows.skew and not windows.bent:
            book.broken("I6", f"{run.id} began {span(due - start.at)} before it was due", at=start.at, run=run.id, job=run.job)
        if start.checkpoint is None:
            continue
        grant = next((grant for grant in run.grants if grant.fence == start.fence), None)
        if grant is None:
            continue
        book.look("I15")
        saved = max((int(event.data.get("number") or 0) for event in run.checkpoints if event.seq < grant.seq), default=0)
        if start.checkpoint != saved:
            says = f"{run.id} began attempt {start.attempt} at checkpoint {start.checkpoint}, and {saved} was saved"
            book.broken("I15", says, at=start.at, run=run.id, job=run.job)


def _retries(run: Run, plan: Plan | None, version: Event | None, index: Index, windows: Windows, book: Book, plain: Plan) -> None:
    """The budgets: failures have one, losses another, and whoever is released pays from neither."""
    if not run.attempts:
        return
    book.look("I10")
    policy = (plan or plain).body.get("retryPolicy") or {}
    rules = policy.get("rules") or []
    told = version.data.get("maxAttempts") if version is not None else None
    most = int(policy.get("maxAttempts", told or 3))
    widest = max([most, *(rule.get("maxAttempts") or 0 for rule in rules)])
    most_losses = int(policy.get("maxLosses", 3))
    failures = losses = 0
    for event in run.attempts:
        outcome = event.data.get("outcome")
        retry_at = event.data.get("retryAt")
        failures += outcome in COSTS_AN_ATTEMPT
        losses += outcome == WORKER_LOST
        if retry_at is None:
            continue
        if outcome in COSTS_AN_ATTEMPT:
            if failures >= widest:
                _budget(run, f"is tried again after {failures} failures of {widest}", event, book)
            wait, ended = _shortest_wait(policy, failures), _ended_at(run, event)
            judged = plan is not None and not rules and not windows.bent and not index.history.about.get("ownWaits")
            # The wait is counted by the worker's clock, the end of the attempt by the handler's.
            if judged and retry_at - ended < wait - windows.forgiveness - windows.skew - windows.behind(ended, event.at):
                _budget(run, f"is tried again after {span(retry_at - ended)}, and {span(wait)} is the shortest wait", event, book)
        if outcome == WORKER_LOST and plan is not None and losses >= most_losses:
            _budget(run, f"is tried again after {losses} lost workers of {most_losses}", event, book)
    if run.state == DEAD and plan is not None and not rules and not index.history.about.get("ownDeaths"):
        body = plan.body
        if failures < most and losses < most_losses and not body.get("executionTimeoutSec"):
            _budget(run, f"is dead after {failures} failures of {most} and {losses} losses of {most_losses}", run.ends[0], book)


def _ended_at(run: Run, event: Event) -> int:
    """The latest instant at which we know that the attempt still went on. It may have been written down much later."""
    known = [effect.at for effect in run.effects if effect.fence == event.fence]
    return max([*known, *(grant.at for grant in run.grants if grant.fence == event.fence)], default=event.at)


def _budget(run: Run, says: str, event: Event, book: Book) -> None:
    book.broken("I10", f"{run.id} {says}", at=event.at, run=run.id, job=run.job, seqs=(event.seq,))


def _shortest_wait(policy: dict[str, object], failures: int) -> int:
    """The least that the policy waits after so many failures, in microseconds."""

    def number(key: str, default: float) -> float:
        value = policy.get(key, default)
        return float(value) if isinstance(value, int | float) else default

    first, most = number("initialDelayMs", 10_000) * 1000, number("maxDelayMs", 3_600_000) * 1000
    growth = {"FIXED": 1.0, "LINEAR": float(failures)}.get(str(policy.get("backoff", "EXPONENTIAL")))
    if growth is None:
        growth = number("multiplier", 2.0) ** min(failures - 1, 64)
    return round(min(first * growth * (1 - number("jitter", 0.1)), most))
