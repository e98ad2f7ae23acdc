"""What the report shows besides the verdicts: counts, delays, recovery, the nasty states that were met, and lanes to look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from duly.verify.checker.book import Book
from duly.verify.checker.codes import SUCCEEDED, WORKER_LOST
from duly.verify.checker.index import Index, Run
from duly.verify.checker.joins import Joined
from duly.verify.checker.lives import Life
from duly.verify.checker.windows import Windows
from duly.verify.report import Band, Lane, Report, spread_of

# Who looks at more lanes than this sees none of them.
MOST_LANES = 60


def draw(
    index: Index, lives: dict[str, Life], joined: dict[str, Joined], windows: Windows, book: Book, report: Report, long_catch_ups: int
) -> None:
    """Fill the report."""
    history = index.history
    zombies = sum(_zombies(run) for run in index.runs.values())
    refused_by_sink = sum(1 for effect in history.effects if effect.phase == "effect" and effect.accepted is False)
    refused = sum(refusal.count for refusal in history.refusals)
    report.counts = {
        "jobs": len(index.jobs),
        "believed": sum(1 for found in joined.values() if not found.expected.by_oracle),
        "targets": sum(len(found.expected.must) for found in joined.values()),
        "optional": sum(len(found.expected.may) for found in joined.values()),
        "fires": sum(len(job.fires) for job in index.jobs.values()),
        "skipped": sum(run.is_skipped for run in index.runs.values()),
        "runs": sum(run.created is not None for run in index.runs.values()),
        "attempts": sum(len(run.grants) for run in index.runs.values()),
        "lost": sum(len(found.missing) for found in joined.values()),
        "twice": sum(len(found.twice) for found in joined.values()),
        "early": book.count("I6"),
        "staleAccepted": book.count("I5"),
        "staleRefused": refused + refused_by_sink,
        "zombies": zombies,
    }
    report.faults = dict(Counter(fault.kind for fault in history.faults))
    report.reached = _reached(index, zombies, refused_by_sink, long_catch_ups)
    calm, faulty, recovery = _delays(index, windows)
    report.delays = {"calm": spread_of(calm), "faulty": spread_of(faulty)}
    report.recovery = spread_of(after for _, after in recovery)
    report.recovery_bound = windows.recovery + windows.forgiveness
    # The fault that healed last gives its name to what it held up.
    kinds = {fault.until: fault.kind for fault in history.faults if fault.until is not None}
    by_kind: dict[str, list[int]] = {}
    for healed, after in recovery:
        by_kind.setdefault(kinds.get(healed, "open"), []).append(after)
    report.recoveries = {kind: spread_of(values) for kind, values in sorted(by_kind.items())}
    report.bands = [
        Band(kind=fault.kind, since=fault.since, until=history.ended_at if fault.until is None else fault.until, nodes=fault.nodes)
        for fault in history.faults
    ]
    report.lanes = _lanes(lives, joined)


def _zombies(run: Run) -> int:
    """How many attempts were still going on, physically, when a later one of the same run had begun."""
    if len(run.starts) < 2:
        return 0
    begins = {start.fence: start.at for start in run.starts}
    over = dict(begins)
    for effect in run.effects:
        over[effect.fence] = max(over.get(effect.fence, 0), effect.at)
    return sum(1 for fence, at in over.items() if any(later > fence and begin < at for later, begin in begins.items()))


def _reached(index: Index, zombies: int, refused_by_sink: int, long_catch_ups: int) -> dict[str, int]:
    """The nasty states that this history went through. What only the harness can see, it counts in about["reached"]."""
    history = index.history
    told: dict[str, int] = history.about.get("reached") or {}
    refused = Counter(refusal.what for refusal in history.refusals for _ in range(refusal.count))
    raced = {(refusal.run, refusal.fence) for refusal in history.refusals if refusal.run is not None}
    lost = {(run.id, event.fence) for run in index.runs.values() for event in run.attempts if event.data.get("outcome") == WORKER_LOST}
    found = {
        "stale completion refused": sum(refusal.count for refusal in history.refusals if refusal.run is not None),
        "stale effect refused": refused_by_sink,
        "two believing leaders": refused["fire"],
        "commit unknown": sum(call.status == "info" for call in history.calls),
        "sweeper raced a completion": len(raced & lost),
        "worker lost": len(lost),
        "catch-up of more than ten": long_catch_ups,
        "zombie overlap": zombies,
        "shard taken over": sum(max(len(events) - 1, 0) for events in index.shards.values()),
    }
    return {name: found.get(name, 0) + int(told.get(name, 0)) for name in (*found, *(name for name in told if name not in found))}


def _delays(index: Index, windows: Windows) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """How late runs began, in calm and in broken times; and when a fault healed, with how long until what it held up went on."""
    calm: list[int] = []
    faulty: list[int] = []
    recovery: list[tuple[int, int]] = []
    for run in index.runs.values():
        began = run.began_at
        if began is None or run.created is None:
            continue
        due = run.due if run.by_schedule else max(run.due, run.created.at)
        span = windows.over(due, max(began, due))
        if any(event.kind == "run.blocked" for event in run.waits):
            continue
        (calm if span is None else faulty).append(max(began - due, 0))
        if span is not None and due <= span[1] < began:
            recovery.append((span[1], began - span[1]))
        for event in run.attempts:
            again = next((grant.at for grant in run.grants if grant.seq > event.seq), None)
            hurt = windows.over(event.at, event.at)
            if event.data.get("outcome") == WORKER_LOST and again is not None and hurt is not None and again > hurt[1]:
                recovery.append((hurt[1], again - hurt[1]))
    return calm, faulty, recovery


def _lanes(lives: dict[str, Life], joined: dict[str, Joined]) -> list[Lane]:
    """One per job: those with something wrong first, then the busiest."""

    def weight(id: str) -> tuple[bool, int]:
        found = joined[id]
        return (not (found.missing or found.twice or found.phantom), -len(lives[id].job.fires))

    shown = [id for id in sorted(joined, key=weight) if lives[id].job.runs or joined[id].expected.must][:MOST_LANES]
    return [_lane(lives[id], joined[id]) for id in shown]


def _lane(life: Life, found: Joined) -> Lane:
    job, expected = life.job, found.expected
    runs: list[tuple[int, int, int | None, bool]] = []
    for run in job.runs:
        runs += _tries(run)
    return Lane(
        job=job.id,
        name=job.name,
        targets=sorted(expected.must),
        optional=sorted(expected.may),
        skipped=sorted(run.nominal for run in job.fires if run.is_skipped),
        runs=runs,
        missing=sorted(found.missing),
        extra=sorted(run.nominal for run in (*found.twice, *found.phantom)),
    )


def _tries(run: Run) -> Sequence[tuple[int, int, int | None, bool]]:
    """Each attempt: by the handlers' account where there is one, else by the store's."""
    over = {event.fence: event.at for event in (*run.attempts, *run.ends) if event.fence is not None}
    ended = {effect.fence: effect.at for effect in run.effects if effect.phase == "end"}
    won = run.ends[0].fence if run.ends and run.ends[0].data.get("state") == SUCCEEDED else None
    begun = [(start.fence, start.at) for start in run.starts] or [(grant.fence or 0, grant.at) for grant in run.grants]
    return [(run.nominal, at, ended.get(fence, over.get(fence)), fence == won) for fence, at in begun]
