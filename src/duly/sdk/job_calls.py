"""Calls about jobs that few callers need: many at once, their versions, and their runs side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duly.sdk.calls import JSON, Call, Request
from duly.sdk.encoding import encoded
from duly.wire.grid import GridView
from duly.wire.jobs import JobView
from duly.wire.shapes import Page


def create_jobs(jobs: Sequence[Mapping[str, Any]], *, idempotency_key: str) -> Call[Page[JobView]]:
    """Create many in one transaction: all of them, or none."""
    request = Request("POST", "/v1/jobs:batch", encoded({"jobs": list(jobs)}), JSON | {"Idempotency-Key": idempotency_key})
    return Call(request, Page[JobView], True)


def list_versions(job_id: str) -> Call[Page[JobView]]:
    """A job as each of its newest versions had it, newest first."""
    return Call(Request("GET", f"/v1/jobs/{job_id}/versions"), Page[JobView], True)


def show_grid(job_id: str, runs: int) -> Call[GridView]:
    """A job's newest runs side by side, with how their steps or attempts went."""
    return Call(Request("GET", f"/v1/jobs/{job_id}/grid?runs={runs}"), GridView, True)
