"""What a browser has chosen for itself: zone, theme and density, kept in its cookies, so that pages come as they are wanted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from urllib.parse import unquote

from duly.domain.zones import load_zone, zone_names

THEMES = ("system", "light", "dark", "contrast")
CLOCKS = ("mine", "job", "utc")
DENSITIES = ("cosy", "compact")


@dataclass(frozen=True, slots=True)
class Preferences:
    """`clock` says whose zone times are shown in; `zone` is the browser's own, None while it has not said."""

    clock: str = "mine"
    zone: str | None = None
    theme: str = "system"
    density: str = "cosy"

    def zone_name(self, job_zone: str | None = None) -> str:
        """The zone in which a time is shown, beside a job of that zone."""
        if self.clock == "utc" or (self.clock == "job" and job_zone is None):
            return "UTC"
        return (job_zone if self.clock == "job" else self.zone) or "UTC"

    def zone_for(self, job_zone: str | None = None) -> tzinfo:
        """The same, to compute with."""
        return load_zone(self.zone_name(job_zone))


def preferences_of(headers: Mapping[bytes, bytes]) -> Preferences:
    """What the cookies say. Whatever is not one of the choices is as if it were not there."""
    said = {
        name.strip(): unquote(value.strip())
        for name, _, value in (pair.partition("=") for pair in re.split("[;,]", headers.get(b"cookie", b"").decode("latin-1")))
    }
    zone = said.get("duly_zone")
    return Preferences(
        clock=_one_of(said.get("duly_clock"), CLOCKS),
        zone=zone if zone in zone_names() else None,
        theme=_one_of(said.get("duly_theme"), THEMES),
        density=_one_of(said.get("duly_density"), DENSITIES),
    )


def _one_of(said: str | None, choices: tuple[str, ...]) -> str:
    return said if said in choices else choices[0]
