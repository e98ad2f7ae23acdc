"""Short words for jobs on a node whose roles run."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec

from duly.compose import Node
from duly.domain.access import Actor, Role
from duly.domain.job import Job
from duly.domain.lifecycle import State
from duly.ports.store import ExecutionFilter
from duly.wire.jobs import JobShape

ACTOR = Actor(1, "default", Role.ADMIN, "test")


async def echo_job(node: Node, name: str, **shape: Any) -> Job:
    """A job that every worker can run."""
    body = {"name": name, "target": {"handler": "duly.echo"}} | shape
    return (await node.jobs.create(ACTOR, [msgspec.json.decode(msgspec.json.encode(body), type=JobShape)]))[0]


async def ended(node: Node, job: Job, count: int, timeout: float = 60.0) -> Counter[State]:
    """How executions of the job have ended, once so many have."""
    async with asyncio.timeout(timeout):
        while True:
            found = await node.store.insights.executions(ExecutionFilter(1, job_id=job.id, limit=1000))
            states = Counter(one.state for one in found if one.state in (State.SUCCEEDED, State.DEAD))
            if states.total() >= count:
                return states
            await asyncio.sleep(0.05)
