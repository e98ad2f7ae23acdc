"""The API's calls about reasons; see `calls`. By themselves: who lists runs does not wait for facts of every kind."""

from __future__ import annotations

from datetime import datetime

from duly.sdk.calls import Call, get, time_text
from duly.sdk.encoding import with_query
from duly.wire.why import WhyView


def why_execution(execution_id: str) -> Call[WhyView]:
    """Why an execution stands where it stands."""
    return get(f"/v1/executions/{execution_id}/why", WhyView)


def why_job(job_id: str, *, at: datetime | None = None) -> Call[WhyView]:
    """Why a job does not run now; with a time, why it did not run then, or will not."""
    return get(with_query(f"/v1/jobs/{job_id}/why", at=time_text(at)), WhyView)
