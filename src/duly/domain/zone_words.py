"""Zones as people say them."""

from __future__ import annotations

_UTC_NAMES = frozenset(["UTC", "Etc/UTC", "UCT", "Etc/UCT", "Universal", "Etc/Universal", "Zulu", "Etc/Zulu"])
_REGIONS = frozenset(["Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific"])


def zone_in_words(zone: str) -> str:
    """A zone as people say it: "New York time", "UTC", "US Pacific time"."""
    if zone in _UTC_NAMES:
        return "UTC"
    region, _, rest = zone.partition("/")
    if region == "Etc" or not rest:
        return f"{zone} time"
    if region not in _REGIONS:
        return f"{zone.replace('/', ' ').replace('_', ' ')} time"
    return f"{rest.rsplit('/', 1)[-1].replace('_', ' ')} time"
