"""`TestApp`: an application under test, on the real roles and the real store in memory, whose time a test moves by hand."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, get_args

import msgspec

from duly.domain.errors import Invalid, NotFound
from duly.domain.execution import Execution
from duly.domain.ids import parse_execution_id
from duly.domain.instants import DAY, Instant, Micros, to_datetime
from duly.domain.job import Job
from duly.domain.lifecycle import SkipReason, State, Trigger
from duly.domain.schedule import fires, is_fire
from duly.sdk.app import App
from duly.sdk.task import Task
from duly.sdk.workflow import Workflow
from duly.testing.asserts import enqueued_as_wanted
from duly.testing.moments import Moment, Span, moment_of, shown, span_of
from duly.testing.replays import read_run
from duly.testing.runs import Run
from duly.testing.stage import Error, Script, script_of
from duly.testing.world import World

Mode = Literal["travel", "manual", "inline"]
Declared = Task[Any, Any] | Workflow
# Where a test begins that does not say when: a Thursday far from every change of the clocks.
START = "2026-01-15 12:00 UTC"
# A handler that is waited for takes no longer, in virtual time.
LONGEST: Micros = 366 * DAY

_open: list[TestApp] = []


def now() -> datetime:
    """The time of the test that is open here, in UTC. Raises RuntimeError outside of one."""
    if not _open:
        raise RuntimeError("duly.testing.now() works while a TestApp is open: `with TestApp(app, at=…):`")
    return _open[-1].now


class TestApp:
    """`with TestApp(app, at="2026-10-24 12:00 Europe/Berlin") as t:`

    Time stands still until `travel`, `drain` or `run_one` moves it; then everything that comes due is done at its instant, in order:
    schedules fire, workers run handlers, attempts fail and are tried again, limits strike. No server, no real time, and nothing is left.

    Without `at` it begins at noon of 2026-01-15, UTC. `mode`: "travel" is as above; in "manual" nothing runs unless `run_one` or `drain`
    runs it; in "inline" whatever is enqueued has run, with its retries, when the call that enqueued it returns. `seed` chooses what chance
    decides: jitter of retries, slots of `H`.
    `secrets` are the values of `Secret.env(…)` by name.
    """

    __test__ = False

    def __init__(
        self,
        app: App,
        at: Moment | None = START,
        *,
        mode: Mode = "travel",
        workers: int = 1,
        slots: int = 50,
        seed: int = 0,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        if mode not in get_args(Mode):
            raise Invalid("DULY-E118", f"{mode!r} is not one of {', '.join(get_args(Mode))}.", field="mode")
        if not isinstance(app, App):
            raise Invalid("DULY-E118", f"{app!r} is no application.", field="app", hint='Give the App that declares the jobs: App("shop").')
        self.app = app
        self._start, zone = moment_of(START if at is None else at, "at")
        self._zone = zone or "UTC"
        self._mode = mode
        self._options: dict[str, Any] = {"workers": workers, "slots": slots, "seed": seed, "secrets": secrets or {}}
        self._world: World | None = None

    def __enter__(self) -> Self:
        self._world = World(self.app, self._start, runs_work=self._mode != "manual", is_inline=self._mode == "inline", **self._options)
        _open.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _open.remove(self)
        try:
            # A test that has failed already needs no second reason.
            told = [] if kind is not None else [self._unmet(name, script) for name, script in self.world.fleet.stage.waiting()]
        finally:
            self.world.close()
            self._world = None
        if told:
            raise AssertionError("\n".join(told))

    @property
    def world(self) -> World:
        """What it stands on. Raises RuntimeError before it is entered and after it was left."""
        if self._world is None:
            raise RuntimeError("the TestApp is not open: use it in a block, `with TestApp(app) as t:`")
        return self._world

    # ------------------------------------------------------------ time

    @property
    def now(self) -> datetime:
        """The time of the test, in UTC."""
        return to_datetime(self.world.clock.now())

    def travel(self, by: Span | None = None, *, to: Moment | None = None) -> None:
        """Let time pass: `travel("3 days")`, or `travel(to="2026-10-27 12:00")`, in the zone that the test began in unless it names one.

        Everything that comes due on the way is done at its instant.
        """
        present = self.world.clock.now()
        if (by is None) == (to is None):
            raise Invalid(
                "DULY-E104", "Say how far, or to when.", field="travel", hint='travel("3 days") or travel(to="2026-10-27 12:00").'
            )
        if by is not None:
            until = present + span_of(by, "travel")
        else:
            assert to is not None
            until, _ = moment_of(to, "to", self._zone)
            if until < present:
                was = f"{shown(until, self._zone)} is over: it is {shown(present, self._zone)} already."
                raise Invalid("DULY-E105", was, field="to", hint="Time travels forward only; begin another TestApp at an earlier time.")
        self.world.travel(until)

    def drain(self, *, wait: bool = False) -> list[Run]:
        """Run what is ready, and what it enqueues, until nothing is left; answers what has ended by it, in the order of creation.

        With `wait`, what waits for a time (retries, delays) is run as well, and time passes as far as that needs.
        """
        before = {seen.id for seen in self.world.executions(None) if seen.finished_at is not None}
        self.world.drain(with_waits=wait, longest=LONGEST)
        ended = [seen for seen in self.world.executions(None) if seen.finished_at is not None and seen.id not in before]
        return [Run(self.world, seen.id) for seen in ended]

    def run_one(self, job: Declared | str | None = None) -> Run:
        """Run one attempt of the next execution that is ready, of this job if one is named; time passes only as its handler takes.

        Raises AssertionError when none is ready, and says what there is instead.
        """
        names = [] if job is None else [self._job(job).version.spec.target.handler or ""]
        id = self.world.run_one(names, LONGEST)
        if id is None:
            raise AssertionError(f"nothing is ready{'' if job is None else ' of ' + self._name(job)}. {self._standing()}")
        return Run(self.world, id)

    # ------------------------------------------------------------ enqueueing and injecting

    def enqueue(
        self,
        job: Declared | str,
        *args: Any,
        fail: Sequence[Error | None] | Error | None = None,
        kill_worker_after: Span | None = None,
        delay: Span | None = None,
        at: Moment | None = None,
        **kwargs: Any,
    ) -> Run:
        """Enqueue an execution with these arguments. `fail` has an error for each attempt that is to fail, or None for one that is not;
        `kill_worker_after` kills the worker that runs it once it has run for so long."""
        task = self._task(job)
        if isinstance(task, Task):
            ours = {"fail": fail, "kill_worker_after": kill_worker_after, "delay": delay, "at": at}
            meant = {name for name, value in ours.items() if value is not None and kwargs and task.arguments.owns(name, args)}
            for option in meant | ours.keys() & set(getattr(task.arguments, "fields", ())):
                hint = f"Use `await {task.name}.enqueue({option}=…)`, and t.inject({task.name}, …) before it."
                raise Invalid(
                    "DULY-E117", f"{task.name} has an argument {option!r}, which means something else here.", field=option, hint=hint
                )
        payload = task.arguments.to_payload(args, kwargs) if isinstance(task, Task) else json.dumps(kwargs)
        script = script_of(fail, kill_worker_after)
        when = None if at is None else moment_of(at, "at", self._zone)[0]
        wait = None if delay is None else span_of(delay, "delay")
        with self.world.fleet.stage.first_in_line(task.name, script):
            [id] = self.world.run(self.app.enqueue_payloads(task, [payload], run_at=when, delay=wait))
        run = parse_execution_id(id)
        if script is not None:
            self.world.fleet.stage.by_execution[run] = script
        return Run(self.world, run)

    def inject(
        self,
        job: Declared | str,
        *,
        fail: Sequence[Error | None] | Error | None = None,
        kill_worker_after: Span | None = None,
        on: Moment | None = None,
    ) -> None:
        """The same for an execution that is still to come: the next of this job, or the fire that stands for the time `on`.

        Raises Invalid (DULY-E105) when the schedule does not fire then. What has befallen nobody when the test ends is told there, by an
        AssertionError: a test that has injected nothing has shown nothing.
        """
        script = script_of(fail, kill_worker_after)
        if script is None:
            raise Invalid("DULY-E118", "Say what befalls it: fail=[…], kill_worker_after=…", field="inject")
        seen = self._job(job)
        script.on = None if on is None else moment_of(on, "on", seen.version.spec.timing.zone)[0]
        schedule = seen.version.schedule
        if script.on is not None and schedule is not None and not is_fire(schedule, script.on):
            zone = seen.version.spec.timing.zone
            near = " and ".join(shown(one, zone) for one in fires(schedule, script.on, None, 2)) or "never again"
            what = f"{seen.version.spec.name} does not fire at {shown(script.on, zone)}."
            raise Invalid("DULY-E105", what, field="on", hint=f"After that it fires at {near}.")
        self.world.fleet.stage.by_job.setdefault(seen.version.spec.name, []).append(script)

    def kill_workers(self) -> None:
        """Every worker is killed in the middle of what it does, and started again. What it ran is missed after 15 seconds."""
        for hired in list(self.world.fleet.hired):
            self.world.fleet.kill_named(hired.worker.settings.name)
        self.travel("0s")

    def outage(self, span: Span) -> None:
        """Every process is killed and the time passes without any of them; then all start again, and catch up as their jobs say."""
        fleet = self.world.fleet
        until = self.world.clock.now() + span_of(span, "outage")
        self.world.run(fleet.go_down())
        self.world.travel(until)
        self.world.run(fleet.come_up())
        self.travel("0s")

    @contextlib.contextmanager
    def slow_database(self, by: Span) -> Iterator[None]:
        """Inside the block every call of the store takes so long."""
        self.world.slow(span_of(by, "slow_database"))
        try:
            yield
        finally:
            self.world.slow(0)

    @contextlib.contextmanager
    def database_away(self) -> Iterator[None]:
        """Inside the block the store does not answer: enqueueing raises Unavailable, and the roles try again until it does."""
        self.world.away()
        try:
            yield
        finally:
            self.world.slow(0)

    def skew_clock(self, by: Span) -> None:
        """The clock of the database is set, ahead by so much; "-90s" sets it back. The fleet follows when it next looks, in 20 seconds."""
        back = isinstance(by, str) and by.lstrip().startswith("-")
        span = span_of(by.lstrip().lstrip("+-") if isinstance(by, str) else by, "skew_clock")
        self.world.skew(-span if back else span)

    # ------------------------------------------------------------ looking

    def runs(self, job: Declared | str | None = None) -> list[Run]:
        """All executions, of this job if one is named, oldest first."""
        return [Run(self.world, seen.id) for seen in self.world.executions(None if job is None else self._job(job))]

    def run(self, id: str) -> Run:
        """The execution of this id, as `enqueue` of a task returned it. Raises NotFound when there is none in this test."""
        found = parse_execution_id(id)
        self.world.execution(found)
        return Run(self.world, found)

    def fires(self, job: Declared | str) -> list[str]:
        """When its schedule has fired, on the clocks of its own zone: `2026-10-25 02:30+02:00`. What was skipped is left out."""
        seen = self._job(job)
        zone = seen.version.spec.timing.zone
        return [shown(at, zone) for at in self.world.fires(seen)]

    def skips(self, job: Declared | str) -> list[tuple[str, str]]:
        """The fires that were skipped, each with the reason: misfire, overlap, asked or dependency."""
        seen = self._job(job)
        zone = seen.version.spec.timing.zone
        skipped = [one for one in self._fired(seen) if one.state is State.SKIPPED]
        return [(shown(_scheduled(one), zone), SkipReason(one.skip).name.lower() if one.skip else "") for one in skipped]

    def next_fire(self, job: Declared | str) -> str | None:
        """When its schedule fires next, on the clocks of its own zone; None when it does not."""
        seen = self._job(job)
        return None if seen.next_fire_at is None else shown(seen.next_fire_at, seen.version.spec.timing.zone)

    def assert_enqueued(self, job: Declared | str, *, at: Moment | None = None, count: int | None = None, **arguments: Any) -> list[Run]:
        """Somebody has enqueued this job with these arguments among others, for this time if one is named; exactly so often with `count`.

        What has run since counts as well; fires of a schedule do not. The error says what was enqueued instead.
        """
        found, others = self._enqueued(job, at, arguments)
        if not found if count is None else len(found) != count:
            wanted = "at least once" if count is None else f"{count} times"
            raise AssertionError(enqueued_as_wanted(self._name(job), arguments, at, wanted, found, others, self._zone))
        return [Run(self.world, one.id) for one in found]

    def refute_enqueued(self, job: Declared | str, *, at: Moment | None = None, **arguments: Any) -> None:
        """Nobody has enqueued this job with these arguments."""
        found, others = self._enqueued(job, at, arguments)
        if found:
            raise AssertionError(enqueued_as_wanted(self._name(job), arguments, at, "never", found, others, self._zone))

    def _enqueued(self, job: Declared | str, at: Moment | None, arguments: dict[str, Any]) -> tuple[list[Execution], list[Execution]]:
        when = None if at is None else moment_of(at, "at", self._zone)[0]
        task = self.app.tasks.get(self._name(job))
        model = None if task is None else getattr(task.arguments, "model", None)
        wanted = msgspec.json.decode(msgspec.json.encode(arguments, enc_hook=str))
        found: list[Execution] = []
        others: list[Execution] = []
        for seen in self.world.executions(self._job(job)):
            if seen.trigger in (Trigger.ENQUEUE, Trigger.MANUAL):
                payload = None if seen.payload is None else msgspec.json.decode(seen.payload)
                if model is not None and model.argument not in wanted and isinstance(payload, dict):
                    payload = payload.get(model.argument)
                fits = not wanted or (isinstance(payload, dict) and all(payload.get(key, ...) == value for key, value in wanted.items()))
                (found if fits and when in (None, seen.due_at) else others).append(seen)
        return found, others

    # ------------------------------------------------------------ workflows

    def approve(self, run: Run, step: str | None = None, *, by: str = "code") -> None:
        """Say yes to a step that waits for an approval, as the one whom it waits for."""
        fleet = self.world.fleet
        self.world.run(fleet.workflows.approve(replace(fleet.actor, key_id=by), parse_execution_id(run.id), step, None))

    def reject(self, run: Run, step: str | None = None, *, by: str = "code") -> None:
        """Say no."""
        fleet = self.world.fleet
        self.world.run(fleet.workflows.reject(replace(fleet.actor, key_id=by), parse_execution_id(run.id), step, None))

    def signal(self, run: Run, name: str, payload: Any = None) -> None:
        """Tell a run of a workflow something from outside."""
        fleet = self.world.fleet
        self.world.run(fleet.workflows.signal(fleet.actor, parse_execution_id(run.id), name, json.dumps(payload)))

    def steps(self, run: Run) -> dict[str, str | None]:
        """Where each step of a run of a workflow stands; None: it is not there yet."""
        fleet = self.world.fleet
        standing = self.world.look(fleet.workflows.show(fleet.actor, parse_execution_id(run.id)))
        return {one.step.name: None if one.execution is None else one.execution.state.name.lower() for one in standing.steps}

    # ------------------------------------------------------------ a run of production

    def replay(self, source: str | Path | dict[str, Any], **arguments: Any) -> Run:
        """Enqueue what `duly run show --json` has printed, or the API answered: the same job and payload, due when it was.

        Time travels there first; step it with `run_one`. `arguments` replace some of the payload, such as secrets, which are masked in it.
        """
        seen = read_run(source, arguments)
        task = self._task(seen.job)
        if seen.scheduled_at > self.world.clock.now():
            self.travel(to=to_datetime(seen.scheduled_at))
        payload = task.arguments.of_call(seen.payload) if isinstance(task, Task) else json.dumps(seen.payload)
        [id] = self.world.run(self.app.enqueue_payloads(task, [payload], run_at=seen.scheduled_at))
        return Run(self.world, parse_execution_id(id))

    # ------------------------------------------------------------ inside

    def _fired(self, job: Job) -> list[Execution]:
        return [seen for seen in self.world.executions(job) if seen.trigger is Trigger.SCHEDULE]

    def _job(self, job: Declared | str) -> Job:
        name = self._name(job)
        found = self.world.job(name)
        if found is None:
            raise self._unknown(name)
        return found

    def _task(self, job: Declared | str) -> Declared:
        name = self._name(job)
        if name not in self.app.declared:
            raise self._unknown(name)
        return self.app.declared[name]

    def _unknown(self, name: str) -> NotFound:
        declared = ", ".join(sorted(self.app.declared)) or "no job at all"
        return NotFound("DULY-E204", f"{self.app.name} declares no job {name!r}.", hint=f"It declares {declared}.")

    @staticmethod
    def _name(job: Declared | str) -> str:
        return job if isinstance(job, str) else job.name

    def _unmet(self, name: str, script: Script) -> str:
        """Why what was injected has befallen nobody."""
        seen = self._job(name)
        zone = seen.version.spec.timing.zone
        if script.on is None:
            return f"inject({name}, …) has befallen nobody: no execution of it has begun since. {self._standing()}"
        at = shown(script.on, zone)
        said = [f"It was skipped: {reason}." for when, reason in self.skips(name) if when == at]
        said = said or [f"It is {shown(self.world.clock.now(), zone)}, and its next fire is {self.next_fire(name) or 'never'}."]
        return f'inject({name}, on="{at}") has befallen nobody: no execution of that time has begun. {said[0]}'

    def _standing(self) -> str:
        counts = Counter(seen.state for seen in self.world.executions(None))
        told = ", ".join(f"{count} {state.name.lower()}" for state, count in sorted(counts.items()))
        return f"There are: {told}." if told else "Nothing was enqueued, and nothing has fired."


def _scheduled(seen: Execution) -> Instant:
    return seen.due_at if seen.scheduled_at is None else seen.scheduled_at


class AsyncTestApp:
    """The same for async tests: `async with AsyncTestApp(app, at=…) as t:`, and what moves time is awaited.

    Handlers run on the test's own virtual loop, not on the one that the test runs on: what they use is opened there.
    """

    __test__ = False
    _AWAITED = frozenset({"travel", "drain", "run_one", "enqueue", "kill_workers", "outage", "approve", "reject", "signal", "replay"})

    def __init__(
        self,
        app: App,
        at: Moment | None = START,
        *,
        mode: Mode = "travel",
        workers: int = 1,
        slots: int = 50,
        seed: int = 0,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self._inner = TestApp(app, at, mode=mode, workers=workers, slots=slots, seed=seed, secrets=secrets)

    async def __aenter__(self) -> Self:
        self._inner.__enter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._inner.__exit__(kind, error, trace)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return _awaited(found) if name in self._AWAITED else found


def _awaited(call: Callable[..., Any]) -> Callable[..., Any]:
    async def run(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    return run
