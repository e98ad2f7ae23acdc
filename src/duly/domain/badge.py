"""A badge: how a job is, in a small picture that a page of somebody else's can show."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from html import escape

from duly.domain.alerts.facts import Run
from duly.domain.alerts.judge import WAITING, ended
from duly.domain.instants import MINUTE, Instant, Micros
from duly.domain.lifecycle import State

LATE_AFTER: Micros = 5 * MINUTE
LONGEST_NAME = 40
_WIDTH = 7  # of a letter, about


class Standing(StrEnum):
    """What a badge says."""

    UP = "up"
    LATE = "late"
    DOWN = "down"
    PAUSED = "paused"
    UNKNOWN = "no runs"


# Blue, orange and red-brown can be told apart by those who see colours differently; the word says it to everybody.
_COLOURS = {
    Standing.UP: "#1f6fb2",
    Standing.LATE: "#a35200",
    Standing.DOWN: "#a8201a",
    Standing.PAUSED: "#5b6470",
    Standing.UNKNOWN: "#5b6470",
}


def standing_of(runs: Sequence[Run], *, is_stopped: bool, now: Instant) -> Standing:
    """How the job is: by its last end, and by what waits."""
    if is_stopped:
        return Standing.PAUSED
    if any(run.state in WAITING and run.started_at is None and now - run.due_at > LATE_AFTER for run in runs):
        return Standing.LATE
    ends = ended(runs)
    if not ends:
        return Standing.UNKNOWN
    return Standing.UP if ends[0].state is State.SUCCEEDED else Standing.DOWN


def badge(name: str, standing: Standing) -> str:
    """The picture, as SVG. Nothing in it runs, and nothing is fetched."""
    shown = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
    left, right = 12 + _WIDTH * len(shown), 12 + _WIDTH * len(standing.value)
    title = escape(f"{shown}: {standing.value}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" aria-label="{title}"><title>{title}</title>'
        f'<rect width="{left}" height="20" fill="#3a3f47"/><rect x="{left}" width="{right}" height="20" fill="{_COLOURS[standing]}"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{left / 2:g}" y="14">{escape(shown)}</text>'
        f'<text x="{left + right / 2:g}" y="14">{escape(standing.value)}</text></g></svg>'
    )
