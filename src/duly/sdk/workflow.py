"""A workflow declared in code: its steps are functions, and the graph follows from what each comes after.

    etl = app.workflow("etl", cron="H 4 * * *")

    @etl.step
    def extract(ctx: Context) -> list[str]: ...

    @etl.step(map=extract, max_parallel=20, retry=3)
    def load(ctx: Context, path: str) -> int: ...

    @etl.step(after=load, approval="finance")
    def publish(ctx: Context, counts: list[int]) -> None: ...

Arguments are filled in by their order: of a mapped step the first is the item; then come the results of the steps in `after`; an argument
with the name of a parent is that one's result, and any other is taken from the run's payload. `inputs` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, overload

from duly.domain.durations import parse_duration
from duly.domain.errors import Invalid
from duly.domain.job import JobSpec, Target, check_spec
from duly.domain.target import WORKFLOW_HANDLER
from duly.domain.workflow.step import Approval, Awaited, OnTimeout, Rule, Step
from duly.sdk.arguments import Arguments
from duly.sdk.checks import whole
from duly.sdk.encoding import encoded
from duly.sdk.moments import instant_of
from duly.sdk.schedules import DeclaredSchedule
from duly.sdk.task import Task

if TYPE_CHECKING:
    from duly.sdk.app import App

Duration = str | float | timedelta
# Who may approve: a name, several, or all that there is to say about it: `{"by": ["finance"], "timeout": "2d", "on_timeout": "continue"}`.
ApprovalLike = str | Sequence[str] | Mapping[str, Any] | bool
_OF_A_TASK = ("retry", "timeout", "pool", "requires", "priority", "executor", "description", "stop_grace")


class StepTask(Task[Any, Any]):
    """A step that was declared: still the plain function, and what other steps name to come after it."""

    step: Step


StepLike = StepTask | Step | str


class Workflow:
    """A job made of steps. Each declaration is checked at import; the graph as a whole when it is published or run."""

    def __init__(self, app: App, spec: JobSpec) -> None:
        self.app = app
        self._spec = replace(spec, target=Target(pool=spec.target.pool, handler=WORKFLOW_HANDLER))
        self._steps: dict[str, Step] = {}
        self.tasks: list[StepTask] = []

    @property
    def name(self) -> str:
        """The job's name."""
        return self._spec.name

    @property
    def schedule(self) -> DeclaredSchedule:
        """When it fires: `print(nightly_report.schedule.explain())`."""
        return DeclaredSchedule(self.app, self._spec)

    @property
    def spec(self) -> JobSpec:
        """The whole workflow. Raises Invalid when its steps make no graph."""
        if not self._steps:
            raise Invalid("DULY-E156", f"workflow {self.name!r} has no steps.", field="steps", hint="Declare some with @workflow.step.")
        spec = replace(self._spec, steps=tuple(self._steps.values()))
        try:
            check_spec(spec)
        except Invalid as error:
            raise Invalid(error.code, f"workflow {self.name!r}: {error.message}", field=error.field, hint=error.hint) from None
        return spec

    @overload
    def step(self, function: Callable[..., Any], /) -> StepTask: ...

    @overload
    def step(self, **options: Any) -> Callable[[Callable[..., Any]], StepTask]: ...

    def step(self, *functions: Callable[..., Any], **options: Any) -> Any:
        """Declare a step: `@etl.step` for one that comes after nothing, `@etl.step(after=…)` and so on for all others.

        Options are `after`, `when` (a rule such as "all_done", or a condition), `map`, `max_parallel`, `inputs`, `approval`, `signal`,
        `delay`, `compensates`, and of a job: retry, timeout, pool, requires, priority, executor, description.
        """
        if functions:
            return self._declare(functions[0], {})
        return lambda function: self._declare(function, options)

    def approval(self, name: str, *, after: StepLike | Sequence[StepLike] = (), **options: Any) -> Step:
        """A step that only waits for somebody to say yes."""
        who: dict[str, Any] = {key: options.pop(key) for key in ("by", "timeout", "on_timeout") if key in options}
        return self._add(Step(name=name, approval=_approval(who or True), **_common(after, options)))

    def signal(
        self,
        name: str,
        *,
        after: StepLike | Sequence[StepLike] = (),
        signal: str | None = None,
        timeout: Duration | None = None,
        on_timeout: str = "fail",
        **options: Any,
    ) -> Step:
        """A step that waits for a signal from outside; what comes with it is its result."""
        awaited = _awaited({"name": signal or name, "timeout": timeout, "on_timeout": on_timeout})
        return self._add(Step(name=name, signal=awaited, **_common(after, options)))

    def wait(self, name: str, delay: Duration, *, after: StepLike | Sequence[StepLike] = (), **options: Any) -> Step:
        """A step that only waits for a while."""
        return self._add(Step(name=name, delay=parse_duration(delay, field="delay"), **_common(after, options)))

    def run(
        self,
        name: str,
        workflow: Workflow | str,
        *,
        after: StepLike | Sequence[StepLike] = (),
        inputs: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Step:
        """A step that runs another workflow, and has ended when that has."""
        inner = workflow if isinstance(workflow, str) else workflow.name
        return self._add(Step(name=name, workflow=inner, inputs=dict(inputs or {}), **_common(after, options)))

    async def enqueue(self, **payload: Any) -> str:
        """Begin a run; returns its id. Steps take their arguments from the payload by name."""
        return (await self.app.enqueue_payloads(self, [encoded(payload).decode()]))[0]

    async def enqueue_at(self, when: datetime, **payload: Any) -> str:
        """Begin a run at a time, which needs a zone."""
        return (await self.app.enqueue_payloads(self, [encoded(payload).decode()], run_at=instant_of(when)))[0]

    def _declare(self, function: Callable[..., Any], options: dict[str, Any]) -> StepTask:
        options = dict(options)
        name = options.pop("name", None) or function.__name__
        own = {key: options.pop(key) for key in _OF_A_TASK if key in options}
        given = dict(options.pop("inputs", None) or {})
        plain = self.app.task_of(function, f"{self.name}.{name}", own)
        task = StepTask(self.app, function, plain.spec, plain.kind)
        common = _common(options.pop("after", ()), options)
        mapped = None if options.get("map") is None else _name(options["map"])
        undone = None if options.get("compensates") is None else _name(options["compensates"])
        fields = task.arguments.fields if isinstance(task.arguments, Arguments) else []
        inputs = _inputs(fields, mapped, [undone] if undone else [one for one in common["after"] if one != mapped], given)
        task.step = self._add(
            Step(
                name=name,
                target=plain.spec.target,
                map=mapped,
                max_parallel=None
                if (most := options.pop("max_parallel", None)) is None
                else whole(most, "max_parallel", "max_parallel=20"),
                compensates=undone,
                inputs=inputs,
                payload="{}",
                approval=_approval(options.pop("approval", None)),
                signal=_awaited(options.pop("signal", None)),
                delay=None if options.get("delay") is None else parse_duration(options["delay"], field="delay"),
                retry=plain.spec.retry,
                timeout=plain.spec.timeout,
                priority=plain.spec.priority if "priority" in own else None,
                description=plain.spec.description,
                **common,
            )
        )
        for key in ("map", "compensates", "delay"):
            options.pop(key, None)
        if options:
            raise Invalid("DULY-E118", f"step {name!r}: there is no option {min(options)!r}.", field=min(options))
        self.tasks.append(task)
        return task

    def _add(self, step: Step) -> Step:
        if step.name in self._steps:
            told = f"workflow {self.name!r}: the step {step.name!r} is declared twice."
            raise Invalid("DULY-E150", told, field="steps", hint="Give one of them another name.")
        self._steps[step.name] = step
        return step


def _name(step: StepLike) -> str:
    return step.step.name if isinstance(step, StepTask) else step.name if isinstance(step, Step) else step


def _common(after: StepLike | Sequence[StepLike], options: dict[str, Any]) -> dict[str, Any]:
    """What it comes after, and the rule or condition under which it runs."""
    several = [after] if isinstance(after, StepTask | Step | str) else list(after)
    when = options.pop("when", None)
    rule = Rule(when) if when in set(Rule) else Rule(options.pop("trigger", Rule.ALL_SUCCEEDED))
    return {"after": tuple(_name(one) for one in several), "rule": rule, "when": None if when in set(Rule) else when}


def _inputs(fields: Sequence[str], mapped: str | None, parents: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """Where each argument comes from."""
    inputs = dict(given)
    left = [field for field in fields if field not in inputs]
    if mapped is not None and left and left[0] not in parents:
        inputs[left.pop(0)] = "item"
    unnamed = [parent for parent in parents if parent not in left]
    for field in left:
        if field in parents:
            inputs[field] = field
        elif unnamed:
            inputs[field] = unnamed.pop(0)
        else:
            inputs[field] = f"payload.{field}"
    return inputs


def _approval(given: ApprovalLike | None) -> Approval | None:
    if given is None or given is False:
        return None
    if given is True:
        return Approval()
    if isinstance(given, str):
        return Approval(by=(given,))
    if not isinstance(given, Mapping):
        return Approval(by=tuple(given))
    by = given.get("by", ())
    timeout = given.get("timeout")
    return Approval(
        by=(by,) if isinstance(by, str) else tuple(by),
        timeout=None if timeout is None else parse_duration(timeout, field="timeout"),
        on_timeout=OnTimeout(given.get("on_timeout", OnTimeout.FAIL)),
    )


def _awaited(given: str | Mapping[str, Any] | None) -> Awaited | None:
    if given is None:
        return None
    if isinstance(given, str):
        return Awaited(name=given)
    timeout = given.get("timeout")
    return Awaited(
        name=given["name"],
        timeout=None if timeout is None else parse_duration(timeout, field="timeout"),
        on_timeout=OnTimeout(given.get("on_timeout", OnTimeout.FAIL)),
    )
