"""Django's tasks as jobs: an application that declares every task of the installed apps, for workers and for whoever enqueues.

`duly worker duly.django.jobs:app` runs them; `manage.py duly worker` is the same.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import django
from django.apps import apps
from django.conf import settings
from django.db import close_old_connections
from django.utils.module_loading import autodiscover_modules

from duly import config
from duly.compose import App
from duly.django.names import Task, TaskContext, TaskError, TaskResult, TaskResultStatus, task_finished, task_started
from duly.django.schedules import SCHEDULES
from duly.sdk import task as sdk
from duly.sdk.context import Context

_LEVELS = ((50, "critical"), (1, "high"), (0, "normal"))


def level_of(priority: int) -> str:
    """Django's number from -100 to 100 as one of Duly's four words."""
    return next((word for least, word in _LEVELS if priority >= least), "low")


class DjangoApp(App):
    """The tasks of a Django project. Each is a job with the name of its function's path; on another queue or with another priority than it
    was declared with, it is a job beside that, run by the same handler."""

    def __init__(self, name: str, *, store: str | None = None, retry: int = 3) -> None:
        super().__init__(name, store=store)
        self._retry = retry
        self._declared: dict[str, Task] = {}
        self._lock = threading.Lock()

    def discover(self) -> None:
        """Import `tasks` of every installed app, and declare what is in it."""
        autodiscover_modules("tasks")
        for path in [f"{found.name}.tasks" for found in apps.get_app_configs()]:
            for task in _tasks_in(path):
                self.job_of(task)

    def task_of_job(self, name: str) -> Task | None:
        """The task behind a job's name."""
        return self._declared.get(name.partition("@")[0])

    def job_of(self, task: Task) -> sdk.Task[Any, Any]:
        """The job of a task; declared here when it is not yet."""
        path = task.module_path
        with self._lock:
            first = self._declared.setdefault(path, task)
            name = path if _way(task) == _way(first) else f"{path}@{task.queue_name}.{level_of(task.priority)}"
            if name not in self.tasks:
                options = {"name": name, "pool": task.queue_name, "priority": level_of(task.priority), "retry": self._retry}
                options |= SCHEDULES.get(path, {}) if name == path else {}
                made = self.job(**options)(_handler_of(first))
                made.spec = replace(made.spec, target=replace(made.spec.target, handler=path))
            return self.tasks[name]


def _way(task: Task) -> tuple[str, str]:
    return task.queue_name, level_of(task.priority)


def _tasks_in(path: str) -> list[Task]:
    module = sys.modules.get(path)
    return [] if module is None else [value for value in vars(module).values() if isinstance(value, Task) and value.func.__module__ == path]


def _handler_of(task: Task) -> Callable[..., Any]:
    function: Any = task.func

    async def run_async(ctx: Context, args: list[Any] = [], kwargs: dict[str, Any] = {}) -> Any:  # noqa: B006
        with _told(task, ctx, args, kwargs) as (given, end):
            return end(await function(*given, **kwargs))

    def run(ctx: Context, args: list[Any] = [], kwargs: dict[str, Any] = {}) -> Any:  # noqa: B006
        close_old_connections()
        try:
            with _told(task, ctx, args, kwargs) as (given, end):
                return end(function(*given, **kwargs))
        finally:
            close_old_connections()

    chosen: Callable[..., Any] = run_async if inspect.iscoroutinefunction(function) else run
    chosen.__doc__ = function.__doc__
    chosen.__name__ = function.__name__
    return chosen


@contextmanager
def _told(task: Task, ctx: Context, args: list[Any], kwargs: dict[str, Any]) -> Iterator[tuple[list[Any], Callable[[Any], Any]]]:
    """Django's signals around an attempt, and its context before the arguments if the task takes one."""
    result = result_of(task, ctx.run_id, args, kwargs, TaskResultStatus.RUNNING, enqueued_at=ctx.due_at, started_at=ctx.started_at)
    result.worker_ids.extend([""] * ctx.attempt)
    sender = type(task.get_backend())
    task_started.send(sender=sender, task_result=result)

    def end(value: Any) -> Any:
        object.__setattr__(result, "_return_value", value)
        object.__setattr__(result, "status", TaskResultStatus.SUCCESSFUL)
        return value

    try:
        yield ([TaskContext(task_result=result), *args] if task.takes_context else list(args)), end
    except BaseException as error:
        kind = type(error)
        result.errors.append(TaskError(exception_class_path=f"{kind.__module__}.{kind.__qualname__}", traceback=""))
        object.__setattr__(result, "status", TaskResultStatus.FAILED)
        raise
    finally:
        object.__setattr__(result, "finished_at", datetime.now(UTC))
        task_finished.send(sender=sender, task_result=result)


def result_of(task: Task, id: str, args: list[Any], kwargs: dict[str, Any], status: Any, **times: Any) -> TaskResult:
    """A result of Django's."""
    known = {"enqueued_at": None, "started_at": None, "finished_at": None, "last_attempted_at": times.get("started_at")} | times
    return TaskResult(
        task=task, id=id, args=list(args), kwargs=dict(kwargs), status=status, backend=task.backend, errors=[], worker_ids=[], **known
    )


@cache
def application() -> DjangoApp:
    """The application of this project. `DULY_APP`, `DULY_STORE` and `DULY_RETRY` in its settings say more about it."""
    if not apps.ready:
        django.setup()
    name = getattr(settings, "DULY_APP", None) or (getattr(settings, "ROOT_URLCONF", None) or "django").partition(".")[0]
    made = DjangoApp(name, store=getattr(settings, "DULY_STORE", None), retry=getattr(settings, "DULY_RETRY", 3))
    made.discover()
    return made


def store_of(app: App) -> str:
    """The URL of the store that an application reaches."""
    return config.load(store=app.store).store


def __getattr__(name: str) -> Any:
    if name == "app":
        return application()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
