"""Targets and runs over time, one lane for each job, with the faults behind them.

In a lane, upper row: when the job should have run. Middle row: when it did; a thin line before a bar is the time between the target
and its start. Lower row: runs that did not count, because they failed, were lost, or had their result refused. A long run has more
of them than pixels: what touches becomes one bar, and a gap stays a gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from duly.verify.pages.quantities import MINUTE, SECOND, count, duration, many
from duly.verify.pages.svg import TONES, Figure, Plot, Scale, time_marks
from duly.verify.report import Band, Lane, Report

SHOWN_LANES: Final = 40
CLOSE_LANES: Final = 12

_WIDTH = 1080.0
_LEFT, _RIGHT = 178.0, 928.0
_ROW, _LANE = 12.5, 19.0
_NAME = 26
# A wait shorter than this many pixels says nothing that the bar does not.
_WAIT = 2.5


def chosen(report: Report, limit: int = SHOWN_LANES) -> list[Lane]:
    """The most interesting lanes first: broken ones, then those with runs that did not count, then the latest."""
    return _ranked(report, report.lanes)[:limit]


def _ranked(report: Report, lanes: Iterable[Lane], first: str | None = None) -> list[Lane]:
    accused = {finding.job for finding in report.findings()}

    def interest(lane: Lane) -> tuple[bool, int, int, int, str]:
        wrong = len(lane.missing) + len(lane.extra) + (lane.job in accused)
        vain = sum(not accepted for *_, accepted in lane.runs)
        return lane.job != first, -wrong, -vain, -latest(lane), lane.name

    return sorted(lanes, key=interest)


def latest(lane: Lane) -> int:
    """The longest time between a target and its first start."""
    return max((start - nominal for nominal, start in _first_starts(lane)), default=0)


def _first_starts(lane: Lane) -> Iterable[tuple[int, int]]:
    """Of each target the first start: what is tried again later was not late."""
    first: dict[int, int] = {}
    for nominal, start, _, _ in lane.runs:
        first[nominal] = min(start, first.get(nominal, start))
    return first.items()


def tones(bands: Sequence[Band]) -> dict[str, str]:
    """A tone for each kind of fault, the same in every figure of a page. The first one is kept for the runs."""
    kinds = sorted({band.kind for band in bands})
    return {kind: TONES[1 + n % (len(TONES) - 1)] for n, kind in enumerate(kinds)}


def overview(report: Report) -> Figure:
    """The whole run."""
    return _timeline(report, "overview", "Targets and runs over time", chosen(report), report.started_at, report.ended_at)


def close_ups(report: Report, most: int = 3) -> list[tuple[str, Figure]]:
    """What happened around the first findings, or else around the latest start, with what to say about each; none for a short run."""
    width = min(2 * MINUTE, (report.ended_at - report.started_at) // 8)
    if width < 5 * SECOND:
        return []
    found: list[tuple[str, Figure]] = []
    until = report.started_at
    for at, job, words in sorted(_moments(report)):
        if at < until or len(found) == most:
            continue
        since = max(report.started_at, min(at - width // 3, report.ended_at - width))
        until = since + width
        seen = [
            lane
            for lane in (_within(lane, since, until) for lane in report.lanes)
            if lane.targets or lane.runs or lane.missing or lane.extra
        ]
        lanes = _ranked(report, seen, first=job)[:CLOSE_LANES]
        found.append((words, _timeline(report, f"close-up-{len(found) + 1}", words, lanes, since, until)))
    return found


def _moments(report: Report) -> list[tuple[int, str, str]]:
    """When, which job, and what to say about it."""
    first: dict[str, tuple[int, str, str]] = {}
    for finding in report.findings():
        if finding.at is not None and report.started_at <= finding.at <= report.ended_at:
            first.setdefault(finding.invariant, (finding.at, finding.job or "", f"{finding.invariant}: {finding.says}"))
    if first:
        return list(first.values())
    late = [(start - nominal, nominal, lane.job, lane.name) for lane in report.lanes for nominal, start in _first_starts(lane)]
    if not late:
        return []
    delay, nominal, job, name = max(late)
    return [(nominal, job, f"The latest start: {name}, {duration(delay)} after its target")]


def _within(lane: Lane, since: int, until: int) -> Lane:
    """What there is to see of a lane between two instants."""

    def inside(values: list[int]) -> list[int]:
        return [value for value in values if since <= value <= until]

    return Lane(
        job=lane.job,
        name=lane.name,
        targets=inside(lane.targets),
        optional=inside(lane.optional),
        skipped=inside(lane.skipped),
        runs=[run for run in lane.runs if min(run[0], run[1]) <= until and (run[2] is None or run[2] >= since)],
        missing=inside(lane.missing),
        extra=inside(lane.extra),
    )


def _timeline(report: Report, name: str, title: str, lanes: Sequence[Lane], since: int, until: int) -> Figure:
    bands = [band for band in report.bands if band.since <= until and band.until >= since]
    kinds = {kind: tone for kind, tone in tones(report.bands).items() if any(band.kind == kind for band in bands)}
    top = 8 + _ROW * len(kinds) + 22
    bottom = top + _LANE * max(1, len(lanes)) + 2
    about = (
        f"{many(len(lanes), 'job')}, from top to bottom the most interesting first. Per job: targets, runs, runs that did not count."
        f" Behind them {many(len(bands), 'fault')} of {many(len(kinds), 'kind')}."
    )
    figure = Figure(name, title, about, _WIDTH, bottom + 34)
    hatch = figure.hatch("ink")
    x = Scale(low=since, high=max(until, since + 1), start=_LEFT, end=_RIGHT)
    plot = Plot(x=x, y=Scale(low=0, high=1, start=bottom, end=top))
    plot.x_axis(time_marks(since, until), title="UTC", top=8)
    _draw_faults(plot, bands, kinds)
    plot.text(_RIGHT + 70, top - 7, "targets", anchor="end")
    plot.text(_RIGHT + 146, top - 7, "max delay", anchor="end")
    for n, lane in enumerate(lanes):
        _draw_lane(plot, lane, top + n * _LANE, until, hatch)
    figure.put(plot)
    return figure


def _draw_faults(plot: Plot, bands: Sequence[Band], kinds: dict[str, str]) -> None:
    """A row for each kind, which is the legend as well, and its shade behind all lanes."""
    for n, (kind, tone) in enumerate(kinds.items()):
        spans = [(band.since, band.until) for band in bands if band.kind == kind]
        row = 8 + n * _ROW
        plot.bands(spans, tone=tone, top=row)
        plot.bars(spans, row + 2, row + _ROW - 2.5, tone=tone)
        plot.text(_LEFT - 8, row + 9.5, f"{_shortened(kind)} × {count(len(spans))}", anchor="end", title=kind)


def _draw_lane(plot: Plot, lane: Lane, top: float, until: int, hatch: str) -> None:
    plot.text(_LEFT - 8, top + 12.5, _shortened(lane.name or lane.job), anchor="end", kind="name", title=f"{lane.name} {lane.job}")
    plot.text(_RIGHT + 70, top + 12.5, count(len(lane.targets)), anchor="end")
    plot.text(_RIGHT + 146, top + 12.5, duration(latest(lane)) if lane.runs else "none", anchor="end")
    _draw_marks(plot, lane, top, until, hatch)


def _draw_marks(plot: Plot, lane: Lane, top: float, until: int, hatch: str) -> None:
    x, skipped = plot.x, set(lane.skipped)
    plot.bars([(at, at) for at in lane.targets if at not in skipped], top + 2, top + 5.5, tone="quiet", gap=0.3)
    plot.bars([(at, at) for at in lane.optional if at not in skipped], top + 4.5, top + 5.5, tone="quiet", gap=0.3)
    plot.marks(lane.skipped, top + 4, 2, shape="round", tone="ink")
    plot.bars(
        [(nominal, start) for nominal, start in _first_starts(lane) if x(start) - x(nominal) > _WAIT], top + 9.5, top + 10.5, tone="quiet"
    )
    plot.bars([(start, end) for _, start, end, good in lane.runs if good and end is not None], top + 7.5, top + 12.5, tone="c1", gap=0.3)
    plot.bars([(start, until) for _, start, end, good in lane.runs if good and end is None], top + 9, top + 11, tone="c1")
    # In a row of their own: that one overlaps with the run which took its place is what the fence is for.
    vain = [(start, until if end is None else end) for _, start, end, good in lane.runs if not good]
    plot.bars(vain, top + 13.5, top + 17, tone="ink", fill=hatch)
    plot.ticks([*lane.missing, *lane.extra], top, top + _LANE - 1, tone="loud", width=1.5)
    plot.marks(lane.missing, top + 4, 3.5, shape="cross", tone="loud")
    plot.marks(lane.extra, top + 10, 3.5, shape="diamond", tone="loud")


def legend() -> list[tuple[Figure, str]]:
    """Each mark of a lane, drawn as in the lanes, and what it says."""
    samples = {
        "target": Lane(job="", name="", targets=[4, 12, 20]),
        "target that may be missed: changed or too near the end": Lane(job="", name="", optional=[4, 12, 20]),
        "skipped, with its reason": Lane(job="", name="", skipped=[12]),
        "run": Lane(job="", name="", targets=[3], runs=[(3, 3, 22, True)]),
        "due, waiting, then run": Lane(job="", name="", targets=[3], runs=[(3, 13, 22, True)]),
        "run without an end": Lane(job="", name="", targets=[3], runs=[(3, 3, None, True)]),
        "run that did not count: failed, lost or refused": Lane(job="", name="", runs=[(3, 3, 22, False)]),
        "missing: a target without a run": Lane(job="", name="", missing=[12]),
        "extra: a run without a target": Lane(job="", name="", extra=[12]),
    }
    found = []
    for n, (words, lane) in enumerate(samples.items()):
        figure = Figure(f"legend-{n}", words, "a sample", 24, _LANE - 2)
        plot = Plot(x=Scale(low=0, high=24, start=0, end=24), y=Scale(low=0, high=1, start=_LANE - 2, end=0))
        _draw_marks(plot, lane, 0, 24, figure.hatch("ink"))
        figure.put(plot)
        found.append((figure, words))
    return found


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME else name[: _NAME - 1] + "…"
