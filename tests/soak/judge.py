"""The bars, and whether the samples hold them. Pure: samples in, verdicts out.

Nothing here compares two single figures: the machine is shared and noisy. Slopes are Theil–Sen (the median of all pairwise
slopes) over the medians of many short blocks, with Sen's confidence interval; a bar is broken when the whole interval lies beyond
it, held when the whole interval lies within it, and undecided in between, which only a longer run can settle. Times are taken as a
multiple of a control that ran beside them, block by block; ratios of two spans come with a bootstrap interval.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Judgement = Literal["held", "broken", "undecided"]
Sample = Mapping[str, Any]
Span = tuple[float, float]

HOUR = 3600.0
MIB = float(1 << 20)
CONFIDENCE_Z = 1.96
RESAMPLES = 400
# At least so many blocks make a slope or a ratio worth anything.
FEWEST_BLOCKS = 4


@dataclass(frozen=True, slots=True)
class Verdict:
    """One bar: what was measured, in words, and how it stands."""

    bar: str
    judgement: Judgement
    measured: str
    figures: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Phases:
    """When what happened, in seconds from the start."""

    warm: float
    pinned: Span
    end: float

    @property
    def before(self) -> Span:
        """After the warm-up, before anything was pinned."""
        return self.warm, self.pinned[0]

    @property
    def late_in_pin(self) -> Span:
        """The last half of the pinned span: what has piled up is there by then."""
        return (self.pinned[0] + self.pinned[1]) / 2, self.pinned[1]

    @property
    def after(self) -> Span:
        """The end, when what the pin had piled up has had time to go."""
        return self.pinned[1] + (self.end - self.pinned[1]) / 3, self.end


def phases_of(seconds: float) -> Phases:
    """A seventh to warm up (ten minutes at most), then as long again as they are compared to, then half of the run pinned."""
    return Phases(min(seconds * 0.15, 600.0), (seconds * 0.3, seconds * 0.8), seconds)


# ---------------------------------------------------------------- statistics


@dataclass(frozen=True, slots=True)
class Slope:
    """Per hour, with its 95 % interval."""

    estimate: float
    low: float
    high: float


def theil_sen(points: Sequence[tuple[float, float]]) -> Slope | None:
    """The median of all pairwise slopes, per hour; Sen's interval from Kendall's variance. None when there are too few points."""
    n = len(points)
    if n < FEWEST_BLOCKS:
        return None
    slopes = sorted((y2 - y1) / (x2 - x1) * HOUR for nth, (x1, y1) in enumerate(points) for x2, y2 in points[nth + 1 :] if x2 != x1)
    spread = CONFIDENCE_Z * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    count = len(slopes)
    low = max(math.floor((count - spread) / 2), 0)
    high = min(math.ceil((count + spread) / 2), count - 1)
    return Slope(statistics.median(slopes), slopes[low], slopes[high])


@dataclass(frozen=True, slots=True)
class Ratio:
    """Of two spans, with its 95 % interval."""

    estimate: float
    low: float
    high: float


def ratio_of(late: Sequence[float], early: Sequence[float]) -> Ratio | None:
    """How the median of the late blocks compares to that of the early ones. None when there are too few of either."""
    if min(len(late), len(early)) < FEWEST_BLOCKS:
        return None
    chance = random.Random(0)
    ratios = sorted(
        statistics.median(chance.choices(late, k=len(late))) / statistics.median(chance.choices(early, k=len(early)))
        for _ in range(RESAMPLES)
    )
    cut = round(RESAMPLES * 0.025)
    return Ratio(statistics.median(late) / statistics.median(early), ratios[cut], ratios[-cut - 1])


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def blocks(samples: Sequence[Sample], span: Span, width: float) -> list[tuple[float, list[Sample]]]:
    """The samples of a span in blocks of this many seconds, each with its middle; empty ones are left out."""
    found: dict[int, list[Sample]] = {}
    for sample in samples:
        if span[0] <= sample["t"] < span[1]:
            found.setdefault(int((sample["t"] - span[0]) / width), []).append(sample)
    return [(span[0] + (nth + 0.5) * width, inside) for nth, inside in sorted(found.items())]


def block_width(phases: Phases) -> float:
    """A minute in a long run; in a short one as much as still gives a dozen blocks before, in and after the pinned span."""
    return max(min(phases.end / 60, 60.0), 2.0)


# ---------------------------------------------------------------- bars

MOST_GROWTH = 1 * MIB
GROSS = 8 * MIB
LONG = 30 * 60.0
MOST_DRIFT = 1.10
MOST_DEAD = 50_000
# Vacuum comes by once a minute, so what is dead goes up and down; twice as much at the end is a trend.
MOST_DEAD_DRIFT = 2.0
# Half a millisecond on one core. Forty are usual; a claim that walks past what an old snapshot holds touches thousands.
MOST_PAGES = 500
MOST_WAL = 64 * MIB
# What a process may open or close in the course of things.
FEW = 2
# What a short run needs to see: processes that wait for a busy machine open their connections late.
MANY = 40


def judge(samples: Sequence[Sample], phases: Phases, *, steady: bool = False) -> list[Verdict]:
    """Every bar, in the order of the table in docs/how-to/soak.md."""
    if steady:
        return _judge_steady(samples, phases)
    verdicts = [memory(samples, phases, name) for name in process_names(samples)]
    verdicts += [flat(samples, phases, f"file handles of {name}", _of_process(name, "fds")) for name in process_names(samples)]
    if any("connections" in sample for sample in samples):
        verdicts.append(flat(samples, phases, "connections", lambda sample: sample.get("connections")))
    verdicts.append(claim_drift(samples, phases, "claim p99, last part of the pinned span", phases.late_in_pin))
    verdicts.append(claim_drift(samples, phases, "claim p99, end of the run", phases.after))
    if any("tables" in sample for sample in samples):
        verdicts += [claim_pages(samples, phases), dead_in_queue(samples, phases), dead_after(samples, phases), history(samples, phases)]
    if any("wal" in sample for sample in samples):
        verdicts += [wal_after(samples, phases), history(samples, phases)]
    return verdicts


def _judge_steady(samples: Sequence[Sample], phases: Phases) -> list[Verdict]:
    """Without a pin: the end is as the beginning was."""
    verdicts = [memory(samples, phases, name) for name in process_names(samples)]
    verdicts += [flat(samples, phases, f"file handles of {name}", _of_process(name, "fds")) for name in process_names(samples)]
    third = (phases.end - phases.warm) / 3
    first, last = (phases.warm, phases.warm + third), (phases.end - third, phases.end)
    width = block_width(phases) / 3
    for bar, costs in (("claim p99, last third", claim_costs), ("start delay p90, last third", start_delays)):
        verdicts.append(_drift(bar, costs(samples, last, width), costs(samples, first, width), MOST_DRIFT))
    if any("tables" in sample for sample in samples):
        early, late = ([max(value, 1.0) for _, value in series(samples, span, width, dead_of)] for span in (first, last))
        verdicts.append(_drift("dead rows, last third", late, early, MOST_DEAD_DRIFT))
    return [*verdicts, history(samples, phases)]


def start_delays(samples: Sequence[Sample], span: Span, width: float) -> list[float]:
    """The p90 of a block's start delays, as a multiple of its controls' p90."""
    found: list[float] = []
    for _, inside in blocks(samples, span, width):
        delays = [delay for sample in inside for delay in sample["pick_up"]]
        controls = [time for sample in inside for time in sample["controls"]]
        if delays and controls:
            found.append(percentile(delays, 0.9) / percentile(controls, 0.9))
    return found


def _drift(bar: str, late: Sequence[float], early: Sequence[float], most: float) -> Verdict:
    ratio = ratio_of(late, early)
    if ratio is None:
        return Verdict(bar, "undecided", "too short a run to say", {})
    words = f"× {ratio.estimate:.2f} of the first third (95 %: {ratio.low:.2f} to {ratio.high:.2f}; bar: {most:.2f})"
    judgement: Judgement = "broken" if ratio.low > most else "held" if ratio.high <= most else "undecided"
    return Verdict(bar, judgement, words, {"ratio": ratio.estimate, "low": ratio.low, "high": ratio.high})


def process_names(samples: Sequence[Sample]) -> list[str]:
    return sorted({name for sample in samples for name in sample["processes"]})


def _of_process(name: str, what: str) -> Callable[[Sample], float | None]:
    return lambda sample: sample["processes"].get(name, {}).get(what)


def series(samples: Sequence[Sample], span: Span, width: float, value: Callable[[Sample], float | None]) -> list[tuple[float, float]]:
    """The median of each block, where there is a value."""
    points: list[tuple[float, float]] = []
    for middle, inside in blocks(samples, span, width):
        values = [found for sample in inside if (found := value(sample)) is not None]
        if values:
            points.append((middle, statistics.median(values)))
    return points


def memory(samples: Sequence[Sample], phases: Phases, name: str) -> Verdict:
    """Resident memory does not grow: less than 1 MiB an hour.

    A process fills its caches for minutes, and a few hundred KB in three of them are many MiB an hour. So a short run finds gross
    leaks only: ones of which it has seen 8 MiB.
    """
    slope = theil_sen(series(samples, (phases.warm, phases.end), block_width(phases), _of_process(name, "rss")))
    bar = f"memory of {name}"
    if slope is None:
        return Verdict(bar, "undecided", "too short a run to say", {})
    words = f"{slope.estimate / MIB:+.2f} MiB/h (95 %: {slope.low / MIB:+.2f} to {slope.high / MIB:+.2f}; bar: +1)"
    seen = slope.low * (phases.end - phases.warm) / HOUR
    judgement: Judgement = "held" if slope.high <= MOST_GROWTH else "undecided"
    if slope.low > MOST_GROWTH and (phases.end >= LONG or seen > GROSS):
        judgement = "broken"
    return Verdict(bar, judgement, words, {"perHour": slope.estimate, "low": slope.low, "high": slope.high})


def flat(samples: Sequence[Sample], phases: Phases, bar: str, value: Callable[[Sample], float | None]) -> Verdict:
    """A small count at the end is what it was after the warm-up: the medians of the first and of the last third differ by 2 at most."""
    third = (phases.end - phases.warm) / 3
    first = series(samples, (phases.warm, phases.warm + third), third, value)
    last = series(samples, (phases.end - third, phases.end), third, value)
    if not first or not last:
        return Verdict(bar, "undecided", "never sampled", {})
    early, late = first[0][1], last[0][1]
    judgement: Judgement = "held" if late <= early + FEW else "broken" if phases.end >= LONG or late > early + MANY else "undecided"
    return Verdict(bar, judgement, f"{early:g} → {late:g}", {"first": early, "last": late})


def claim_costs(samples: Sequence[Sample], span: Span, width: float) -> list[float]:
    """The p99 of a block's claims, as a multiple of its controls' p90."""
    found: list[float] = []
    for _, inside in blocks(samples, span, width):
        claims = [time for sample in inside for time in sample["claims"]]
        controls = [time for sample in inside for time in sample["controls"]]
        if len(claims) >= 10 and controls:
            found.append(percentile(claims, 0.99) / percentile(controls, 0.9))
    return found


def claim_ratio(samples: Sequence[Sample], phases: Phases, span: Span) -> Ratio | None:
    """How claims compare to what they were before the pin."""
    width = block_width(phases) / 3
    return ratio_of(claim_costs(samples, span, width), claim_costs(samples, phases.before, width))


def claim_drift(samples: Sequence[Sample], phases: Phases, bar: str, span: Span) -> Verdict:
    """A claim takes no longer than before: within 10 %."""
    ratio = claim_ratio(samples, phases, span)
    if ratio is None:
        return Verdict(bar, "undecided", "too short a run to say", {})
    words = f"× {ratio.estimate:.2f} of before (95 %: {ratio.low:.2f} to {ratio.high:.2f}; bar: 1.10)"
    judgement: Judgement = "broken" if ratio.low > MOST_DRIFT else "held" if ratio.high <= MOST_DRIFT else "undecided"
    return Verdict(bar, judgement, words, {"ratio": ratio.estimate, "low": ratio.low, "high": ratio.high})


def pages_per_claim(sample: Sample) -> float | None:
    """Of PostgreSQL: pages that a claim touched on average since the last sample. No neighbour changes it."""
    found = sample.get("statements", {}).get("claim")
    return found["pages"] / found["calls"] if found and found["calls"] else None


def claim_pages(samples: Sequence[Sample], phases: Phases) -> Verdict:
    """A claim does little work, also late in the pinned span: pages touched, which no neighbour changes."""
    width = block_width(phases)
    early = [value for _, value in series(samples, phases.before, width, pages_per_claim)]
    late = [value for _, value in series(samples, phases.late_in_pin, width, pages_per_claim)]
    bar = "pages per claim under the pin"
    if not early or not late:
        return Verdict(bar, "undecided", "never sampled", {})
    was, is_now = statistics.median(early), statistics.median(late)
    words = f"{was:.0f} → {is_now:.0f} (bar: {MOST_PAGES})"
    return Verdict(bar, "broken" if is_now > MOST_PAGES else "held", words, {"before": was, "lateInPin": is_now})


def dead_of(sample: Sample, *tables: str) -> int | None:
    """Dead rows of these tables, or of all."""
    if "tables" not in sample:
        return None
    return sum(table["dead"] for name, table in sample["tables"].items() if not tables or name in tables)


def dead_in_queue(samples: Sequence[Sample], phases: Phases) -> Verdict:
    """What a claim walks through has few dead rows, also while a snapshot holds all of them."""
    most = max((dead_of(sample, "ready") or 0 for sample in samples if sample["t"] >= phases.warm), default=0)
    words = f"{most:,} at most in the queue (bar: {MOST_DEAD:,})"
    return Verdict("dead rows a claim walks through", "broken" if most > MOST_DEAD else "held", words, {"most": most})


def dead_after(samples: Sequence[Sample], phases: Phases) -> Verdict:
    """Once nothing holds them, dead rows go: all tables together are below the bar again at the end."""
    held = max((dead_of(sample) or 0 for sample in samples if phases.pinned[0] <= sample["t"] < phases.pinned[1]), default=0)
    found = [dead_of(sample) or 0 for sample in samples if phases.after[0] <= sample["t"]]
    if not found:
        return Verdict("dead rows after the pin", "undecided", "never sampled", {})
    left = statistics.median(found)
    words = f"{left:,.0f} in all tables (bar: {MOST_DEAD:,}); {held:,} while they were held"
    return Verdict("dead rows after the pin", "broken" if left > MOST_DEAD else "held", words, {"left": left, "held": held})


def wal_after(samples: Sequence[Sample], phases: Phases) -> Verdict:
    """The write-ahead log of SQLite shrinks again when nobody reads an old snapshot."""
    held = max((sample["wal"] for sample in samples if phases.pinned[0] <= sample["t"] < phases.pinned[1]), default=0)
    left = statistics.median([sample["wal"] for sample in samples if phases.after[0] <= sample["t"]] or [0])
    words = f"{left / MIB:.0f} MiB (bar: {MOST_WAL / MIB:.0f}); {held / MIB:.0f} MiB while a reader held it"
    return Verdict("write-ahead log after the pin", "broken" if left > MOST_WAL else "held", words, {"left": left, "held": held})


def history(samples: Sequence[Sample], phases: Phases) -> Verdict:
    """What retention governs is bounded: no more rows past their time at the end than in the middle, and few days behind."""
    third = (phases.end - phases.warm) / 3
    value: Callable[[Sample], float | None] = lambda sample: sample.get("overdue")  # noqa: E731
    middle = series(samples, (phases.warm + third, phases.end - third), third, value)
    last = series(samples, (phases.end - third, phases.end), third, value)
    days = [sample["days"] for sample in samples if "days" in sample]
    if not last or not middle:
        return Verdict("history past its retention", "undecided", "never sampled", {})
    early, late = middle[0][1], last[0][1]
    words = f"{early:,.0f} → {late:,.0f} rows" + (f", {max(days)} days kept at most" if days else "")
    grown = late > early * 1.3 + 1_000
    return Verdict("history past its retention", "broken" if grown else "held", words, {"middle": early, "last": late})
