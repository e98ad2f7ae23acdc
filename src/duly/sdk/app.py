"""The application: declares jobs and reaches the store. Nothing is global; a process may have several."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack, overload

from duly.domain.calendars import Calendar, OnExcluded
from duly.domain.catchup import CatchUp, CatchUpPolicy
from duly.domain.cron_phrases import cron_text
from duly.domain.durations import parse_duration
from duly.domain.errors import Conflict, Invalid
from duly.domain.ids import execution_text, new_id
from duly.domain.instants import Instant, Micros, from_datetime
from duly.domain.job import NAME, Job, JobSpec, JobType, Priority, Target, Timing, check_spec, schedule_of
from duly.domain.lifecycle import JobState
from duly.domain.limits import Limits
from duly.domain.overlap import Overlap, OverlapPolicy
from duly.domain.retry import RetryPolicy
from duly.domain.schedule import DstGap, DstOverlap
from duly.ports.handlers import PythonCall
from duly.ports.traces import carrying
from duly.sdk.after import dependencies_of
from duly.sdk.alerts import Alert, DeclaresAlerts, declared_alert, publish_alerts
from duly.sdk.blocking import BlockingApp
from duly.sdk.calendars import HolidayLike, WindowLike, declared_calendar
from duly.sdk.connection import Connection, Link, connected, connection_of
from duly.sdk.limits import Concurrency, Rate, unique_of
from duly.sdk.retry import Retry
from duly.sdk.task import Task, kind_of
from duly.sdk.tracing import current_traceparent
from duly.sdk.workflow import Workflow
from duly.usecases.wanted import Wanted

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", OverlapPolicy, CatchUpPolicy, Priority, DstGap, DstOverlap, OnExcluded)

# Why a job is paused that its application no longer declares. A pause for exactly this reason is ours to end.
ARCHIVED = "archived: no longer declared in the code"


class JobOptions(TypedDict, total=False):
    """What `@app.job` takes; the same names as on the wire, in snake_case."""

    name: str
    cron: str
    rrule: str
    seconds: bool
    every: str | float | timedelta
    at: datetime
    tz: str
    dst_gap: str
    dst_overlap: str
    start_at: datetime
    end_at: datetime
    calendars: Sequence[str]
    on_excluded: str
    jitter: str | float | timedelta
    overlap: str
    max_queued: int
    max_running: int
    kill_grace: str | float | timedelta
    catch_up: str
    max_concurrent: int
    concurrency: Concurrency
    rate: Rate
    unique: bool | str | Sequence[str]
    unique_for: str | float | timedelta
    after: Any
    retry: int | Retry
    timeout: str | float | timedelta
    execution_timeout: str | float | timedelta
    heartbeat_timeout: str | float | timedelta
    stop_grace: str | float | timedelta
    batch: int
    priority: str
    pool: str
    requires: Mapping[str, str]
    executor: str
    description: str
    alert: Alert


class App(DeclaresAlerts):
    """Jobs declared in code. `connect` is supplied where the parts are put together (`duly.App`).

    The name says whose jobs are whose on a store: publishing archives what an application of the same name no longer declares.
    """

    def __init__(self, name: str, *, store: str | None = None) -> None:
        if not NAME.match(name):
            hint = "1 to 128 letters, digits and . _ : / @ -, starting with a letter or digit."
            raise Invalid("DULY-E118", f"{name[:40]!r} is not the name of an application.", field="name", hint=hint)
        self.name = name
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
        name = options.get("name") or function.__name__
        task = self.task_of(function, name, options)
        self._take_name(name)
        self.tasks[name] = task
        return task

    def task_of(self, function: Callable[..., Any], name: str, options: dict[str, Any]) -> Task[Any, Any]:
        """A function with its options, checked, and declared by nobody yet."""
        if unknown := sorted(options.keys() - JobOptions.__annotations__.keys()):
            what = f"job {name!r}: there is no option {unknown[0]!r}."
            raise Invalid("DULY-E118", what, field=unknown[0], hint=_did_you_mean(unknown[0]))
        try:
            spec = _spec(self.name, function, name, options)
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
        for job in await connection.jobs.of_source(connection.actor, _source(self.name)):
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
        if existing.version.spec != spec:
            existing = await jobs.change_spec(actor, existing, spec, now)
        if existing.state is JobState.PAUSED and existing.pause_reason == ARCHIVED:
            existing = await jobs.resume(actor, existing.id)
        return existing

    async def _publish_calendars(self, connection: Connection, task: Task[Any, Any] | Workflow) -> None:
        """Bring those that the job names and this application declares."""
        for named in task.spec.timing.calendars:
            if named.name in self.calendars:
                await connection.calendars.put(connection.actor, self.calendars[named.name])

    async def enqueue_payloads(
        self, task: Task[Any, Any] | Workflow, payloads: Sequence[str], *, run_at: Instant | None = None, delay: Micros | None = None
    ) -> list[str]:
        """Enqueue executions of a declared job; the job is published first if nobody did."""
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


def _did_you_mean(option: str) -> str:
    close = get_close_matches(option, JobOptions.__annotations__, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Options are {', '.join(JobOptions.__annotations__)}."


def _source(app: str) -> str:
    return f"code:{app}"


def _spec(app: str, function: Callable[..., Any], name: str, options: dict[str, Any]) -> JobSpec:
    retry = options.get("retry", 3)
    description = options.get("description") or (inspect.getdoc(function) or "").split("\n")[0] or None
    return JobSpec(
        name=name,
        timing=_timing(options),
        target=Target(pool=options.get("pool", "default"), requires=dict(options.get("requires") or {}), handler=name),
        retry=retry.policy if isinstance(retry, Retry) else RetryPolicy(max_attempts=retry),
        timeout=_duration(options, "timeout"),
        execution_timeout=_duration(options, "execution_timeout"),
        heartbeat_timeout=_duration(options, "heartbeat_timeout"),
        stop_grace=parse_duration(options.get("stop_grace", "10s"), field="stop_grace"),
        batch=options.get("batch", 1),
        priority=_one_of(Priority, options.get("priority", "normal").upper(), "priority"),
        overlap=Overlap(
            policy=_one_of(OverlapPolicy, options.get("overlap", "skip"), "overlap"),
            max_running=options.get("max_running"),
            max_queued=options.get("max_queued", 100),
            grace=parse_duration(options.get("kill_grace", "10s"), field="kill_grace"),
        ),
        catch_up=CatchUp(policy=_one_of(CatchUpPolicy, options.get("catch_up", "latest"), "catch_up")),
        limits=_limits(function, options),
        after=dependencies_of(options.get("after")),
        description=None if description is None else description[:1024],
        source=_source(app),
        alert=declared_alert(options.get("alert")),
    )


def _limits(function: Callable[..., Any], options: dict[str, Any]) -> Limits:
    """The job's limits; a key that is no argument of the handler is a misspelling, and found here."""
    running, rate = options.get("concurrency"), options.get("rate")
    limits = Limits(
        max_concurrent=options.get("max_concurrent"),
        concurrency=None if running is None else running.limit,
        rate=None if rate is None else rate.limit,
        unique=unique_of(options.get("unique"), options.get("unique_for")),
    )
    parameters = inspect.signature(function).parameters
    # The fields of a batch handler's items are its item's, not its own.
    if options.get("batch", 1) == 1 and not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        for name, limit in (("concurrency", limits.concurrency), ("rate", limits.rate), ("unique", limits.unique)):
            for path in () if limit is None else limit.key:
                if path.partition(".")[0] not in parameters:
                    raise Invalid("DULY-E118", f"{path!r} is not an argument of the function.", field=name)
    return limits


