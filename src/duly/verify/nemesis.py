"""Who breaks things: a schedule of faults drawn from a seed, and the hand that carries it out.

The faults come in waves, with calm between them in which what was broken must recover. Each wave draws which kinds it has, so that
some meet every other kind and some are alone. Inside a wave faults come at random times, and overlap.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from duly.domain.errors import Invalid
from duly.verify.faults import KINDS, NEEDS_POSTGRES, NEEDS_SQLITE, Kind
from duly.verify.stage import Stage
from duly.verify.stores import StoreUnderTest

log = logging.getLogger("duly.verify")

# Faults of these begin with their names.
ENGINES = ("etcd", "kafka", "redis")


@dataclass(frozen=True, slots=True)
class Stroke:
    """One fault to come: after so many seconds, of this kind, with its own chance."""

    at: float
    kind: str
    seed: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """The strokes in order, and the kinds that this store cannot have, with the reason."""

    strokes: list[Stroke]
    skipped: dict[str, str]
    kinds: dict[str, Kind]


def chosen(only: str | None, store: StoreUnderTest, more: Sequence[Kind] = ()) -> list[Kind]:
    """The kinds that `--only` names; without it, all that are meant for a store of this kind. Raises Invalid for one that there is not.

    `more` are those of the engines that take part.
    """
    known = KINDS | {kind.name: kind for kind in more}
    if only is None:
        return [kind for kind in known.values() if kind.needs(store) not in (NEEDS_POSTGRES, NEEDS_SQLITE)]
    words = [word.strip() for word in only.split(",") if word.strip()]
    for word in words:
        if word not in known and (engine := word.partition("-")[0]) in ENGINES:
            raise Invalid("DULY-E604", f"There is no {engine} to break.", field="--only", hint=f"Add --with {engine}.")
        if word not in known:
            raise Invalid("DULY-E604", f"There is no fault {word!r}.", field="--only", hint=f"There are {', '.join(known)}.")
    return [known[word] for word in words]


def schedule(seed: int, seconds: float, kinds: list[Kind], store: StoreUnderTest, *, gap: float = 1.5) -> Schedule:
    """Draw the faults of a run. `gap` is the mean time between two of them inside a wave."""
    chance = random.Random(f"{seed}/nemesis")  # noqa: S311 a seed is to be repeated
    skipped = {kind.name: reason for kind in kinds if (reason := kind.needs(store)) is not None}
    able = [kind for kind in kinds if kind.name not in skipped]
    strokes: list[Stroke] = []
    if not able:
        return Schedule(strokes, skipped, {})
    now, first = 0.0, True
    pace = min(1.0, seconds / 300)
    # Each kind once before any comes again, the weighty ones first: a short run too should meet every kind.
    due = sorted(able, key=lambda kind: chance.random() / kind.weight, reverse=True)
    while now < seconds:
        end = min(now + chance.uniform(20, 60) * max(pace, 0.4), seconds)
        drawn = list(able) if first else [kind for kind in able if chance.random() < 0.7] or [chance.choice(able)]
        at = now + chance.expovariate(1 / gap)
        while at < end:
            kind = due.pop() if due else chance.choices(drawn, [one.weight for one in drawn])[0]
            strokes.append(Stroke(round(at, 3), kind.name, f"{seed}/{len(strokes)}"))
            at += chance.expovariate(1 / gap)
        now, first = end + chance.uniform(10, 40) * max(pace, 0.25), False
    return Schedule(strokes, skipped, {kind.name: kind for kind in able})


class Nemesis:
    """Carries a schedule out on a stage."""

    def __init__(self, stage: Stage, schedule: Schedule, lease: float) -> None:
        self._stage = stage
        self._schedule = schedule
        self._lease = lease
        self._tasks: set[asyncio.Task[None]] = set()
        # What went wrong with breaking things: a fault that could not be done is no fault.
        self.failures: list[str] = []

    async def run(self, seconds: float) -> None:
        """Break things for so long; returns when everything is mended."""
        began = time.monotonic()
        for stroke in self._schedule.strokes:
            await asyncio.sleep(max(began + stroke.at - time.monotonic(), 0))
            task = asyncio.create_task(self._strike(stroke))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await asyncio.sleep(max(began + seconds - time.monotonic(), 0))
        self._stage.mend.set()
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _strike(self, stroke: Stroke) -> None:
        try:
            chance = random.Random(stroke.seed)  # noqa: S311 a seed is to be repeated
            await self._schedule.kinds[stroke.kind].breaks(self._stage, chance, self._lease)
        except Exception as error:
            log.debug("%s failed", stroke.kind, exc_info=True)
            self.failures.append(f"{stroke.kind}: {type(error).__name__}: {error}")


def counts(stage: Stage) -> dict[str, int]:
    """How often each kind was done."""
    found: dict[str, int] = {}
    for fault in stage.faults:
        found[fault.kind] = found.get(fault.kind, 0) + 1
    return found
