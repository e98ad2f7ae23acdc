"""An hour of fires, job by job: when each is due and for how long it is expected to run, all on one scale.

A picture is stretched to the width that there is; what can be clicked is placed in hundredths of it. Bars that would be too close to be
told apart are one thing to click: so are all fires of a minute that has no lane of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any, NamedTuple

from markupsafe import Markup

from duly.dashboard.drawing.heat import level
from duly.dashboard.drawing.overlay import Stretch
from duly.dashboard.words import counted, local, moment, short_clock, span
from duly.domain.instants import HOUR, MINUTE, SECOND, Instant

MOST_LANES = 30
MOST_PAUSED = 10
MOST_BATCHES = 200
# What is closer than this is hard to hit on its own: 24 pixels of a phone's width.
NEAR = 285 * SECOND
_TALL = 28
_HATCH = Markup(
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path class="hatch" d="M3 0v6"/></pattern></defs>'
)


class Bar(NamedTuple):
    """One fire: when it is due, when its run is expected to have ended (its due time where that is not known), whether it is skipped."""

    due: Instant
    end: Instant
    is_skipped: bool = False


@dataclass(slots=True)
class Batch:
    """Bars that are one thing to click."""

    first: Instant
    last: Instant
    end: Instant
    fires: int
    words: str = ""

    @property
    def minutes(self) -> int:
        """How many minutes its due times take up."""
        return self.last // MINUTE - self.first // MINUTE + 1


@dataclass(slots=True)
class Lane:
    """A job's fires, or those of all jobs that have no lane (`job_id` is None)."""

    name: str
    job_id: str | None
    fires: int
    expected_ms: float | None = None
    is_paused: bool = False
    batches: list[Batch] = field(default_factory=list)
    drawing: Markup = field(default_factory=Markup)


@dataclass(frozen=True, slots=True)
class Hour:
    """Which hour, in which zone, how its links begin, and where the line of now stands."""

    start: Instant
    zone: tzinfo
    href: str
    now: Instant

    def share(self, at: Instant) -> float:
        """Where an instant stands, in hundredths."""
        return (min(max(at, self.start), self.start + HOUR) - self.start) / HOUR * 100

    def clock(self, at: Instant) -> str:
        """The time as it is written."""
        return short_clock(local(at, self.zone))


def lanes(fires: Sequence[dict[str, Any]], counts: Mapping[Instant, int], hour: Hour) -> list[Lane]:
    """A lane for each of the first jobs, and one for whatever else there is by the count of the minutes."""
    own: dict[str, list[dict[str, Any]]] = {}
    for fire in fires:
        if fire["jobId"] in own or len(own) < MOST_LANES:
            own.setdefault(fire["jobId"], []).append(fire)
    made = [(_lane(some), [_bar(fire) for fire in some]) for some in own.values()]
    near = NEAR
    while sum(len(_batched(bars, near)) for _, bars in made) > MOST_BATCHES:
        near *= 2
    for lane, bars in made:
        lane.batches = _batched(bars, near)
        for batch in lane.batches:
            batch.words = _said(lane, batch, hour)
        lane.drawing = _drawn(lane, bars, hour)
    rest = dict(counts)
    for _, bars in made:
        for bar in bars:
            minute = bar.due - bar.due % MINUTE
            rest[minute] = rest.get(minute, 0) - 1
    others = _others({at: count for at, count in rest.items() if count > 0}, hour)
    return [lane for lane, _ in made] + ([others] if others is not None else [])


def held_back(fires: Sequence[dict[str, Any]], hour: Hour) -> list[Lane]:
    """Lanes of paused jobs: hatched, where they would fire."""
    own: dict[str, list[dict[str, Any]]] = {}
    for fire in fires:
        if fire["jobId"] in own or len(own) < MOST_PAUSED:
            own.setdefault(fire["jobId"], []).append(fire)
    found = []
    for some in own.values():
        lane, bars = _lane(some), [_bar(fire) for fire in some]
        lane.is_paused = True
        blocks = Markup()
        for batch in _batched(bars, NEAR):
            batch.words = f"paused: {_said(lane, batch, hour)}"
            lane.batches.append(batch)
            x, end = hour.share(batch.first), hour.share(batch.end)
            blocks += _hatched(x, max(end - x, 1.2 + hour.share(batch.last) - x))
        lane.drawing = _framed(blocks, lane.batches, hour, lane.name)
        found.append(lane)
    return found


def bands(stretches: Sequence[Stretch], hour: Hour) -> Markup:
    """Maintenance over the lanes."""
    blocks, words = Markup(), []
    for stretch in stretches:
        x = hour.share(stretch.start)
        blocks += Markup('<rect class="band" x="{:.2f}%" y="10" width="{:.2f}%" height="8"/>').format(x, hour.share(stretch.end) - x)
        words.append(f"{stretch.calendar}, {hour.clock(stretch.start)} to {hour.clock(stretch.end)}")
    return Markup('<svg class="lane" width="100%" height="{}" role="img" aria-label="{}">{}</svg>').format(_TALL, "; ".join(words), blocks)


