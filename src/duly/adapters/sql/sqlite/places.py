"""What several state changes share: passing a job's place on, and saying who cancelled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from duly.adapters.sql.engine import Action, Call, one
from duly.adapters.sql.rows import encode


def pass_on(job_ids: Iterable[Any]) -> Action[None]:
    """The oldest waiter of each job takes its free place and becomes ready."""
    for job_id in job_ids:
        waiter = one((yield Call("next_waiter", {"job_id": job_id})))
        if waiter is None or not (yield Call("take_place", {"job_id": job_id, "id": waiter["id"]})):
            continue
        yield Call("drop_waits", {"id": waiter["id"]})
        yield Call("drop_blocked", {"id": waiter["id"]})
        yield Call("make_ready", dict(waiter) | {"failures": 0})


def cancelled_by(id: Any) -> Action[str]:
    """The error of a cancelled execution. The wish goes once it is settled; who wished it stays with the outcome."""
    row = one((yield Call("why_wish", {"id": id})))
    return encode({"reason": "cancelled", "by": None if row is None else row["asked_by"]})
