"""I12: which targets of an outage run, by policy; every other is recorded as a misfire.

A target is a misfire when it is older than the grace by the time it is looked at. While none is, everything due fires. As soon
as one is, the policy decides about all that is due: `latest` runs the last, `all` the newest `maxCount` within `windowSec`,
`none` only what is within the grace. When exactly a dispatcher looked, no event says: some instant that explains what it did
must lie between the last target it saw and the commit.
"""

from __future__ import annotations

from bisect import bisect_left

from duly.verify.checker.book import Book
from duly.verify.checker.codes import SKIP_ASKED, SKIP_MISFIRE
from duly.verify.checker.index import Index, Run
from duly.verify.checker.lives import Life
from duly.verify.checker.windows import Windows
from duly.verify.checker.words import when
from duly.verify.history import SECOND, Event
from duly.verify.targets import Plan

# A long outage is written down in several transactions; how many targets past the first part are tried as "now".
MOST_GUESSES = 400


class Policy:
    """A catch-up policy with its bounds, in microseconds."""

    def __init__(self, plan: Plan) -> None:
        given = plan.body.get("catchUp") or "latest"
        bounds = {"policy": given} if isinstance(given, str) else given
        self.name: str = bounds.get("policy") or "latest"
        self.most = int(bounds.get("maxCount") or 100)
        self.window = int(bounds.get("windowSec") or 86_400) * SECOND
        self.grace = int(bounds.get("graceSec") or 60) * SECOND

    def first_to_run(self, due: list[int], now: int) -> int:
        """The oldest of the due targets that runs; all younger ones run too."""
        if now - due[0] <= self.grace:
            return due[0]
        if self.name == "latest":
            return due[-1]
        if self.name == "none":
            return now - self.grace
        oldest = now - (max(self.window, self.grace) if len(due) == 1 else self.window)
        return oldest if len(due) <= self.most else max(oldest, due[-self.most])

    def guesses(self, due: list[int], ran: int | None) -> list[int]:
        """The instants at which the decision changes, near what was decided."""
        place = len(due) if ran is None else bisect_left(due, ran)
        near = due[max(place - 1, 0) : place + 1]
        return [
            due[0] + self.grace,
            due[0] + self.grace + 1,
            *(at + wait + extra for at in near for wait in (self.grace, self.window) for extra in (0, 1)),
        ]


def judge(index: Index, lives: dict[str, Life], windows: Windows, book: Book) -> int:
    """Every advance of every schedule; answers how many caught up more than ten targets."""
    long = 0
    for life in lives.values():
        fires = sorted(life.job.fires, key=lambda run: run.nominal)
        nominals = [run.nominal for run in fires]
        explained: set[str] = set()
        takes_back = [move for move in life.job.moves if move.kind == "schedule.advanced" and move.data["from"] > move.data["to"]]
        for move in life.job.moves:
            if move.kind != "schedule.advanced" or move.data["from"] >= move.data["to"]:
                continue
            first, last = bisect_left(nominals, move.data["from"]), bisect_left(nominals, move.data["to"])
            # A one-time job moves on to never: what a later version fires is not of this advance.
            part = [run for run in fires[first:last] if run.data.get("versionId") == move.data.get("versionId")]
            # A pause moves on to its end; whoever resumes before takes that back, and what fires then is not of this advance.
            if (
                undone := next((back.seq for back in takes_back if back.seq > move.seq and back.data["to"] < move.data["to"]), None)
            ) is not None:
                part = [run for run in part if run.created is None or run.created.seq < undone]
            if not part or part[0].nominal != move.data["from"]:
                continue
            explained.update(run.id for run in part)
            plan = life.plan_of(part[0].data.get("versionId"))
            if plan is not None and not windows.bent:
                long += len(part) > 10 and any(run.data.get("skip") == SKIP_MISFIRE for run in part)
                _advance(life, plan, move, part, windows, book)
        for run in fires:
            if run.data.get("skip") == SKIP_MISFIRE and run.id not in explained:
                book.broken("I12", f"{run.id} is a misfire, and no schedule moved past it", at=run.nominal, job=run.job, run=run.id)
    return long


def _advance(life: Life, plan: Plan, move: Event, part: list[Run], windows: Windows, book: Book) -> None:
    policy = Policy(plan)
    missed = {run.nominal for run in part if run.data.get("skip") == SKIP_MISFIRE}
    if not missed and move.at - move.data["from"] <= policy.grace:
        return
    book.look("I12")
    first, to = move.data["from"], move.data["to"]
    latest = move.at + windows.skew
    seen = [run.nominal for run in part]
    judged = {run.nominal for run in part if run.data.get("skip") != SKIP_ASKED}
    ran = next((at for at in seen if at not in missed), None)
    # Nothing was cut: whoever looked saw all of it, and nothing that came after. In calm times the commit follows at once.
    low, high = seen[-1], min(latest, to - 1)
    if windows.over(move.at, move.at) is None:
        low = max(low, move.at - windows.recovery)
    guesses = [low, high, *policy.guesses(seen, ran)]
    if any(_explains(policy, seen, now, missed, judged) for now in guesses if low <= now <= high):
        return
    if to <= latest and not plan.judges:
        # It may have been cut, and nobody but the accused knows what else was due.
        return
    if to <= latest:
        # Or it was cut: more was due, and whoever looked knew.
        more = plan.fires(to, latest)
        for place, at in enumerate(more[:MOST_GUESSES]):
            due = seen + more[: place + 1]
            until = more[place + 1] - 1 if place + 1 < len(more) else latest
            guesses = [at, until, *policy.guesses(due, ran)]
            if any(_explains(policy, due, now, missed, judged) for now in guesses if at <= now <= until):
                return
    ran_of = f"{len(seen) - len(missed)} of {len(seen)} targets from {when(first)} on"
    says = f"{life.job.name} ran {ran_of}, and {policy.name} explains that at no instant"
    book.broken("I12", says, at=move.at, job=life.job.id, seqs=(move.seq,))


def _explains(policy: Policy, due: list[int], now: int, missed: set[int], judged: set[int]) -> bool:
    first = policy.first_to_run(due, now)
    return all((at < first) == (at in missed) for at in due if at in judged)
