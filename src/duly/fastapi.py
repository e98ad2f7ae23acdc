"""Duly in FastAPI and Starlette.

    api = FastAPI(lifespan=app.lifespan(worker=True))
    add_problems(api)
    Jobs = Annotated[InTransaction, Depends(jobs_in(get_session))]

    @api.post("/signup")
    async def sign_up(user: NewUser, session: Session, jobs: Jobs) -> None:
        session.add(User(…))
        await jobs.enqueue(send_welcome, user_id=7)       # both commit, or neither does
        await session.commit()

    api.mount("/duly", app.dashboard(auth=staff))         # who is no visitor of yours logs in as ever

Nothing here needs FastAPI itself: a dependency is a function, and a handler of exceptions is Starlette's.
"""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from duly.domain.access import Visitor
from duly.domain.errors import DulyError
from duly.http.problems import MEDIA_TYPE, problem_of
from duly.sdk.task import Task

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

__all__ = ["InTransaction", "Visitor", "add_problems", "jobs_in"]


class InTransaction:
    """Enqueues in the transaction of a session or a connection of yours, on PostgreSQL: see `Task.using`.

    What it answers is awaited if the library is async, and the execution's id itself if it is not.
    """

    def __init__(self, session: Any) -> None:
        self._session = session

    def enqueue(self, job: Task[Any, Any], *args: Any, **kwargs: Any) -> Any:
        """Run it as soon as the transaction has committed."""
        return job.using(self._session).enqueue(*args, **kwargs)

    def enqueue_in(self, job: Task[Any, Any], delay: str | float | timedelta, *args: Any, **kwargs: Any) -> Any:
        """Run it after a delay such as "5m"."""
        return job.using(self._session).enqueue_in(delay, *args, **kwargs)

    def enqueue_at(self, job: Task[Any, Any], when: datetime, *args: Any, **kwargs: Any) -> Any:
        """Run it at a time, which needs a zone."""
        return job.using(self._session).enqueue_at(when, *args, **kwargs)


def jobs_in(session: Callable[..., Any]) -> Callable[..., InTransaction]:
    """A dependency that enqueues in the transaction of another one: `Depends(jobs_in(get_session))`.

    Within a request FastAPI makes a dependency once, so it is the session that the endpoint has.
    """
    from fastapi import Depends

    def jobs(given: Any = Depends(session)) -> InTransaction:  # noqa: B008
        return InTransaction(given)

    jobs.__signature__ = inspect.signature(jobs)  # type: ignore[attr-defined]
    return jobs


def add_problems(api: Starlette) -> None:
    """Answer an error of Duly's as its own API does: a problem document with the code, the status that goes with it, and Retry-After."""
    api.add_exception_handler(DulyError, _answer)


async def _answer(request: Request, error: Exception) -> Response:
    assert isinstance(error, DulyError)
    status, problem, headers = problem_of(error, request.headers.get("x-request-id") or secrets.token_hex(8))
    shown = {name.decode(): value.decode() for name, value in headers}
    return Response(msgspec.json.encode(problem), status, shown, MEDIA_TYPE.decode())
