"""What may be asked of workers that others run."""

from __future__ import annotations

from duly.sdk.calls import Call, post
from duly.wire.workers import DrainShape, DrainView


def drain_worker(worker_id: str) -> Call[DrainView]:
    """It takes no more work; what it has goes on. For workers that work through the API."""
    return Call(post(f"/v1/workers/{worker_id}/drain", DrainShape()), DrainView)
