"""The picture of a run: a few stacked panels over time, the pinned span as a band. Plain SVG, nothing to install."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

Points = Sequence[tuple[float, float]]
Span = tuple[float, float]

WIDTH, PANEL, LEFT, RIGHT, TOP, GAP = 960, 150, 86, 150, 44, 34
COLOURS = ("#1b6ca8", "#c1440e", "#3a7d44", "#7d3c98", "#b8860b", "#444444")
STYLE = "text{font:12px sans-serif;fill:#222}.small{font-size:11px;fill:#555}.title{font-weight:bold}"


@dataclass(frozen=True, slots=True)
class Panel:
    """One quantity: its lines by name, its unit, and a bar to stay under if there is one."""

    title: str
    unit: str
    lines: dict[str, Points]
    bar: float | None = None


def draw(title: str, panels: Sequence[Panel], seconds: float, bands: dict[str, Span]) -> str:
    """The whole picture as SVG."""
    height = TOP + len(panels) * (PANEL + GAP) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">',
        f'<style>{STYLE}</style><rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{LEFT}" y="20" class="title">{escape(title)}</text>',
    ]
    for nth, panel in enumerate(panels):
        parts += _panel(panel, TOP + nth * (PANEL + GAP), seconds, bands, last=nth == len(panels) - 1)
    return "\n".join([*parts, "</svg>\n"])


def _panel(panel: Panel, top: float, seconds: float, bands: dict[str, Span], *, last: bool) -> list[str]:
    values = [value for points in panel.lines.values() for _, value in points]
    most = _round_up(max([*values, 1e-9]) * 1.05)
    wide = WIDTH - LEFT - RIGHT

    def x(at: float) -> float:
        return LEFT + wide * min(at / seconds, 1.0)

    def y(value: float) -> float:
        return top + PANEL * (1 - min(value / most, 1.0))

    parts = [f'<text x="{LEFT}" y="{top - 6}" class="small">{escape(panel.title)}, {escape(panel.unit)}</text>']
    for name, (begin, end) in bands.items():
        parts.append(f'<rect x="{x(begin):.1f}" y="{top}" width="{x(end) - x(begin):.1f}" height="{PANEL}" fill="#f3d9a4" opacity="0.45"/>')
        parts.append(f'<text x="{x(begin) + 3:.1f}" y="{top + 12}" class="small">{escape(name)}</text>')
    parts.append(f'<rect x="{LEFT}" y="{top}" width="{wide}" height="{PANEL}" fill="none" stroke="#999"/>')
    for share in (0.0, 0.5, 1.0):
        parts.append(f'<text x="{LEFT - 6}" y="{y(most * share) + 4:.1f}" text-anchor="end" class="small">{_figure(most * share)}</text>')
    if panel.bar is not None and panel.bar <= most:
        parts.append(
            f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{y(panel.bar):.1f}" y2="{y(panel.bar):.1f}" stroke="#b00" stroke-dasharray="5 4"/>'
        )
    for nth, (name, points) in enumerate(panel.lines.items()):
        colour = COLOURS[nth % len(COLOURS)]
        path = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.3"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 8}" y="{top + 14 + 16 * nth}" style="fill:{colour}">{escape(name)}</text>')
    if last:
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            at = seconds * share
            parts.append(f'<text x="{x(at):.1f}" y="{top + PANEL + 16}" text-anchor="middle" class="small">{_minutes(at)}</text>')
    return parts


def _round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50 …"""
    step = 10.0 ** len(str(int(value))) / 10 if value >= 1 else 0.01
    while True:
        for factor in (1, 2, 5):
            if step * factor >= value:
                return step * factor
        step *= 10


def _figure(value: float) -> str:
    return f"{value / 1_000_000:g} M" if value >= 1_000_000 else f"{value / 1000:g} k" if value >= 10_000 else f"{value:g}"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"
