"""When something was broken, and by when a target must therefore have started."""

from __future__ import annotations

from bisect import bisect_left

from duly.verify.history import SECOND, History

# A calm start is at most this much later than a poll.
CALM = 2 * SECOND
# A clock that was set back by more than this shows the same times twice: what depends on times cannot be judged then.
BENT = 2 * SECOND


def set_back(history: History) -> int:
    """How far the store's clock was set back at most, if anything was done to it: as the faults say (`by`), or as its events show."""
    touched = [fault for fault in history.faults if fault.about.get("by", 0) < 0 or "clock" in fault.kind or "failover" in fault.kind]
    if not touched:
        return 0
    latest, most = 0, max(0, *(-int(fault.about.get("by", 0)) for fault in touched))
    for event in history.events:
        if event.at > latest:
            latest = event.at
        elif latest - event.at > most:
            most = latest - event.at
    return most


class Windows:
    """The faults, merged: two that are nearer to one another than the time to recover are one."""

    def __init__(self, history: History) -> None:
        timing = history.timing
        self.recovery = timing.recovery
        self.forgiveness = timing.forgiveness
        self.calm = int(history.about.get("epsilon", timing.poll + CALM))
        back = set_back(history)
        self.bent = back > BENT
        self.skew = int(history.about.get("skew", 0)) + timing.store_clock + (0 if self.bent else back)
        # While a node has not learnt of a step of the store's clock, its own is behind by that much.
        self._steps = [(fault.since, fault.until or history.ended_at, int(fault.about.get("by", 0))) for fault in history.faults]
        self._steps = [step for step in self._steps if step[2] > 0]
        # An open fault lasts to the end; that the history cannot be judged then is said elsewhere.
        spans = sorted(
            (fault.since, history.ended_at if fault.until is None else fault.until)
            for fault in history.faults
            if not fault.about.get("harmless")
        )
        self.spans: list[tuple[int, int]] = []
        for since, until in spans:
            if self.spans and since <= self.spans[-1][1] + self.recovery:
                self.spans[-1] = (self.spans[-1][0], max(self.spans[-1][1], until))
            else:
                self.spans.append((since, until))
        self._ends = [until + self.recovery for _, until in self.spans]

    def over(self, first: int, last: int) -> tuple[int, int] | None:
        """The faults that overlap [first, last], or whose recovery does; the last of them."""
        place = bisect_left(self._ends, first)
        found = None
        while place < len(self.spans) and self.spans[place][0] <= last:
            found = self.spans[place]
            place += 1
        return found

    def deadline(self, at: int) -> int:
        """By when what is due at `at` must have begun: soon when nothing is broken, else within the recovery after the last fault."""
        soon = at + self.calm
        span = self.over(at, soon)
        return (soon if span is None else max(soon, span[1] + self.recovery)) + self.forgiveness

    def behind(self, first: int, last: int) -> int:
        """By how much a node's clock may have been behind the store's between two instants."""
        return sum(by for since, until, by in self._steps if since <= last and first <= until)
