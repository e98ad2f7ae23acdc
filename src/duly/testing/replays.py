"""A run of production as a file: what `duly run show --json` prints and `GET /v1/executions/{id}` answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from duly.domain.errors import Invalid
from duly.domain.instants import Instant, from_rfc3339
from duly.domain.secrets import MASK

LARGEST_FILE = 16 << 20


@dataclass(frozen=True, slots=True)
class ProductionRun:
    """What is needed to run it again."""

    job: str
    payload: Any
    scheduled_at: Instant


def read_run(source: str | Path | dict[str, Any], arguments: dict[str, Any]) -> ProductionRun:
    """Read it. Raises Invalid (DULY-E106) for what is no run, and for one whose payload has secrets that `arguments` does not give."""
    shown = _decoded(source)
    try:
        job, at, payload = shown["jobName"], from_rfc3339(shown["scheduledAt"]), shown.get("payload")
    except (KeyError, TypeError, ValueError) as error:
        hint = "Save one with `duly run show RUN --json > run.json`."
        raise Invalid("DULY-E106", f"that is no run: {error!r}.", field="replay", hint=hint) from error
    if arguments:
        payload = {**(payload or {}), **arguments}
    if (masked := _masked(payload, "payload")) is not None:
        hint = "Secrets are not shown: give this argument to replay() yourself."
        raise Invalid("DULY-E106", f"{masked} is masked.", field="replay", hint=hint)
    return ProductionRun(job, payload, at)


def _decoded(source: str | Path | dict[str, Any]) -> Any:
    if isinstance(source, dict):
        return source
    path = Path(source)
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise Invalid("DULY-E106", f"{path} is larger than {LARGEST_FILE:,} bytes.", field="replay")
        return msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise Invalid("DULY-E106", f"{path} cannot be read: {error.strerror}.", field="replay") from error
    except msgspec.DecodeError as error:
        raise Invalid("DULY-E106", f"{path} is not JSON: {error}.", field="replay") from error


def _masked(value: Any, where: str) -> str | None:
    """Where a masked value stands, if there is one."""
    if value == MASK:
        return where
    if isinstance(value, dict):
        return next((found for key, item in value.items() if (found := _masked(item, f"{where}.{key}")) is not None), None)
    if isinstance(value, list):
        return next((found for nth, item in enumerate(value) if (found := _masked(item, f"{where}[{nth}]")) is not None), None)
    return None
