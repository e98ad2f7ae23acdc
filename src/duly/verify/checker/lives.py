"""What a job may have looked like at each instant, from what clients asked and were told.

An acknowledged change was made at some instant between its request and its answer. A change whose answer was lost was made at
some instant after its request, or never: from then on both are possible, until a later change is acknowledged. So at every
instant a job has a set of possible definitions, of possible pauses, and may or may not be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from duly.verify.checker.index import Index, Job
from duly.verify.checker.windows import Windows
from duly.verify.history import Call
from duly.verify.targets import Plan, instant

Pause = bool | int
NOT_THERE = -1


@dataclass(frozen=True, slots=True)
class Change:
    """Something was set to this value, between `first` and `last`; perhaps, when its answer was lost."""

    value: int
    first: int
    last: int
    sure: bool


@dataclass(slots=True)
class Life:
    """What may have been true of one job. Values of `specs` are places in `plans`; of `pauses`, in `pause_values`; of `gone`, 1."""

    job: Job
    plans: list[Plan] = field(default_factory=list)
    by_version: dict[int, Plan] = field(default_factory=dict)
    specs: list[Change] = field(default_factory=list)
    pauses: list[Change] = field(default_factory=list)
    pause_values: list[Pause] = field(default_factory=lambda: [False])
    gone: list[Change] = field(default_factory=list)
    created: Change | None = None

    @property
    def known(self) -> bool:
        """Whether a client told us what the job is."""
        return bool(self.plans)

    @property
    def by_oracle(self) -> bool:
        """Whether the oracle has an opinion about all that it may be."""
        return self.known and all(plan.judges for plan in self.plans)

    @property
    def is_simple(self) -> bool:
        """Whether it was created and left alone."""
        return len(self.specs) == 1 and not self.pauses and not self.gone

    def plan_of(self, version_id: int | None) -> Plan | None:
        """The definition of a version, where a client's answer named it; else the only one there is."""
        if version_id is not None and version_id in self.by_version:
            return self.by_version[version_id]
        return self.plans[0] if len(self.plans) == 1 else None

    def specs_in(self, first: int, last: int) -> set[int]:
        """Which definitions it may have had between two instants; NOT_THERE before it was created."""
        return _possible(self.specs, first, last, NOT_THERE)

    def pauses_in(self, first: int, last: int) -> set[int]:
        """Which pauses it may have had."""
        return _possible(self.pauses, first, last, 0)

    def may_fire(self, at: int, first: int, last: int) -> bool:
        """Whether no pause and no delete that were sure between two instants forbid the fire at `at`."""
        if 0 not in _possible(self.gone, first, last, 0):
            return False
        return any(self.lets_through(pause, at) for pause in self.pauses_in(first, last))

    def must_fire(self, at: int, first: int, last: int) -> bool:
        """Whether nothing that was possible between two instants forbids it."""
        if 1 in _possible(self.gone, first, last, 0):
            return False
        return all(self.lets_through(pause, at) for pause in self.pauses_in(first, last))

    def lets_through(self, pause: int, at: int) -> bool:
        """Whether a job that is paused like that fires at `at`: not at all, or from the end of the pause on."""
        value = self.pause_values[pause]
        return not value if isinstance(value, bool) else at >= value


def _possible(changes: list[Change], first: int, last: int, at_first: int) -> set[int]:
    """The values between two instants."""
    done = [change for change in changes if change.sure and change.last <= first]
    newest = max(done, key=lambda change: change.last, default=None)
    found = {at_first if newest is None else newest.value}
    for change in changes:
        if change.first > last or (newest is not None and (change is newest or change.last <= newest.first)):
            continue
        found.add(change.value)
    return found


def lives(index: Index, windows: Windows) -> dict[str, Life]:
    """The life of every job that the history knows of."""
    keys = {(call.tenant, call.key): call.job for call in index.history.calls if call.op == "job.create" and call.key and call.job}
    named: dict[str, list[Call]] = {}
    for call in index.history.calls:
        if call.op == "job.create" and call.job is None and call.status != "fail":
            known = keys.get((call.tenant, call.key)) if call.key else None
            if known is not None and known in index.jobs:
                index.jobs[known].calls.append(call)
            else:
                named.setdefault(str(call.body.get("name")), []).append(call)
    found = {}
    for job in index.jobs.values():
        if job.name in named and not any(call.op == "job.create" and call.status == "ok" for call in job.calls):
            job.calls += named[job.name]
        found[job.id] = _life(job, windows)
    return found


def _life(job: Job, windows: Windows) -> Life:
    life = Life(job)
    skew = windows.skew
    numbers = {event.data["version"]: id for id, event in job.versions.items()}
    creates = [call for call in job.calls if call.op == "job.create" and call.status != "fail"]
    if creates:
        told = [call for call in creates if call.status == "ok"]
        first = min(call.invoked_at for call in creates)
        last = min((call.ended_at for call in told), default=_settled(creates, windows))
        # A create that nobody was told of counts as soon as the store or a handler speaks of the job.
        life.created = Change(0, first - skew - windows.behind(first, last), last + skew, bool(told) or job.created is not None)
        life.plans.append(Plan(creates[0].body, told[0].answer if told else None))
        life.specs.append(life.created)
        if 1 in numbers:
            life.by_version[numbers[1]] = life.plans[0]
    unsure: list[Plan] = []
    for call in sorted(job.calls, key=lambda call: call.invoked_at):
        if call.status == "fail" or call.op not in ("job.update", "job.pause", "job.resume", "job.delete"):
            continue
        sure = call.status == "ok"
        last = call.ended_at if sure else _settled([call], windows)
        value = len(life.plans) if call.op == "job.update" else len(life.pause_values) if call.op == "job.pause" else 0
        first = call.invoked_at - skew - windows.behind(call.invoked_at, last)
        change = Change(1 if call.op == "job.delete" else value, first, last + skew, sure)
        match call.op:
            case "job.update":
                plan = Plan(call.body, call.answer if sure else None)
                life.plans.append(plan)
                life.specs.append(change)
                version = call.answer.get("version")
                if sure and version in numbers:
                    life.by_version[numbers[version]] = plan
                elif not sure:
                    unsure.append(plan)
            case "job.pause":
                until = instant(call.body.get("until"))
                life.pause_values.append(True if until is None else until)
                life.pauses.append(change)
            case "job.resume":
                life.pauses.append(change)
            case _:
                life.gone.append(change)
    left = [id for id in job.versions if id not in life.by_version]
    if len(left) == 1 and len(unsure) == 1:
        life.by_version[left[0]] = unsure[0]
    return life


def _settled(calls: Iterable[Call], windows: Windows) -> int:
    """By when a request whose answer was lost has either been carried out or never will be."""
    return max(windows.deadline(call.ended_at) + windows.recovery for call in calls)
