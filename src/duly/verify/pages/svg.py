"""Plots in SVG, without a plotting library: scales, axes, bands, lines, bars and ticks.

    x = Scale(low=started, high=ended, start=60, end=940)
    plot = Plot(x=x, y=Scale(low=0, high=512, start=200, end=20))
    plot.bands([(pinned_since, pinned_until)], tone="c3")
    plot.line(samples, tone="c1")
    plot.x_axis(time_marks(started, ended))
    plot.y_axis(number_marks(0, 512), title="MiB")

    figure = Figure("memory", title="Memory", about="RSS of each process", width=960, height=230)
    figure.put(plot)
    Path("memory.svg").write_text(figure.file())

A tone is a colour by its role: `c1` … `c8` for series and kinds, `loud` for what is wrong, `quiet` for what is not the point.
Colours follow the reader's light or dark scheme. What many elements share is drawn as one path, and what falls on the same
pixel is drawn once, so that a figure of a long run stays small.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from duly.verify.pages.markup import Markup, element, joined
from duly.verify.pages.markup import number as _n
from duly.verify.pages.quantities import DAY, HOUR, MILLISECOND, MINUTE, SECOND, moment

TONES: Final = tuple(f"c{n}" for n in range(1, 9))

Mark = tuple[float, str]
"""A place on an axis and what stands there."""

Shape = Literal["round", "cross", "diamond"]

# Relative moves from the middle of the sign.
_SHAPES: Final[dict[Shape, str]] = {
    "round": "M{x} {y}m-{r} 0a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0",
    "cross": "M{x} {y}m-{r} -{r}l{d} {d}m-{d} 0l{d} -{d}",
    "diamond": "M{x} {y}m0 -{r}l{r} {r}l-{r} {r}l-{r} -{r}z",
}

_LIGHT = {
    "ink": "#1d1f21", "soft": "#5b6066", "hair": "#d9dce0", "paper": "#ffffff", "loud": "#c01020", "quiet": "#777d85",
    "c1": "#1f5fa8", "c2": "#b25a00", "c3": "#2c7a4b", "c4": "#7a4fa3", "c5": "#a3324f", "c6": "#0e7c86", "c7": "#7d6608", "c8": "#5c6670",
}  # fmt: skip
_DARK = {
    "ink": "#e4e6e8", "soft": "#a3a9b0", "hair": "#363a3f", "paper": "#15171a", "loud": "#ff6b70", "quiet": "#8d949c",
    "c1": "#6aa9ee", "c2": "#e29a4a", "c3": "#66bb86", "c4": "#b596dc", "c5": "#e58aa2", "c6": "#58bfc8", "c7": "#cdb548", "c8": "#a3adb7",
}  # fmt: skip


def _variables(colours: dict[str, str]) -> str:
    return ";".join(f"--{name}:{colour}" for name, colour in colours.items())


PALETTE: Final = (
    f":root{{color-scheme:light dark;{_variables(_LIGHT)}}}@media screen and (prefers-color-scheme:dark){{:root{{{_variables(_DARK)}}}}}"
)
"""The colours as CSS variables: a page that holds figures uses the same ones."""

STYLE: Final = "".join([
    "svg{font:11px/1.2 system-ui,sans-serif}",
    "svg text{fill:var(--soft)}",
    "svg text.name{fill:var(--ink)}",
    "svg .grid{stroke:var(--hair);fill:none}",
    "svg .axis{stroke:var(--quiet);fill:none}",
    *(f"svg .{tone}{{--tone:var(--{tone})}}" for tone in (*TONES, "loud", "quiet", "ink")),
    "svg .line{fill:none;stroke:var(--tone);stroke-width:1.5;stroke-linejoin:round}",
    "svg .bar{fill:var(--tone)}",
    "svg .tick{fill:none;stroke:var(--tone)}",
    "svg .hollow{fill:none;stroke:var(--tone)}",
    "svg .band{fill:var(--tone);fill-opacity:.1}",
    "svg text.label{fill:var(--tone);font-weight:600}",
])  # fmt: skip
"""How the parts of a figure look, in terms of PALETTE."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """From values to pixels. `log`: every factor of ten has the same length; values below `low` stand at `low`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel, never outside of the scale."""
        low, high, value = (self._bent(v) for v in (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.0
        return self.start + (self.end - self.start) * min(1.0, max(0.0, share))

    def holds(self, value: float) -> bool:
        """Whether the value lies on the scale."""
        return self.low <= value <= self.high

    def _bent(self, value: float) -> float:
        return math.log10(max(value, self.low, 1e-9)) if self.log else value


# ------------------------------------------------------------ where marks stand


def number_marks(low: float, high: float, about: int = 5) -> list[Mark]:
    """Round numbers, about that many, between two values."""
    step = _round_step((high - low) / max(about, 1))
    if step <= 0:
        return [(low, f"{low:g}")]
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [(n * step, f"{n * step:,.10g}") for n in range(first, last + 1)]


def decade_marks(low: float, high: float) -> list[Mark]:
    """The powers of ten between two durations in microseconds, for a scale with `log`."""
    first, last = math.ceil(math.log10(max(low, 1)) - 1e-9), math.floor(math.log10(max(high, 1)) + 1e-9)
    return [(10**n, _whole(10**n)) for n in range(first, last + 1)]


def time_marks(low: int, high: int, about: int = 8) -> list[Mark]:
    """Round instants in UTC; the first one and each new day also say the date."""
    wanted = max(1, -(-(high - low) // max(about, 1)))
    step = next((step for step in _TIME_STEPS if step >= wanted), None) or math.ceil(wanted / (365 * DAY)) * 365 * DAY
    marks: list[Mark] = []
    day = None
    for at in range(-(-low // step) * step, high + 1, step):
        found = moment(at)
        if found is None:
            continue
        text = f"{found:%H:%M}" if step >= MINUTE else f"{found:%H:%M:%S}"
        if step < SECOND:
            text += f".{found.microsecond // MILLISECOND:03d}" if step >= MILLISECOND else f".{found.microsecond:06d}"
        if found.date() != day:
            text = f"{found:%Y-%m-%d}" if step >= DAY else f"{found:%m-%d} {text}"
        day = found.date()
        marks.append((at, text))
    return marks


_TIME_STEPS = (
    *(n * unit for unit in (1, 10, 100) for n in (1, 2, 5)),
    *(n * unit * MILLISECOND for unit in (1, 10, 100) for n in (1, 2, 5)),
    *(n * SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR for n in (1, 2, 3, 6, 12)),
    *(n * DAY for n in (1, 2, 5, 10, 30, 90, 180, 365)),
)


def _round_step(least: float) -> float:
    if least <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * n for n in (1, 2, 5, 10) if power * n >= least * (1 - 1e-9))


def _whole(micros: int) -> str:
    """A power of ten without decimals: 1 ms, 100 s."""
    for unit, name in ((SECOND, "s"), (MILLISECOND, "ms")):
        if micros >= unit:
            return f"{micros // unit:,} {name}"
    return f"{micros} µs"


# ------------------------------------------------------------ what falls on the same pixel


def merged(spans: Iterable[tuple[float, float]], scale: Scale, *, least: float = 1.0, gap: float = 0.0) -> list[tuple[float, float]]:
    """Spans of values as spans of pixels: none narrower than `least`, and those not more than `gap` apart are one."""
    found: list[tuple[float, float]] = []
    for left, right in sorted((scale(since), scale(until)) for since, until in spans if until >= scale.low and since <= scale.high):
        right = max(right, left + least)
        if found and left <= found[-1][1] + gap:
            found[-1] = (found[-1][0], max(found[-1][1], right))
        else:
            found.append((left, right))
    return found


def distinct(values: Iterable[float], scale: Scale, *, apart: float = 1.0) -> list[float]:
    """Values as pixels, in order, those that lie nearer than `apart` to the one before left out."""
    found: list[float] = []
    for pixel in sorted(scale(value) for value in values if scale.holds(value)):
        if not found or pixel - found[-1] >= apart:
            found.append(pixel)
    return found


def thinned(points: Sequence[tuple[float, float]], scale: Scale) -> Iterator[tuple[float, float]]:
    """Of the points on one pixel column the first, the lowest, the highest and the last: the line looks the same."""
    column: list[tuple[float, float]] = []
    at = None
    for point in points:
        pixel = round(scale(point[0]))
        if pixel != at:
            yield from _outline(column)
            column, at = [], pixel
        column.append(point)
    yield from _outline(column)


def _outline(column: list[tuple[float, float]]) -> list[tuple[float, float]]:
    if len(column) < 5:
        return column
    heights = [y for _, y in column]
    kept = {0, heights.index(min(heights)), heights.index(max(heights)), len(column) - 1}
    return [column[n] for n in sorted(kept)]


# ------------------------------------------------------------ plots and figures


@dataclass(kw_only=True)
class Plot:
    """An area with two scales. What is put in first lies behind."""

    x: Scale
    y: Scale
    parts: list[Markup] = field(default_factory=list)

    def bands(self, spans: Iterable[tuple[float, float]], *, tone: str, top: float | None = None, title: str | None = None) -> None:
        """Stretches of x, shaded over the whole height or from the pixel `top` on; at least a pixel wide."""
        upper, lower = sorted((self.y.start, self.y.end))
        upper = upper if top is None else top
        if moves := _rectangles(merged(spans, self.x), upper, lower):
            self._put("path", _title(title), class_=f"band {tone}", d=moves)

    def line(
        self, points: Sequence[tuple[float, float]], *, tone: str, steps: bool = False, dashed: bool = False, title: str | None = None
    ) -> None:
        """A line through points in the order of x; `steps` holds each value until the next one."""
        seen = [(self.x(x), self.y(y)) for x, y in thinned(points, self.x)]
        if not seen:
            return
        moves = [f"M{_n(seen[0][0])} {_n(seen[0][1])}"]
        for x, y in seen[1:]:
            moves.append(f"H{_n(x)}V{_n(y)}" if steps else f"L{_n(x)} {_n(y)}")
        self._put("path", _title(title), class_=f"line {tone}", d="".join(moves), stroke_dasharray="4 3" if dashed else None)

    def bars(
        self, spans: Iterable[tuple[float, float]], top: float, bottom: float, *, tone: str, fill: str | None = None, gap: float = 0.0
    ) -> None:
        """Stretches of x as bars between two pixels of height. `fill` is a paint server instead of the tone's colour."""
        if moves := _rectangles(merged(spans, self.x, gap=gap), top, bottom):
            self._put("path", class_=f"bar {tone}", d=moves, style=f"fill:{fill}" if fill else None)

    def ticks(self, values: Iterable[float], top: float, bottom: float, *, tone: str, width: float = 1.0, apart: float = 1.0) -> None:
        """Values of x as short upright lines between two pixels of height."""
        moves = [f"M{_n(x)} {_n(top)}v{_n(bottom - top)}" for x in distinct(values, self.x, apart=apart)]
        if moves:
            self._put("path", class_=f"tick {tone}", d="".join(moves), stroke_width=None if width == 1.0 else width)

    def marks(self, values: Iterable[float], middle: float, radius: float, *, shape: Shape, tone: str) -> None:
        """Values of x as small signs at a pixel of height."""
        moves = [
            _SHAPES[shape].format(x=_n(x), y=_n(middle), r=_n(radius), d=_n(2 * radius)) for x in distinct(values, self.x, apart=2 * radius)
        ]
        if moves:
            self._put("path", class_=f"hollow {tone}", d="".join(moves), stroke_width=None if shape == "round" else 2)

    def text(self, x: float, y: float, words: str, *, anchor: str = "start", kind: str | None = None, title: str | None = None) -> None:
        """Words at a pixel."""
        self._put("text", words, _title(title), x=x, y=y, text_anchor=None if anchor == "start" else anchor, class_=kind)

    def x_axis(self, marks: Sequence[Mark], *, title: str | None = None, top: float | None = None, grid: bool = True) -> None:
        """Marks below the plot, with hairlines up to `top`."""
        top, bottom = min(self.y.start, self.y.end) if top is None else top, max(self.y.start, self.y.end)
        shown = [(self.x(value), words) for value, words in marks if self.x.holds(value)]
        if grid and shown:
            self._put("path", class_="grid", d="".join(f"M{_n(x)} {_n(top)}V{_n(bottom)}" for x, _ in shown))
        self._put("path", class_="axis", d=f"M{_n(self.x.start)} {_n(bottom)}H{_n(self.x.end)}")
        for x, words in shown:
            self.text(x, bottom + 14, words, anchor="middle")
        if title:
            self.text(self.x.end, bottom + 28, title, anchor="end")

    def y_axis(self, marks: Sequence[Mark], *, title: str | None = None) -> None:
        """Marks left of the plot, with hairlines across."""
        shown = [(self.y(value), words) for value, words in marks if self.y.holds(value)]
        if shown:
            self._put("path", class_="grid", d="".join(f"M{_n(self.x.start)} {_n(y)}H{_n(self.x.end)}" for y, _ in shown))
        for y, words in shown:
            self.text(self.x.start - 6, y + 4, words, anchor="end")
        if title:
            self.text(self.x.start, min(self.y.start, self.y.end) - 7, title)

    def _put(self, name: str, *children: object, **attributes: object) -> None:
        self.parts.append(element(name, *children, **attributes))


