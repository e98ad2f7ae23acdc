"""Fires that were computed once: what a schedule does follows from it alone, and people look at the same week again and again."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from duly.domain.instants import Instant
from duly.domain.schedule import Schedule, next_fire

# So many instants and tracks are kept, some ten megabytes; then all of them are forgotten.
MOST_KEPT = 250_000


@dataclass(slots=True)
class Track:
    """The fires of a schedule after an instant, without a gap, as far as somebody has asked."""

    after: Instant
    fires: list[Instant] = field(default_factory=list)

    def reaches(self, at: Instant) -> bool:
        """Whether it is known what lies between its beginning and this instant. Of one that nobody has walked, nothing is."""
        return self.after == at or bool(self.fires and self.after <= at <= self.fires[-1])


class Foreseen:
    """Fires of schedules, by their values: two jobs with the same schedule share them."""

    def __init__(self) -> None:
        self._tracks: dict[Schedule, Track] = {}
        self._kept = 0

    def between(self, schedule: Schedule, first: Instant, until: Instant, most: int) -> list[Instant]:
        """The fires from `first` on and before `until`, in order, at most so many. Both may be fires."""
        track, place = self.track(schedule, first - 1)
        fires = track.fires
        while (not fires or fires[-1] < until) and len(fires) - place < most:
            if self.following(schedule, track, len(fires)) is None:
                break
        return fires[place : min(place + most, bisect_left(fires, until))]

    def track(self, schedule: Schedule, after: Instant) -> tuple[Track, int]:
        """A track of the schedule, and where in it the fires strictly after an instant begin."""
        if self._kept > MOST_KEPT:
            # Whoever walks along one of them just now keeps it.
            self._tracks.clear()
            self._kept = 0
        known = self._tracks.get(schedule)
        if known is None or not known.reaches(after):
            known = self._tracks[schedule] = Track(after)
            self._kept += 1
        return known, bisect_right(known.fires, after)

    def following(self, schedule: Schedule, track: Track, place: int) -> Instant | None:
        """The fire at a place of its track, computed when nobody has asked for it before; None when there is none."""
        if place < len(track.fires):
            return track.fires[place]
        found = next_fire(schedule, track.fires[-1] if track.fires else track.after)
        if found is not None:
            track.fires.append(found)
            self._kept += 1
        return found
