"""The application: declares jobs and reaches the store. Nothing is global; a process may have several."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from duly.domain.calendars import Calendar
from duly.domain.errors import Conflict, Invalid
from duly.domain.ids import execution_text, new_id
from duly.domain.instants import Instant, Micros
from duly.domain.job import NAME, Job, check_spec, schedule_of
from duly.domain.lifecycle import JobState
from duly.ports.handlers import PythonCall
from duly.ports.traces import carrying
from duly.sdk.alerts import DeclaresAlerts, publish_alerts
from duly.sdk.blocking import BlockingApp
from duly.sdk.calendars import HolidayLike, WindowLike, declared_calendar
from duly.sdk.checks import kind_checked
from duly.sdk.connection import Connection, Link, connected, connection_of
from duly.sdk.declaring import JobOptions, checked_options, spec_of
from duly.sdk.task import Task, kind_of
from duly.sdk.tracing import current_traceparent
from duly.sdk.workflow import Workflow
from duly.usecases.wanted import Wanted

P = ParamSpec("P")
R = TypeVar("R")

# Why a job is paused that its application no longer declares. A pause for exactly this reason is ours to end.
ARCHIVED = "archived: no longer declared in the code"


class App(DeclaresAlerts):
    """Jobs declared in code. `connect` is supplied where the parts are put together (`duly.App`).

    The name says whose jobs are whose on a store: publishing archives what an application of the same name no longer declares, and leaves
    alone what another application declares. One that has got another name says which it had (`formerly`) and takes its jobs over.
    """

    def __init__(self, name: str, *, store: str | None = None, formerly: str | None = None) -> None:
        hint = "1 to 128 letters, digits and . _ : / @ -, starting with a letter or digit."
        kind_checked(name, (str,), "name", "the name of an application", hint)
        if not NAME.match(name):
            raise Invalid("DULY-E118", f"{name[:40]!r} is not the name of an application.", field="name", hint=hint)
        self.name = name
        self.formerly = formerly
        self.store = store
        # Whether payloads are encrypted before they are stored.
        self.is_sealed = False
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.workflows: dict[str, Workflow] = {}
        self.calendars: dict[str, Calendar] = {}
        self._links: dict[asyncio.AbstractEventLoop, Link] = {}
        self._blocking = BlockingApp(self)
        self._lent: Callable[[], Coroutine[Any, Any, Connection]] | None = None

    async def connect(self) -> Connection:
        """Open the store."""
        raise NotImplementedError

    # ------------------------------------------------------------ declaring

    @overload
    def job(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def job(self, **options: Unpack[JobOptions]) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def job(self, *functions: Callable[..., Any], **options: Any) -> Any:
        """Declare a job: `@app.job` for one that is only enqueued, `@app.job(cron=…)` and so on for one that fires.

        A wrong declaration raises Invalid here, at import, and says what to change.
        """
        if functions:
            return self._declare(functions[0], {})
        return lambda function: self._declare(function, options)

    def _declare(self, function: Callable[..., Any], options: dict[str, Any]) -> Task[Any, Any]:
        given = options.get("name")
        name = given if given and isinstance(given, str) else function.__name__
        task = self.task_of(function, name, options)
        self._take_name(name)
        self.tasks[name] = task
        return task

    def task_of(self, function: Callable[..., Any], name: str, options: dict[str, Any]) -> Task[Any, Any]:
        """A function with its options, checked, and declared by nobody yet."""
        try:
            options = checked_options(options)
            spec = spec_of(_source(self.name), function, name, options)
            check_spec(spec)
            schedule_of(spec.timing, new_id(0, lambda bits: 0))
            task: Task[Any, Any] = Task(self, function, spec, kind_of(function, options.get("executor"), spec.batch))
        except Invalid as error:
            raise Invalid(error.code, f"job {name!r}: {error.message}", field=error.field, hint=error.hint) from None
        return task

    def workflow(self, name: str, **options: Any) -> Workflow:
        """Declare a workflow, with the options of a job: steps are declared on what this answers."""
        self._take_name(name)
        made = self.workflows[name] = Workflow(self, self.task_of(lambda: None, name, options).spec)
        return made

    def _take_name(self, name: str) -> None:
        if name in self.tasks or name in self.workflows:
            raise Invalid("DULY-E118", f"job {name!r} is declared twice.", field="name", hint="Give one of them another name.")

    @property
    def declared(self) -> dict[str, Task[Any, Any] | Workflow]:
        """Every job, those made of steps too."""
        return {**self.tasks, **self.workflows}

    def calendar(
        self,
        name: str,
        *,
        tz: str | None = None,
        business_days: str | Sequence[str] | None = None,
        holidays: Sequence[HolidayLike] = (),
        windows: Sequence[WindowLike] = (),
        weekly: Mapping[str, str | Sequence[str]] | None = None,
    ) -> None:
        """Declare a calendar that jobs may name; it is published with them. Times of the week are such as `{"SUN": "02:00-04:00"}`."""
        if name in self.calendars:
            raise Invalid("DULY-E118", f"calendar {name!r} is declared twice.", field="name", hint="Give one of them another name.")
        self.calendars[name] = declared_calendar(
            name, tz=tz, business_days=business_days, holidays=holidays, windows=windows, weekly=weekly or {}
        )

    def calls(self) -> Mapping[str, PythonCall]:
        """Every handler by its name, for workers and their child processes."""
        steps = {task.name: task for workflow in self.workflows.values() for task in workflow.tasks}
        return {name: task.call() for name, task in (self.tasks | steps).items()}

    # ------------------------------------------------------------ reaching the store

    async def connection(self) -> Connection:
        """The open store of this event loop. Callers that come at once share one; after a failure the next call tries again."""
        return await connected(self._link())

    def use(self, connection: Connection) -> None:
        """Reach the store through a connection that this event loop has already."""
        loop = asyncio.get_running_loop()
        connected: asyncio.Future[Connection] = loop.create_future()
        connected.set_result(connection)
        self._links[loop] = Link(connected)

    @contextlib.contextmanager
    def borrowed(self, connect: Callable[[], Coroutine[Any, Any, Connection]], blocking: BlockingApp) -> Iterator[None]:
        """While it lasts, every event loop reaches the store by this `connect`, and whoever has none through `blocking`."""
        before = self._links, self._lent, self._blocking
        self._links, self._lent, self._blocking = {}, connect, blocking
        try:
            yield
        finally:
            self._links, self._lent, self._blocking = before

    async def close(self) -> None:
        """Let the store of this event loop go."""
        link = self._links.pop(asyncio.get_running_loop(), None)
        if link is None:
            return
        try:
            connection = await link.connecting
        except Exception:
            # Nothing was opened, and whoever wanted it was told.
            return
        await connection.close()

    def _link(self) -> Link:
        loop = asyncio.get_running_loop()
        link = self._links.get(loop)
        if link is None:
            self._abandon_ended_loops()
            link = self._links[loop] = Link(asyncio.ensure_future((self._lent or self.connect)()))
            link.connecting.add_done_callback(lambda _: self._forget_failure(loop, link))
        return link

    def _forget_failure(self, loop: asyncio.AbstractEventLoop, link: Link) -> None:
        if connection_of(link) is None and self._links.get(loop) is link:
            del self._links[loop]

    def _abandon_ended_loops(self) -> None:
        # Another thread's loop may come or go meanwhile: look at a copy, and whoever takes a link out is the one who ends it.
        for loop in list(self._links):
            if loop.is_closed():
                link = self._links.pop(loop, None)
                connection = None if link is None else connection_of(link)
                if connection is not None:
                    connection.abandon()

    async def publish(self) -> dict[str, Job]:
        """Make the code the truth of its definitions: create what is new, change what differs, archive what is gone.

        Archiving pauses: during a roll-out an old release may still archive what a new one has brought, and publishing it
        again resumes the same job. Never touches another pause, an execution or a job that came from elsewhere. Safe to call
        from many processes at once.
        """
        link = self._link()
        connection = await connected(link)
        used = {named.name for task in self.declared.values() for named in task.spec.timing.calendars}
        for name, calendar in self.calendars.items():
            if name not in used:
                await connection.calendars.put(connection.actor, calendar)
        published = {name: await self._publish(connection, task) for name, task in self.declared.items()}
        link.published.update(published)
        specs = [task.spec for task in self.declared.values()]
        await publish_alerts(connection.alerts, connection.actor, _source(self.name), specs)
        theirs = [_source(name) for name in (self.name, self.formerly) if name is not None]
        for job in [job for source in theirs for job in await connection.jobs.of_source(connection.actor, source)]:
            # One that fires, or whose pause ends by itself.
            if job.state is JobState.ACTIVE and job.version.spec.name not in self.declared:
                # A job that has just fired its last fire, or was cancelled, needs no archiving any more.
                with contextlib.suppress(Conflict):
                    await connection.jobs.pause(connection.actor, job.id, ARCHIVED)
        return published

    async def _publish(self, connection: Connection, task: Task[Any, Any] | Workflow) -> Job:
        jobs, actor = connection.jobs, connection.actor
        now = connection.clock.now()
        await self._publish_calendars(connection, task)
        spec = await jobs.written_out(actor, task.spec)
        existing = await jobs.named(actor, task.name)
        if existing is None:
            try:
                return (await jobs.create_specs(actor, [(new_id(now, connection.entropy), spec)], now))[0]
            except Conflict:
                existing = await jobs.named(actor, task.name)
        assert existing is not None
        self._refuse_anothers(existing)
        if existing.version.spec != spec:
            existing = await jobs.change_spec(actor, existing, spec, now)
        if existing.state is JobState.PAUSED and existing.pause_reason == ARCHIVED:
            existing = await jobs.resume(actor, existing.id)
        return existing

    def _refuse_anothers(self, existing: Job) -> None:
        """Two that declare one name would undo each other's version with every start."""
        source = existing.version.spec.source
        if source is None or not source.startswith(_source("")) or source in (_source(self.name), _source(self.formerly or self.name)):
            return
        other = source.removeprefix(_source(""))
        raise Conflict(
            "DULY-E208",
            f"The job {existing.version.spec.name!r} is declared by another application, {other!r}.",
            field="name",
            hint=f"Give one of the two another name. If this one was called {other!r} before: App({self.name!r}, formerly={other!r}).",
        )

    async def _publish_calendars(self, connection: Connection, task: Task[Any, Any] | Workflow) -> None:
        """Bring those that the job names and this application declares."""
        for named in task.spec.timing.calendars:
            if named.name in self.calendars:
                await connection.calendars.put(connection.actor, self.calendars[named.name])

    async def enqueue_payloads(
        self, task: Task[Any, Any] | Workflow, payloads: Sequence[str], *, run_at: Instant | None = None, delay: Micros | None = None
    ) -> list[str]:
        """Enqueue executions of a declared job; the job is published first if nobody did."""
        if not payloads:
            return []
        connection = await self.connection()
        wanted = [Wanted(payload=payload, run_at=run_at, delay=delay) for payload in payloads]
        job = await self.known(task)
        with carrying(current_traceparent()):
            made = await connection.executions.enqueue_for(job, wanted, actor=connection.actor)
        return [execution_text(execution.id) for execution in made]

    async def known(self, task: Task[Any, Any] | Workflow) -> Job:
        """The job of a declared task; published first if nobody did on this event loop."""
        link = self._link()
        connection = await connected(link)
        if task.name not in link.published:
            async with link.publishing:
                if task.name not in link.published:
                    link.published[task.name] = await self._publish(connection, task)
        return link.published[task.name]

    @property
    def sync(self) -> BlockingApp:
        """The same for callers without an event loop: `app.sync.nightly_report.enqueue(region="us")`."""
        return self._blocking


def _source(app: str) -> str:
    return f"code:{app}"
