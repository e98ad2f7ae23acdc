"""The backend of `django.tasks`: what is enqueued in a transaction of Django's commits with it, or is never enqueued.

Where Duly's store is the database of the project, on PostgreSQL, both are one transaction. Elsewhere it is enqueued on commit.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from django.db import connections, transaction

from duly.adapters.system.clock import system_entropy
from duly.django.jobs import application, result_of, store_of
from duly.django.names import BaseTaskBackend, Task, TaskError, TaskResult, TaskResultDoesNotExist, TaskResultStatus, task_enqueued
from duly.domain.errors import Invalid, NotFound
from duly.domain.execution import Attempt, Execution
from duly.domain.ids import execution_text, new_id, parse_execution_id
from duly.domain.instants import from_datetime, to_datetime
from duly.domain.lifecycle import Outcome, State
from duly.sdk import task as sdk
from duly.usecases.executions import Wanted

_STATES = {
    State.RUNNING: "RUNNING",
    State.SUCCEEDED: "SUCCESSFUL",
    State.DEAD: "FAILED",
    State.CANCELLED: "FAILED",
    State.SKIPPED: "FAILED",
}


class Backend(BaseTaskBackend):
    """`TASKS = {"default": {"BACKEND": "duly.django.Backend", "OPTIONS": {"DATABASE": "default"}}}`."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        # Which database's transactions count.
        self._database = self.options.get("DATABASE", "default")
        self._is_one: bool | None = None

    def enqueue(self, task: Task, args: Any, kwargs: Any) -> TaskResult:
        """Enqueue it. In a transaction that is rolled back it never was; the id of the result is known at once."""
        self.validate_task(task)
        # As JSON, here: an argument that is none fails where it is given.
        args, kwargs = json.loads(json.dumps(list(args))), json.loads(json.dumps(dict(kwargs)))
        job = application().job_of(task)
        connection = connections[self._database]
        if connection.in_atomic_block and self._is_one_database():
            application().sync.wait(_publish(job))
            using = job.using(connection)
            run_after = task.run_after
            id = using.enqueue(args=args, kwargs=kwargs) if run_after is None else using.enqueue_at(run_after, args=args, kwargs=kwargs)
        else:
            run = new_id(from_datetime(datetime.now(UTC)), system_entropy)
            id = execution_text(run)
            transaction.on_commit(partial(_submit, job, run, json.dumps({"args": args, "kwargs": kwargs}), task.run_after), self._database)
        result = result_of(task, id, args, kwargs, TaskResultStatus.READY, enqueued_at=datetime.now(UTC))
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult:
        """How it stands. What is enqueued on a commit that is still to come does not exist yet."""
        try:
            execution, attempts = application().sync.wait(_look(result_id))
        except (Invalid, NotFound) as error:
            raise TaskResultDoesNotExist(result_id) from error
        task = application().task_of_job(execution.job_name)
        if task is None:
            raise TaskResultDoesNotExist(result_id)
        payload = json.loads(execution.payload or "{}")
        result = result_of(
            task,
            result_id,
            payload.get("args", []),
            payload.get("kwargs", {}),
            TaskResultStatus(_STATES.get(execution.state, "READY")),
            enqueued_at=to_datetime(execution.created_at),
            started_at=_moment(attempts[0].started_at if attempts else None),
            finished_at=_moment(execution.finished_at),
            last_attempted_at=_moment(attempts[-1].started_at if attempts else None),
        )
        result.worker_ids.extend(str(attempt.worker) for attempt in attempts)
        result.errors.extend(_error(attempt) for attempt in attempts if attempt.outcome not in (None, Outcome.SUCCEEDED))
        if execution.result is not None:
            object.__setattr__(result, "_return_value", json.loads(execution.result))
        return result

    def _is_one_database(self) -> bool:
        """Whether Duly's store is the database whose transaction this is."""
        if self._is_one is None:
            connection = connections[self._database]
            self._is_one = connection.vendor == "postgresql" and _same(store_of(application()), connection.get_connection_params())
        return self._is_one


def _same(store: str, params: dict[str, Any]) -> bool:
    url = urlsplit(store)
    here = (params.get("host") or "", str(params.get("port") or 5432), params.get("dbname") or params.get("database"))
    there = (url.hostname or "", str(url.port or 5432), url.path.lstrip("/"))
    return url.scheme in ("postgresql", "postgres") and here == there


async def _publish(job: sdk.Task[Any, Any]) -> None:
    """See to it that the store knows the job: what SQL enqueues goes by its name."""
    await application().known(job)


def _submit(job: sdk.Task[Any, Any], run: Any, payload: str, run_after: datetime | None) -> None:
    application().sync.wait(_submitted(job, run, payload, run_after))


async def _submitted(job: sdk.Task[Any, Any], run: Any, payload: str, run_after: datetime | None) -> None:
    app = application()
    connection = await app.connection()
    wanted = Wanted(payload=payload, run_at=None if run_after is None else from_datetime(run_after))
    [header] = await connection.executions.headers(await app.known(job), [wanted])
    await connection.executions.submit([header._replace(id=run)])


async def _look(id: str) -> tuple[Execution, list[Attempt]]:
    connection = await application().connection()
    run = parse_execution_id(id)
    execution = await connection.executions.show(connection.actor, run)
    return execution, await connection.executions.attempts(connection.actor, run)


def _error(attempt: Attempt) -> TaskError:
    told = json.loads(attempt.error or "{}")
    name = told.get("type") or (attempt.outcome.name if attempt.outcome is not None else "Exception")
    path = name if "." in name else f"builtins.{name}"
    return TaskError(exception_class_path=path, traceback=told.get("detail") or told.get("message") or "")


def _moment(at: int | None) -> datetime | None:
    return None if at is None else to_datetime(at)
