"""How late runs started: the share that was not later, calm against faulty.

Both axes are stretched where it matters: delays by factors of ten, shares by nines, because the last per mille is what users feel.
"""

from __future__ import annotations

import math
from typing import Final

from duly.verify.pages.quantities import MILLISECOND, SECOND
from duly.verify.pages.svg import Figure, Mark, Plot, Scale, decade_marks
from duly.verify.report import Spread

_WIDTH, _HEIGHT = 660.0, 270.0
_SHARES: Final = ("0 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %")


def lateness(spreads: dict[str, Spread]) -> Figure | None:
    """Cumulative curves of `calm` (line) and `faulty` (dashes); None if there are no curves."""
    drawn = {name: spread for name, spread in spreads.items() if spread.curve}
    if not drawn:
        return None
    most = max(spread.most for spread in drawn.values())
    x = Scale(low=MILLISECOND, high=max(SECOND, 10 ** math.ceil(math.log10(max(most, 1)))), start=62, end=_WIDTH - 60, log=True)
    nines = math.log10(max(10, *(spread.count for spread in drawn.values())))
    plot = Plot(x=x, y=Scale(low=0, high=nines, start=_HEIGHT - 40, end=24))
    plot.y_axis(_share_marks(nines), title="share of starts that were at most this late")
    plot.x_axis(decade_marks(x.low, x.high), title="start after target")
    for n, (name, spread) in enumerate(drawn.items()):
        tone = ("c1", "c2")[n % 2]
        points = [(float(value), _nines(rank, spread.count)) for value, rank in spread.curve]
        plot.line([(x.low, 0.0), *points], tone=tone, steps=True, dashed=n % 2 == 1, title=name)
        plot.text(plot.x(points[-1][0]) + 6, plot.y(points[-1][1]) + 4, name, kind=f"label {tone}")
    about = "; ".join(f"{name}: {spread.count} starts" for name, spread in drawn.items())
    figure = Figure(
        "lateness", "How late runs started", f"{about}. Delays on a logarithmic axis; what is below 1 ms stands at 1 ms.", _WIDTH, _HEIGHT
    )
    figure.put(plot)
    return figure


def _nines(rank: int, total: int) -> float:
    """The first of a thousand stands at 0, the last one at three nines."""
    return math.log10(total / (total - rank + 1))


def _share_marks(nines: float) -> list[Mark]:
    marks: list[Mark] = [(float(n), words) for n, words in enumerate(_SHARES) if n <= nines]
    return [*marks, (math.log10(2), "50 %")]
