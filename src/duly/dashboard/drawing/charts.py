"""Charts over the last minutes, and small bars of runs. Colours are classes, so that themes apply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from duly.dashboard.words import between, clock_text, counted, moment, span
from duly.domain.instants import MINUTE, Instant

WIDTH, HEIGHT, FOOT, LEFT = 420, 170, 18, 40
ENDS = ("SUCCEEDED", "DEAD", "CANCELLED", "SKIPPED")
SPARK_RUNS = 20


def _scale(most: float) -> float:
    """A round number at or above the greatest value."""
    step = 1.0
    while step * 10 <= most:
        step *= 10
    return next((step * factor for factor in (1, 1.2, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * factor >= most), step * 10) if most > 1 else 1.0


@dataclass(frozen=True, slots=True)
class Lapse:
    """The time that charts are over: its minutes, and what was done to jobs in them."""

    minutes: Sequence[dict[str, Any]]
    changes: Sequence[dict[str, Any]] = ()


# How a change of jobs looks above the axis of time: a triangle, two bars, an arrow to the right. Each is eight wide.
CHANGES = {
    "job.change": ("changed", "M4 0L8 7H0Z"),
    "job.pause": ("paused", "M0 0h3v8H0zM5 0h3v8H5z"),
    "job.resume": ("resumed", "M0 0L8 4L0 8Z"),
}


def _changes(lapse: Lapse) -> Markup:
    """A line where jobs were changed, paused or resumed, with a sign of its own on top."""
    minutes, drawn = lapse.minutes, Markup()
    first, each = moment(minutes[0]["at"]), (WIDTH - LEFT) / len(minutes)
    for change in lapse.changes:
        nth = (moment(change["at"]) - first) // MINUTE
        if 0 <= nth < len(minutes):
            x, (kind, sign) = LEFT + (nth + 0.5) * each, CHANGES[change["action"]]
            drawn += Markup(
                '<g class="mark {}" transform="translate({:.1f} 0)"><title>{}</title><path class="at" d="M0 10V{}"/>'
                '<path transform="translate(-4 1)" d="{}"/></g>'
            ).format(kind, x, change_words(change), HEIGHT - FOOT, sign)
    return drawn


def change_words(change: dict[str, Any]) -> str:
    """What was done: to the job of that name, or to how many."""
    kind, _ = CHANGES[change["action"]]
    return f"{change['jobName'] or counted(change['jobs'], 'job')} {kind}"


def _frame(title: str, lapse: Lapse, view: Any, top: str, body: Markup) -> Markup:
    """The axes with three times and the greatest value."""
    minutes = lapse.minutes
    zone = view.preferences.zone_for()
    bottom = HEIGHT - FOOT
    marks = Markup()
    for share in (0.0, 0.5, 1.0):
        nth = round(share * (len(minutes) - 1))
        anchor = {0.0: "start", 0.5: "middle", 1.0: "end"}[share]
        text = clock_text(moment(minutes[nth]["at"]), view.now, zone)[:-3]
        x = LEFT + share * (WIDTH - LEFT)
        marks += Markup('<text x="{:.0f}" y="{}" text-anchor="{}">{}</text>').format(x, HEIGHT - 3, anchor, text)
    lines = Markup('<path class="axis" d="M{0} {1}H{2}M{0} {3}H{2}M{0} 10H{2}"/>').format(LEFT, bottom, WIDTH, (bottom + 10) / 2)
    scale = Markup('<text x="{}" y="14" text-anchor="end">{}</text><text x="{}" y="{}" text-anchor="end">0</text>').format(
        LEFT - 6, top, LEFT - 6, bottom
    )
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}" data-left="{}">{}{}{}{}{}</svg>').format(
        WIDTH, HEIGHT, title, LEFT, lines, body, _changes(lapse), scale, marks
    )


def throughput(lapse: Lapse, view: Any) -> Markup:
    """How many ended in each minute, by how."""
    minutes = lapse.minutes
    top = _scale(max((sum(minute["ended"].values()) for minute in minutes), default=0))
    each = (WIDTH - LEFT) / max(len(minutes), 1)
    bottom = HEIGHT - FOOT
    bars = Markup()
    for nth, minute in enumerate(minutes):
        y = float(bottom)
        for end in ENDS:
            count = minute["ended"].get(end, 0)
            if not count:
                continue
            tall = count / top * (bottom - 10)
            y -= tall
            bars += Markup('<rect class="bar-{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
                end.lower(), LEFT + nth * each + 0.5, y, max(each - 1, 1), tall
            )
    total = sum(sum(minute["ended"].values()) for minute in minutes)
    dead = sum(minute["ended"].get("DEAD", 0) for minute in minutes)
    return _frame(f"{total} executions ended in {len(minutes)} minutes, {dead} of them dead", lapse, view, f"{top:.0f}", bars)


def _path(values: Sequence[float | None], top: float) -> str:
    """A line through the values; where there is none it goes on at the next."""
    bottom, points = HEIGHT - FOOT, []
    for nth, value in enumerate(values):
        if value is not None:
            x = LEFT + (nth + 0.5) * (WIDTH - LEFT) / len(values)
            points.append(f"{x:.1f} {bottom - min(value / top, 1) * (bottom - 10):.1f}")
    return "M" + "L".join(points) if points else ""


def lateness(lapse: Lapse, view: Any) -> Markup:
    """The percentiles of lateness in each minute."""
    minutes = lapse.minutes
    greatest = max((minute["latenessP99Ms"] or 0 for minute in minutes), default=0)
    top = _scale(greatest)
    lines = Markup()
    for name in ("p50", "p95", "p99"):
        values = [minute[f"lateness{name.upper()}Ms"] for minute in minutes]
        lines += Markup('<path class="line {}" d="{}"/>').format(name, _path(values, top))
    return _frame(f"Lateness of starts; the worst p99 of a minute is {span(greatest)}", lapse, view, span(top), lines)


def running(lapse: Lapse, slots: int, view: Any) -> Markup:
    """How many ran in each minute, beside how many could."""
    values = [minute["running"] for minute in lapse.minutes]
    top = _scale(max([*values, slots, 1]))
    line, bottom = _path(values, top), HEIGHT - FOOT
    y = bottom - min(slots / top, 1) * (bottom - 10)
    x = LEFT + 0.5 * (WIDTH - LEFT) / max(len(values), 1)
    area = f"{line}L{WIDTH - (x - LEFT):.1f} {bottom}L{x:.1f} {bottom}Z" if line else ""
    body = Markup('<path class="area" d="{}"/><path class="line p95" d="{}"/><path class="capacity" d="M{} {:.1f}H{}"/>').format(
        area, line, LEFT, y, WIDTH
    )
    return _frame(
        f"At most {max(values, default=0):.1f} ran on average in a minute; there are {slots} slots", lapse, view, f"{top:.0f}", body
    )


def sparkline(runs: Sequence[dict[str, Any]]) -> Markup:
    """The last runs, oldest first: colour and a mark by outcome, height by duration."""
    if not runs:
        return Markup('<span class="none">no run yet</span>')
    spans = [between(run["startedAt"], run["finishedAt"]) or 0 for run in runs]
    longest = max(*spans, 1.0) if len(spans) > 1 else max(spans[0], 1.0)
    bars = Markup()
    for nth, (run, took) in enumerate(zip(runs, spans, strict=True)):
        state = run["state"].lower()
        tall = 5 + 15 * (took / longest) ** 0.5
        x = (SPARK_RUNS - len(runs) + nth) * 6
        bars += Markup('<rect class="f-{}" x="{}" y="{:.1f}" width="4.6" height="{:.1f}" rx="1"/>').format(state, x, 22 - tall, tall)
        if state == "dead":
            bars += Markup('<path class="f-dead" d="M{} 0l2.3 -0 2.3 0-2.3 4z"/>').format(x)
    counts: dict[str, int] = {}
    for run in runs:
        counts[run["state"].lower()] = counts.get(run["state"].lower(), 0) + 1
    label = f"Last {len(runs)} runs: " + ", ".join(f"{count} {state}" for state, count in counts.items())
    return Markup('<svg class="spark" viewBox="0 0 {} 22" role="img" aria-label="{}">{}</svg>').format(SPARK_RUNS * 6, label, bars)


def meter(used: float, whole: float, label: str) -> Markup:
    """How much of something is in use."""
    return _meter(used, whole, label, "full" if whole and used >= whole else "")


def part(count: int, whole: int, label: str) -> Markup:
    """How many of all failures something is."""
    return _meter(count, whole, label, "full")


def _meter(used: float, whole: float, label: str, tone: str) -> Markup:
    share = min(used / whole, 1.0) if whole else 0.0
    return Markup(
        '<div class="meter" role="img" aria-label="{}"><svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="{}" width="{:.1f}" height="4"/></svg></div>'
    ).format(label, tone, share * 100)


def attempts(view: Any, start: Instant, end: Instant, parts: Sequence[tuple[str, Instant, Instant, str]]) -> Markup:
    """The life of an execution: waiting, attempts, waiting. Each part has a class, its bounds and its words."""
    whole = max(end - start, 1)
    body = Markup()
    for kind, first, last, words in parts:
        x, wide = (first - start) / whole * 1000, max((last - first) / whole * 1000, 3)
        tall, y = (14, 8) if kind in ("queue", "wait") else (26, 2)
        body += Markup('<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}" rx="2"><title>{}</title></rect>').format(
            kind if kind in ("queue", "wait") else f"attempt-{kind}", x, y, wide, tall, words
        )
    label = "; ".join(words for _, _, _, words in parts)
    return Markup(
        '<svg class="timeline" viewBox="0 0 1000 30" preserveAspectRatio="none" role="img" aria-label="{}" height="34">{}</svg>'
    ).format(label, body)
