"""The API's call for a backfill; see `calls`. By itself: its view knows schedules, and who lists runs does not wait for that."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from duly.domain.instants import from_datetime, to_rfc3339
from duly.sdk.calls import NO_PAYLOAD, Call, post
from duly.sdk.encoding import given
from duly.wire.backfill import BackfillView


def backfill(
    job_id: str,
    first: datetime,
    last: datetime,
    *,
    rerun: str = "none",
    dry_run: bool = False,
    rate_per_sec: float | None = None,
    max_concurrent: int | None = None,
    payload: Any = NO_PAYLOAD,
) -> Call[BackfillView]:
    """Run what a job's schedule named in a past range and what did not run then."""
    span = {"from": to_rfc3339(from_datetime(first)), "to": to_rfc3339(from_datetime(last))}
    body = given(ratePerSec=rate_per_sec, maxConcurrent=max_concurrent, payload=payload) | {"rerun": rerun, "dryRun": dry_run}
    return Call(post(f"/v1/jobs/{job_id}/backfill", span | body), BackfillView, dry_run)