@dataclass
class Figure:
    """A drawing of one or more plots, with a title and a description for those who cannot see it. `name` is unique on its page."""

    name: str
    title: str
    about: str
    width: float
    height: float
    parts: list[Markup] = field(default_factory=list)

    def put(self, plot: Plot) -> None:
        """The next plot; it lies over those before it."""
        self.parts += plot.parts

    def hatch(self, tone: str) -> str:
        """A paint server of slanted lines, for `fill`."""
        key = f"{self.name}-hatch-{tone}"
        lines = element("path", class_=f"tick {tone}", d="M-1 1L1 -1M0 4L4 0M3 5L5 3", stroke_width=1.1)
        self.parts.append(element("pattern", lines, id=key, width=4, height=4, patternUnits="userSpaceOnUse"))
        return f"url(#{key})"

    def inline(self) -> Markup:
        """As part of a page that has PALETTE and STYLE."""
        return self._drawn()

    def file(self) -> str:
        """As a file of its own."""
        style = element("style", Markup(PALETTE + STYLE))
        paper = element("rect", width="100%", height="100%", style="fill:var(--paper)")
        return '<?xml version="1.0" encoding="UTF-8"?>\n' + self._drawn(style, paper, xmlns="http://www.w3.org/2000/svg") + "\n"

    def _drawn(self, *before: Markup, **attributes: object) -> Markup:
        names = [f"{self.name}-title", f"{self.name}-about"]
        return element(
            "svg", element("title", self.title, id=names[0]), element("desc", self.about, id=names[1]), *before, joined(*self.parts),
            viewBox=f"0 0 {_n(self.width)} {_n(self.height)}", width=self.width, height=self.height,
            role="img", aria_labelledby=" ".join(names), **attributes,
        )  # fmt: skip


def _rectangles(spans: Iterable[tuple[float, float]], top: float, bottom: float) -> str:
    return "".join(f"M{_n(left)} {_n(top)}h{_n(right - left)}v{_n(bottom - top)}h-{_n(right - left)}z" for left, right in spans)


def _title(words: str | None) -> Markup | None:
    return None if words is None else element("title", words)
