"""The API's calls on runs of workflows, without any input or output: see `calls`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duly.sdk.calls import JSON, NO_PAYLOAD, Call, Request
from duly.sdk.encoding import encoded, given
from duly.wire.executions import EnqueuedView
from duly.wire.workflows import StepsView


def show_steps(run_id: str) -> Call[StepsView]:
    """A run with its steps."""
    return Call(Request("GET", f"/v1/executions/{run_id}/steps"), StepsView, True)


def approve(run_id: str, *, step: str | None = None, reason: str | None = None) -> Call[StepsView]:
    """Say yes to a step that waits for an approval."""
    return _post(run_id, "approve", {"step": step, "reason": reason})


def reject(run_id: str, *, step: str | None = None, reason: str | None = None) -> Call[StepsView]:
    """Say no."""
    return _post(run_id, "reject", {"step": step, "reason": reason})


def signal(run_id: str, name: str, *, payload: Any = NO_PAYLOAD) -> Call[StepsView]:
    """Tell a run something from outside."""
    return _post(run_id, "signal", {"name": name} | given(payload=payload))


def pause(run_id: str) -> Call[StepsView]:
    """Begin no step until it is resumed."""
    return _post(run_id, "pause", {})


def resume(run_id: str) -> Call[StepsView]:
    """Go on."""
    return _post(run_id, "resume", {})


def rerun(run_id: str, *, from_steps: Sequence[str] = ()) -> Call[EnqueuedView]:
    """Do a run again: from these steps on, or what failed."""
    return Call(Request("POST", f"/v1/executions/{run_id}/rerun", encoded({"fromSteps": list(from_steps)}), JSON), EnqueuedView)


def _post(run_id: str, verb: str, body: dict[str, Any]) -> Call[StepsView]:
    return Call(Request("POST", f"/v1/executions/{run_id}/{verb}", encoded(body), JSON), StepsView)
