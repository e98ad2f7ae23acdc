"""The picture of a run: a few stacked panels over time, the pinned span as a band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from duly.verify.pages.svg import TONES, Figure, Mark, Plot, Scale, number_marks

Points = Sequence[tuple[float, float]]
Span = tuple[float, float]

WIDTH, PANEL, LEFT, RIGHT, TOP, GAP = 960.0, 150.0, 66.0, 150.0, 44.0, 36.0


@dataclass(frozen=True, slots=True)
class Panel:
    """One quantity: its lines by name, its unit, and a bar to stay under if there is one."""

    title: str
    unit: str
    lines: dict[str, Points]
    bar: float | None = None


def draw(title: str, panels: Sequence[Panel], seconds: float, bands: dict[str, Span]) -> str:
    """The whole picture as SVG."""
    about = "; ".join(f"{panel.title} in {panel.unit}: {', '.join(panel.lines)}" for panel in panels)
    figure = Figure("soak", title, about, WIDTH, TOP + len(panels) * (PANEL + GAP) + 8)
    for nth, panel in enumerate(panels):
        figure.put(_drawn(panel, TOP + nth * (PANEL + GAP), seconds, bands))
    heading = Plot(x=Scale(low=0, high=1, start=0, end=1), y=Scale(low=0, high=1, start=0, end=1))
    heading.text(LEFT, 18, title, kind="name")
    figure.put(heading)
    return figure.file()


def _drawn(panel: Panel, top: float, seconds: float, bands: dict[str, Span]) -> Plot:
    values = [value for points in panel.lines.values() for _, value in points]
    marks = number_marks(0, max([*values, 1e-9]) * 1.05, 3)
    most = max(marks[-1][0], *values, 1e-9)
    x = Scale(low=0, high=max(seconds, 1e-9), start=LEFT, end=WIDTH - RIGHT)
    plot = Plot(x=x, y=Scale(low=0, high=most, start=top + PANEL, end=top))
    for name, span in bands.items():
        plot.bands([span], tone="c2", title=name)
        plot.text(plot.x(span[0]) + 4, top + 12, name)
    plot.y_axis(marks, title=f"{panel.title}, {panel.unit}")
    plot.x_axis(_elapsed(seconds))
    if panel.bar is not None and panel.bar <= most:
        plot.line([(0, panel.bar), (seconds, panel.bar)], tone="loud", dashed=True, title="the bar")
    for nth, (name, points) in enumerate(panel.lines.items()):
        tone = TONES[nth % len(TONES)]
        plot.line(points, tone=tone, title=name)
        plot.text(WIDTH - RIGHT + 8, top + 12 + 16 * nth, name, kind=f"label {tone}")
    return plot


def _elapsed(seconds: float) -> list[Mark]:
    unit, name = (60, "min") if seconds >= 120 else (1, "s")
    return [(value * unit, f"{words} {name}") for value, words in number_marks(0, seconds / unit, 6)]
