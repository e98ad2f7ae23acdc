"""Metrics as text: Prometheus' own format, and OpenMetrics for those who ask for it.

Written here and not by a library: the two formats are a page each, and the library would have every process that starts import a web
server and keep a registry of its own beside our counts (docs/decisions/0033). Its parsers are what the tests read this text with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from duly.domain.metrics import Family, Kind, Sample

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_OPEN_MEDIA = "application/openmetrics-text"
_WEIGHT = re.compile(r"q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)")


def media_for(accept: str) -> str:
    """Which of the two formats an Accept header asks for: OpenMetrics if it is named and weighs no less than plain text."""
    weights: dict[str, float] = {}
    for part in accept.lower().split(","):
        media, *parameters = (word.strip() for word in part.split(";"))
        weight = next((float(match[1]) for word in parameters if (match := _WEIGHT.fullmatch(word))), 1.0)
        weights[media] = max(weight, weights.get(media, 0.0))
    wished = weights.get(_OPEN_MEDIA, 0.0)
    plain = max(weights.get(name, 0.0) for name in ("text/plain", "text/*"))
    return OPEN if wished > 0 and wished >= plain else PLAIN


def exposition(families: Iterable[Family], media: str = PLAIN) -> str:
    """The text of these families. Nothing to be said is no text in the plain format, and an end in the open one."""
    is_open = media == OPEN
    lines = [line for family in families for line in _family(family, is_open)]
    return "\n".join([*lines, "# EOF", ""] if is_open else [*lines, ""] if lines else [])


def _family(family: Family, is_open: bool) -> Iterator[str]:
    metric = family.metric
    total = f"{metric.name}_total" if metric.kind is Kind.COUNTER else metric.name
    # The family of a counter is named without its ending in the open format, and with it in the plain one.
    name = metric.name if is_open else total
    yield f"# HELP {name} {_escaped(metric.about)}"
    yield f"# TYPE {name} {metric.kind}"
    for sample in family.samples:
        pairs = [f'{label}="{_escaped(value, quoted=True)}"' for label, value in zip(metric.labels, sample.labels, strict=True)]
        if metric.kind is Kind.HISTOGRAM:
            yield from _histogram(metric.name, metric.bounds, pairs, sample)
        else:
            yield f"{total}{_braced(pairs)} {_number(sample.value)}"


def _histogram(name: str, bounds: Sequence[float], pairs: list[str], sample: Sample) -> Iterator[str]:
    for bound, count in zip((*map(_bound, bounds), "+Inf"), accumulate(sample.buckets), strict=True):
        series = [*pairs, f'le="{bound}"']
        yield f"{name}_bucket{_braced(series)} {count}"
    yield f"{name}_sum{_braced(pairs)} {_number(sample.value)}"
    yield f"{name}_count{_braced(pairs)} {sum(sample.buckets)}"


def _bound(bound: float) -> str:
    # Always with a point: in the open format 1 and 1.0 would be two series to whoever joins them.
    return repr(float(bound))


def _braced(pairs: Sequence[str]) -> str:
    return "{" + ",".join(pairs) + "}" if pairs else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _escaped(text: str, *, quoted: bool = False) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quoted else text
