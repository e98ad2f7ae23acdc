"""Schedules of Django's tasks.

@schedule("every 15 minutes", jitter="2m")
@task(queue_name="reports")
def refresh_totals(shop_id: int = 1) -> int: ...
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from duly.django.names import Task
from duly.domain.errors import Invalid

_EVERY = re.compile(r"every\s+(?:(\d+)\s*)?(second|minute|hour|day|week|s|m|h|d|w)s?", re.IGNORECASE)
# What `@app.job` takes, by the path of the task's function.
SCHEDULES: dict[str, dict[str, Any]] = {}


def schedule(when: str | None = None, **options: Any) -> Callable[[Task], Task]:
    """Fire a task: `schedule("every 15 minutes")`, `schedule("every day at 02:30", tz="Europe/Berlin")`, an option of `@app.job`.

    The task is fired without arguments, so each has to have a default. It is still a task, to be enqueued whenever you like.
    """
    given = {**options, **({} if when is None else timing_of(when, has_zone=options.get("tz") is not None))}

    def keep(task: Task) -> Task:
        if not isinstance(task, Task):
            hint = "Write @schedule above @task: the task is what it fires."
            raise Invalid("DULY-E118", f"{getattr(task, '__name__', task)!r} is no task.", field="schedule", hint=hint)
        SCHEDULES[task.module_path] = given
        return task

    return keep


def timing_of(when: str, *, has_zone: bool) -> dict[str, str]:
    """The option that these words are: an interval, or a cron expression. A zone goes with wall clocks only."""
    every = None if has_zone else _EVERY.fullmatch(when.strip())
    return {"cron": when} if every is None else {"every": f"{every[1] or 1}{every[2][0].lower()}"}