def _duration(options: dict[str, Any], key: str) -> Micros | None:
    value = options.get(key)
    return None if value is None else parse_duration(value, field=key)


def _timing(options: dict[str, Any]) -> Timing:
    given = [key for key in ("cron", "rrule", "every", "at") if options.get(key) is not None]
    if len(given) > 1:
        raise Invalid("DULY-E118", f"{given[0]} and {given[1]} contradict one another.", field=given[1])
    kind = _KINDS[given[0]] if given else JobType.ON_DEMAND
    if options.get("tz") is not None and kind not in (JobType.CRON, JobType.RRULE):
        raise Invalid("DULY-E118", "tz goes with cron and rrule only.", field="tz")
    every, cron = options.get("every"), options.get("cron")
    seconds, zone = options.get("seconds", False), options.get("tz") or "UTC"
    return Timing(
        type=kind,
        cron=None if cron is None else cron_text(cron, seconds=seconds, zone=zone),
        # A rule without a start is counted from 1970 too, on its zone's own clock.
        rule=options.get("rrule"),
        seconds=seconds,
        zone=zone,
        dst_gap=_one_of(DstGap, options.get("dst_gap", "run_after"), "dst_gap"),
        dst_overlap=_one_of(DstOverlap, options.get("dst_overlap", "first"), "dst_overlap"),
        every=None if every is None else parse_duration(every, field="every"),
        # Intervals of code are counted from 1970, so that every process and every deploy means the same instants.
        anchor=None if every is None else 0,
        run_at=_moment(options, "at"),
        start_at=_moment(options, "start_at"),
        end_at=_moment(options, "end_at"),
        calendars=tuple(Calendar(name=name) for name in dict.fromkeys(options.get("calendars") or ())),
        on_excluded=_one_of(OnExcluded, options.get("on_excluded", "skip"), "on_excluded"),
        jitter=parse_duration(options.get("jitter", 0), field="jitter"),
    )


_KINDS = {"cron": JobType.CRON, "rrule": JobType.RRULE, "every": JobType.INTERVAL, "at": JobType.ONE_TIME}


def _moment(options: dict[str, Any], key: str) -> Instant | None:
    value = options.get(key)
    if value is None:
        return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise Invalid("DULY-E105", "must be a datetime with a zone.", field=key)
    return from_datetime(value)


def _one_of(kind: type[E], value: str, field: str) -> E:
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(repr(member.value) for member in kind)
        raise Invalid("DULY-E118", f"{value!r} is not one of {choices}.", field=field) from None
