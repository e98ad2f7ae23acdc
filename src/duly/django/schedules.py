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
    """Fire a task by a schedule: `schedule("every 15 minutes")`, `schedule("30 2 * * *", tz="Europe/Berlin")`, or any option of `@app.job`.

    The task is fired without arguments, so each has to have a default. It is still a task, to be enqueued whenever you like.
    """
    given = dict(options)
    if when is not None:
        every = _EVERY.fullmatch(when.strip())
        given |= {"cron": when} if every is None else {"every": f"{every[1] or 1}{every[2][0].lower()}"}

    def keep(task: Task) -> Task:
        if not isinstance(task, Task):
            hint = "Write @schedule above @task: the task is what it fires."
            raise Invalid("DULY-E118", f"{getattr(task, '__name__', task)!r} is no task.", field="schedule", hint=hint)
        SCHEDULES[task.module_path] = given
        return task

    return keep
