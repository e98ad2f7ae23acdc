"""The targets of each job: those that must have a fire by the end, and those that may have one."""

from __future__ import annotations

from dataclasses import dataclass, field

from duly.verify.checker.codes import NEVER
from duly.verify.checker.index import Job
from duly.verify.checker.lives import Life
from duly.verify.checker.windows import Windows


@dataclass(slots=True)
class Expected:
    """What should have fired. A target's deadline is the instant by which it must have begun."""

    must: dict[int, int] = field(default_factory=dict)
    may: set[int] = field(default_factory=set)
    # Spans [from, to) in which any fire is believed: the store's word, where the oracle has none.
    believed: list[tuple[int, int]] = field(default_factory=list)
    # Why a target is forbidden that the schedule itself names.
    stopped: set[int] = field(default_factory=set)
    by_oracle: bool = True

    def allows(self, nominal: int) -> bool:
        """Whether there may be a fire for this instant."""
        return nominal in self.must or nominal in self.may or any(first <= nominal < last for first, last in self.believed)


def expect(life: Life, windows: Windows, end: int) -> Expected:
    """What the job should have fired by the final read at `end`."""
    if windows.bent:
        expected = Expected(by_oracle=False)
    elif not life.known or not life.by_oracle:
        expected = _believe(life.job, windows, end)
    elif life.is_simple:
        expected = _simple(life, windows, end)
    else:
        expected = _changing(life, windows, end)
    _passed(life, windows, expected)
    return expected


def _passed(life: Life, windows: Windows, expected: Expected) -> None:
    """What a schedule has moved past by firing must have a fire, however early the history ends: both were one transaction."""
    fired = {run.nominal for run in life.job.fires}
    ends_by_itself = any(not isinstance(pause, bool) for pause in life.pause_values)
    version = next((id for id, event in life.job.versions.items() if event.data.get("version") == 1), None)
    paused = 0
    for move in life.job.moves:
        data = move.data
        if move.kind == "schedule.advanced" and data["from"] < data["to"] and not paused and not data["paused"]:
            plan = life.plan_of(data.get("versionId", version))
            by_firing = data.get("versionId", version) == version and (not ends_by_itself or data["from"] in fired)
            known = plan is not None and plan.judges
            # Where the oracle has no opinion, the target is at least what the schedule stood at.
            targets = plan.fires(data["from"], min(data["to"] - 1, move.at + windows.skew)) if plan and known else [data["from"]]
            for at in targets if by_firing else ():
                if at not in expected.must:
                    expected.must[at] = windows.deadline(max(at, move.at))
                    expected.may.discard(at)
        paused, version = data.get("paused", 0), data.get("versionId", version)


def _simple(life: Life, windows: Windows, end: int) -> Expected:
    """A job that was created and left alone."""
    expected = Expected()
    plan, change = life.plans[0], life.specs[0]
    if plan.is_once:
        assert plan.run_at is not None
        deadline = windows.deadline(max(plan.run_at, change.last))
        if change.sure and deadline <= end:
            expected.must[plan.run_at] = deadline
        else:
            expected.may.add(plan.run_at)
        return expected
    for at in plan.fires(change.first, end):
        deadline = windows.deadline(at)
        if change.sure and at > change.last and deadline <= end:
            expected.must[at] = deadline
        else:
            expected.may.add(at)
    return expected


def _changing(life: Life, windows: Windows, end: int) -> Expected:
    """A job with versions, pauses or a delete. A target must fire if all that the job may have been, from the target to its
    deadline, names it: a change may overtake a fire that is not late yet."""
    expected = Expected()
    once = {plan.run_at for plan in life.plans if plan.is_once}
    named: dict[int, set[int]] = {}
    for place, plan in enumerate(life.plans):
        change = life.specs[place]
        for at in plan.fires(0 if plan.is_once else change.first, NEVER if plan.is_once else end):
            named.setdefault(at, set()).add(place)
    for at in sorted(named):
        places = named[at]
        if at in once:
            _once(life, at, places, windows, end, expected)
            continue
        deadline = windows.deadline(at)
        if not places & life.specs_in(at, at):
            continue
        if not life.may_fire(at, at, at):
            expected.stopped.add(at)
        elif deadline <= end and life.specs_in(at, deadline) <= places and life.must_fire(at, at, deadline):
            expected.must[at] = deadline
        else:
            expected.may.add(at)
    for pause in life.pause_values:
        # A one-time job whose time lies in a pause runs at its end.
        if once and not isinstance(pause, bool):
            expected.may.add(pause)
    return expected


def _once(life: Life, at: int, places: set[int], windows: Windows, end: int, expected: Expected) -> None:
    """A one-time job keeps its time, even when that has passed. It must fire if it was left alone long enough afterwards."""
    changes = [life.specs[place] for place in places]
    since = max([at, *(change.last for change in changes), *(change.last for change in life.pauses)])
    deadline = windows.deadline(since)
    first = min(change.first for change in changes)
    if not life.may_fire(at, max(at, first), end):
        expected.stopped.add(at)
    elif deadline <= end and life.specs_in(max(at, first), deadline) <= places and life.must_fire(at, since, deadline):
        expected.must[at] = deadline
    else:
        expected.may.add(at)


def _believe(job: Job, windows: Windows, end: int) -> Expected:
    """The store's word: what its schedule stood at. What it stands at in the end must not be overdue."""
    expected = Expected(by_oracle=False)
    waits: int | None = None
    for move in job.moves:
        if move.kind == "schedule.removed":
            waits = None
            continue
        following = move.data.get("next", move.data.get("to"))
        if move.kind == "schedule.advanced" and move.data["from"] < move.data["to"]:
            expected.believed.append((move.data["from"], min(move.data["to"], move.at + windows.skew + 1)))
        waits = None if move.data.get("paused") else following
    if waits is not None and waits < NEVER and windows.deadline(waits) <= end:
        expected.must[waits] = windows.deadline(waits)
    return expected
