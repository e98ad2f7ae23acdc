"""What comes up, and when: classes of jobs that are alike, and the instants at which they are due.

A million fires a minute are too many to be followed one by one, so jobs of a class are cut into *slices*: so many jobs that are due
together. As long as all fires of the horizon number no more than `MOST_UNITS`, a slice is one job, and nothing is rounded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from math import log
from typing import Any, TypeGuard

from duly.domain.capacity.chance import Chance
from duly.domain.capacity.spans import Span
from duly.domain.errors import Invalid
from duly.domain.instants import DAY, LATEST, Instant, Micros
from duly.domain.job import Priority
from duly.domain.overlap import Overlap, OverlapPolicy
from duly.domain.retry import RetryPolicy
from duly.domain.schedule import IntervalSchedule, Schedule, fires, previous_fire

# How many slices may be due in one simulation, each once for every fire: a few seconds of work.
MOST_UNITS = 100_000
# However few there are of each class: beyond, it would take minutes, and gigabytes.
MOST_DUES = 3_000_000
MOST_JOBS = 1_000_000_000
LONGEST_HORIZON: Micros = 31 * DAY

# Told how far it is, from 0 to 1, now and then.
Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadClass:
    """Jobs that are alike. With a schedule each of them fires by it; with `per_second`, executions are enqueued at random times.

    `spread`: the fires of the jobs lie evenly between one instant of the schedule and the next. `cpu` is what a run takes of the
    worker's own processor; `failures` the share of attempts that fail.
    """

    name: str
    pool: str = "default"
    jobs: int = 1
    schedule: Schedule | None = None
    per_second: float = 0.0
    spread: bool = False
    jitter: Micros = 0
    span: Span = field(default_factory=lambda: Span(0, 0))
    cpu: Micros = 0
    failures: float = 0.0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    overlap: Overlap = field(default_factory=Overlap)
    priority: Priority = Priority.NORMAL
    max_concurrent: int | None = None
    payload_bytes: int = 0

    def __post_init__(self) -> None:
        if (self.schedule is None) is (self.per_second == 0):
            raise Invalid("DULY-E281", f"{self.name!r} needs a schedule or a rate, and only one of them.", field="classes")
        if not 1 <= self.jobs <= MOST_JOBS or not 0 <= self.per_second <= MOST_JOBS:
            raise Invalid("DULY-E281", f"{self.name!r}: there are 1 to {MOST_JOBS:,} jobs.", field="classes")
        if not 0 <= self.failures <= 1:
            raise Invalid("DULY-E282", f"{self.name!r}: failures are a share of attempts, from 0 to 1.", field="failures")


class Slice:
    """Jobs of one class that are due together and run equally long. What a simulation notes about them stands here too.

    `width`: they stand for jobs whose fires lie evenly in the time of this length that ends when the slice is due; 0: at once.
    """

    __slots__ = ("barred", "live", "load", "offset", "parts", "queue", "running", "size", "width")

    def __init__(self, load: LoadClass, size: int, offset: float = 0.0, width: Micros = 0) -> None:
        self.load = load
        self.size = size
        # Where between two instants of the schedule it fires, from 0 to 1, if its class is spread.
        self.offset = offset
        self.width = width
        # How many of its fires are live, how many executions run.
        self.live = 0
        self.running = 0
        # Who waits for the job's place, who waits at its limit, and who could be stopped by the next fire.
        self.queue: list[Any] = []
        self.barred: list[Any] = []
        self.parts: list[Any] = []


Due = tuple[Instant, int]


@dataclass(frozen=True, slots=True)
class Expected:
    """All that is due in a horizon, in order: an instant and the number of a slice. `grain` jobs, at most, make a slice."""

    slices: list[Slice]
    dues: list[Due]
    grain: int

    @property
    def total(self) -> int:
        """How many executions that is."""
        return sum(self.slices[number].size for _, number in self.dues)


@dataclass(frozen=True, slots=True)
class _Stream:
    """Jobs of one class, and the instants of their schedule with one more behind the last.

    `phases` are delays of their own, in order, and `behind` says how many jobs have this one or a lesser one.
    """

    load: LoadClass
    instants: Sequence[Instant]
    phases: Sequence[Micros] = (0,)
    behind: Sequence[int] = ()

    def phase(self, share: float) -> Micros:
        """The delay of the job that stands at this share of all."""
        return self.phases[min(bisect_right(self.behind, share * self.load.jobs), len(self.phases) - 1)] if self.behind else self.phases[0]


def alike(classes: Iterable[LoadClass]) -> list[LoadClass]:
    """The same load with fewer classes: those that differ in nothing but their name, and hardly in their duration, become one."""
    groups: dict[Hashable, list[LoadClass]] = defaultdict(list)
    for load in classes:
        groups[_key(load, load.schedule)].append(load)
    return [_together(group) for group in groups.values()]


def _key(load: LoadClass, schedule: Hashable) -> Hashable:
    """What jobs have in common that are followed as one class."""
    policies = (load.retry, load.overlap, load.priority, load.max_concurrent)
    run = (_step(load.span.p50), _step(load.span.p95), load.cpu, load.failures, load.payload_bytes)
    return load.pool, schedule, load.spread, load.jitter, run, policies


def _together(group: list[LoadClass]) -> LoadClass:
    if len(group) == 1:
        return group[0]
    jobs, rate = sum(load.jobs for load in group), sum(load.per_second for load in group)
    # The mean of what was nearly equal: a tenth of a per cent must not get lost a hundred thousand times.
    weights = [load.per_second or load.jobs for load in group]
    p50 = sum(weight * load.span.p50 for weight, load in zip(weights, group, strict=True)) / sum(weights)
    p95 = sum(weight * load.span.p95 for weight, load in zip(weights, group, strict=True)) / sum(weights)
    return replace(group[0], jobs=jobs, per_second=rate, span=Span(round(p50), round(p95)))


def _step(micros: Micros) -> Micros:
    """To steps of a quarter, so that measured durations meet."""
    return micros if micros < 1000 else round(1.25 ** round(log(micros) / log(1.25)))


def expect(classes: Sequence[LoadClass], begin: Instant, end: Instant, seed: int, most_units: int, progress: Progress) -> Expected:
    """Everything that is due in [begin, end). Raises Invalid when that is nothing, or the horizon is too long."""
    if not 0 < end - begin <= LONGEST_HORIZON or not 0 <= begin <= end <= LATEST:
        raise Invalid("DULY-E284", "the horizon is longer than nothing, at most 31 days, and ends before the year 9999.", field="horizon")
    streams = _streams([load for load in classes if load.schedule is not None], begin, end, progress)
    rates = [load for load in classes if load.schedule is None]
    seconds = (end - begin) / 1_000_000
    counts = [stream.load.jobs * (len(stream.instants) - 1) for stream in streams] + [round(load.per_second * seconds) for load in rates]
    most = _most_of_each(counts, most_units)
    grains = [max(1, -(-count // most)) for count in counts]
    units = sum(-(-stream.load.jobs // grain) * len(stream.instants) for stream, grain in zip(streams, grains, strict=False))
    if units > MOST_DUES:
        hint = "Jobs that differ are followed one by one: choose a shorter --horizon."
        raise Invalid("DULY-E284", f"{units:,} fires are too many to follow.", field="horizon", hint=hint)
    chance = Chance(seed)
    slices: list[Slice] = []
    dues: list[Due] = []
    for stream, grain in zip(streams, grains, strict=False):
        _fires_of(stream, grain, begin, end, chance, slices, dues)
    for load, grain in zip(rates, grains[len(streams) :], strict=True):
        _enqueues_of(load, grain, begin, end, chance, slices, dues)
    if not dues:
        raise Invalid("DULY-E284", "nothing is due in this time.", field="horizon", hint="Choose a longer horizon, or a later --from.")
    dues.sort()
    return Expected(slices, dues, max(grains))


def _most_of_each(counts: list[int], most: int) -> int:
    """How many units a class may have so that all have no more than `most`: small ones stay as they are, large ones share the rest."""
    left = most
    for nth, count in enumerate(ordered := sorted(counts)):
        if count > (share := left // (len(ordered) - nth)):
            return max(share, 1)
        left -= count
    return max(1, *counts) if counts else 1


def _streams(classes: Sequence[LoadClass], begin: Instant, end: Instant, progress: Progress) -> list[_Stream]:
    """Each class with its instants. Jobs that repeat after equally long, each from its own beginning, are one stream with phases."""
    found: list[_Stream] = []
    known: dict[Schedule, Sequence[Instant]] = {}
    repeated: dict[Hashable, list[LoadClass]] = defaultdict(list)
    for nth, load in enumerate(classes):
        schedule = load.schedule
        assert schedule is not None
        if nth % 256 == 0:
            progress(nth / len(classes) / 4)
        if _is_plain_interval(schedule, begin) and not load.spread:
            repeated[_key(load, schedule.every)].append(load)
            continue
        if schedule not in known:
            known[schedule] = _instants(schedule, begin, end, load.spread or load.jitter > 0)
        if known[schedule]:
            found.append(_Stream(load, known[schedule]))
    return found + [_repeated(group, begin, end) for group in repeated.values()]


def _repeated(group: list[LoadClass], begin: Instant, end: Instant) -> _Stream:
    schedules = [load.schedule for load in group if isinstance(load.schedule, IntervalSchedule)]
    every = schedules[0].every
    phases = sorted(((schedule.anchor - begin) % every, load.jobs) for schedule, load in zip(schedules, group, strict=True))
    behind = list(accumulate(jobs for _, jobs in phases))
    return _Stream(_together(group), range(begin, end + every, every), [phase for phase, _ in phases], behind)


def _is_plain_interval(schedule: Schedule, begin: Instant) -> TypeGuard[IntervalSchedule]:
    if not isinstance(schedule, IntervalSchedule) or schedule.start_at is not None or schedule.end_at is not None:
        return False
    return schedule.anchor <= begin + schedule.every


def _instants(schedule: Schedule, begin: Instant, end: Instant, is_drawn_out: bool) -> list[Instant]:
    """The fires of the horizon and one behind them; one before them too, where what follows an instant is drawn out to the next."""
    found = fires(schedule, begin - 1, end - 1, LONGEST_HORIZON // 1_000_000)
    if is_drawn_out and (before := previous_fire(schedule, begin)) is not None:
        found.insert(0, before)
    if not found:
        return []
    following = fires(schedule, found[-1], None, 1) if is_drawn_out else []
    return [*found, *(following or [found[-1] + DAY])]


def _fires_of(stream: _Stream, grain: int, begin: Instant, end: Instant, chance: Chance, slices: list[Slice], dues: list[Due]) -> None:
    load = stream.load
    count = -(-load.jobs // grain)
    first = len(slices)
    instants = stream.instants
    room = instants[1] - instants[0]
    drawn_out = max(room if load.spread else 0, min(load.jitter, room)) // count if grain > 1 else 0
    own = [stream.phase((nth + 0.5) / count) for nth in range(count)]
    for nth in range(count):
        size = load.jobs * (nth + 1) // count - load.jobs * nth // count
        width = max(drawn_out, stream.phase((nth + 1) / count) - stream.phase(nth / count) if size > 1 else 0)
        slices.append(Slice(load, size, _part(nth, count, grain, chance), width))
    for here, following in pairwise(instants):
        room = following - here
        jitter = min(load.jitter, room)
        for nth in range(count):
            at = here + own[nth]
            if load.spread:
                at += int(slices[first + nth].offset * room)
            if jitter:
                at += int(_part(nth, count, grain, chance) * jitter)
            if begin <= at < end:
                dues.append((at, first + nth))


def _part(nth: int, count: int, grain: int, chance: Chance) -> float:
    """Where one of many lies: anywhere, if it is a single job. A slice stands for many, and those lie evenly."""
    return chance.draw() if grain == 1 else (nth + 0.5) / count


def _enqueues_of(load: LoadClass, grain: int, begin: Instant, end: Instant, chance: Chance, slices: list[Slice], dues: list[Due]) -> None:
    """Random times: the gaps between single ones are exponential, those between many of them even."""
    number = len(slices)
    gap = grain * 1_000_000 / load.per_second
    # Nobody waits for a place who was enqueued; each is for itself.
    slices.append(Slice(replace(load, overlap=Overlap(policy=OverlapPolicy.ALLOW)), grain, width=0 if grain == 1 else round(gap)))
    at: float = begin
    while True:
        at += -log(1.0 - chance.draw()) * gap if grain == 1 else gap
        if at >= end:
            return
        dues.append((int(at), number))