def _hatched(x: float, wide: float) -> Markup:
    return Markup('<rect class="held" fill="url(#hatch)" x="{:.2f}%" y="6" width="{:.2f}%" height="16"/>').format(x, wide)


def scale(hour: Hour) -> Markup:
    """The times above the lanes; and what hatches are made of."""
    marks = Markup().join(
        Markup('<text x="{:.1f}%" y="12">{}</text>').format(hour.share(at), hour.clock(at))
        for at in range(hour.start, hour.start + HOUR, 10 * MINUTE)
    )
    return Markup('<svg class="lane-scale" width="100%" height="16" aria-hidden="true">{}{}</svg>').format(_HATCH, marks)


def _lane(fires: list[dict[str, Any]]) -> Lane:
    expected = fires[0]["expectedSec"]
    return Lane(fires[0]["jobName"], fires[0]["jobId"], len(fires), None if expected is None else expected * 1000)


def _bar(fire: dict[str, Any]) -> Bar:
    due = moment(fire["at"])
    return Bar(due, due + round((fire["expectedSec"] or 0) * SECOND), fire["isSkipped"])


def _batched(bars: Sequence[Bar], near: int) -> list[Batch]:
    found: list[Batch] = []
    for bar in bars:
        if found and bar.due < max(found[-1].end, found[-1].first + near):
            found[-1].last, found[-1].end, found[-1].fires = bar.due, max(found[-1].end, bar.end), found[-1].fires + 1
        else:
            found.append(Batch(bar.due, bar.due, bar.end, 1))
    return found


def _said(lane: Lane, batch: Batch, hour: Hour) -> str:
    takes = "how long it takes is not known yet" if lane.expected_ms is None else f"mostly takes {span(lane.expected_ms)}"
    if batch.fires == 1:
        return f"{lane.name}: due {hour.clock(batch.first)}, {takes}"
    return f"{lane.name}: {counted(batch.fires, 'fire')} from {hour.clock(batch.first)} to {hour.clock(batch.last)}, {takes}"


def _drawn(lane: Lane, bars: Sequence[Bar], hour: Hour) -> Markup:
    """All bars of a lane in three strokes: those with a length, those without, those that are skipped."""
    paths = {"known": "", "unknown": "", "skipped": ""}
    for bar in bars:
        kind = "skipped" if bar.is_skipped else "known" if bar.end > bar.due else "unknown"
        x = (bar.due - hour.start) / SECOND
        # A bar that is thinner cannot be seen, and the inside of a hollow one must be.
        wide = max((min(bar.end, hour.start + HOUR) - bar.due) / SECOND, 8 if kind == "known" else 30)
        paths[kind] += f"M{x:.0f} 6h{wide:.0f}v16h-{wide:.0f}z"
    body = Markup().join(Markup('<path class="{}" d="{}"/>').format(kind, path) for kind, path in paths.items() if path)
    inner = Markup('<svg viewBox="0 0 3600 {}" preserveAspectRatio="none" width="100%" height="{}">{}</svg>').format(_TALL, _TALL, body)
    return _framed(inner, lane.batches, hour, lane.name)


def _others(counts: Mapping[Instant, int], hour: Hour) -> Lane | None:
    if not counts:
        return None
    lane = Lane("all others", None, sum(counts.values()))
    most = max(counts.values())
    blocks = Markup()
    for at in sorted(counts):
        blocks += Markup('<rect class="l{}" x="{:.2f}%" y="4" width="1.5%" height="20"/>').format(level(counts[at], most), hour.share(at))
        if lane.batches and at < lane.batches[-1].first + NEAR:
            batch = lane.batches[-1]
            batch.last, batch.end, batch.fires = at, at + MINUTE, batch.fires + counts[at]
        else:
            lane.batches.append(Batch(at, at, at + MINUTE, counts[at]))
    for batch in lane.batches:
        until = f" to {hour.clock(batch.last)}" if batch.last > batch.first else ""
        batch.words = f"{counted(batch.fires, 'fire')} of other jobs, {hour.clock(batch.first)}{until}"
    lane.drawing = _framed(blocks, lane.batches, hour, lane.name)
    return lane


def _framed(body: Markup, batches: Sequence[Batch], hour: Hour, name: str) -> Markup:
    links = Markup()
    for batch in batches:
        x, end = hour.share(batch.first), hour.share(batch.end)
        wide = max(end - x, NEAR / HOUR * 100)
        links += Markup('<a href="{}&amp;at={}&amp;span={}"><title>{}</title><rect x="{:.2f}%" width="{:.2f}%" height="{}"/></a>').format(
            hour.href, batch.first // MINUTE, batch.minutes, batch.words, min(x, 100 - wide), wide, _TALL
        )
    line = Markup()
    if hour.start <= hour.now < hour.start + HOUR:
        line = Markup('<line class="now" x1="{0:.2f}%" x2="{0:.2f}%" y2="{1}"/>').format(hour.share(hour.now), _TALL)
    return Markup('<svg class="lane" width="100%" height="{}" role="group" aria-label="{}">{}{}{}</svg>').format(
        _TALL, name, body, line, links
    )
