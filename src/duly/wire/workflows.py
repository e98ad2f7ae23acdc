"""Workflows on the wire: steps as they are sent, and runs as they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from duly.domain.choices import OnTimeout, Priority, Rule
from duly.domain.instants import SECOND, Micros
from duly.domain.secrets import masked_json
from duly.wire.executions import StateName
from duly.wire.keys import KeyName
from duly.wire.retry import RetryShape, retry_shape
from duly.wire.shapes import NO_NUL, Name, Shape, Text, View, held_to, pattern, shown_json
from duly.wire.targets import TargetShape, target_shape

if TYPE_CHECKING:
    from duly.domain.workflow.step import Step

StepName = Annotated[str, Meta(min_length=1, max_length=64, extra_json_schema=pattern("^[A-Za-z_][A-Za-z0-9_-]*$"))]
# Of a run: what it waits for is looked at first, so the decoder enforces it.
GivenStep = Annotated[str, Meta(min_length=1, max_length=64, **held_to("^[A-Za-z_][A-Za-z0-9_-]*$"))]
SignalName = Annotated[str, Meta(min_length=1, max_length=128, extra_json_schema=NO_NUL)]
Source = Annotated[str, Meta(min_length=1, max_length=256, extra_json_schema=NO_NUL)]
Wait = Annotated[float, Meta(ge=0.001, le=31_622_400)]


class ApprovalShape(Shape, kw_only=True):
    """Who may say yes (keys by name or id, or roles; nobody named: every operator), how long it is waited for, and what happens then."""

    by: Annotated[list[KeyName], Meta(max_length=50)] = []
    timeout_sec: Wait | None = None
    on_timeout: OnTimeout = OnTimeout.FAIL


class AwaitedShape(Shape, kw_only=True):
    """The signal that is waited for, how long, and what happens then."""

    name: SignalName
    timeout_sec: Wait | None = None
    on_timeout: OnTimeout = OnTimeout.FAIL


class StepShape(Shape, kw_only=True):
    """A step as it is sent. It has a target or a workflow, or waits for an approval, a signal or a time."""

    name: StepName
    depends_on: Annotated[list[StepName], Meta(max_length=1000)] = []
    trigger: Rule = Rule.ALL_SUCCEEDED
    when: Annotated[str, Meta(max_length=500, examples=["extract.result.rows > 0"], extra_json_schema=NO_NUL)] | None = None
    target: TargetShape | None = None
    workflow: Name | None = None
    map: StepName | None = None
    max_parallel: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    inputs: Annotated[dict[Name, Source], Meta(max_length=100, examples=[{"rows": "extract.rows"}])] = {}
    payload: Raw | UnsetType = UNSET
    approval: ApprovalShape | None = None
    signal: AwaitedShape | None = None
    delay_sec: Wait | None = None
    compensates: StepName | None = None
    retry_policy: RetryShape = msgspec.field(default_factory=RetryShape)
    timeout_sec: Annotated[float, Meta(ge=0.001, le=604_800)] | None = None
    priority: Priority | None = None
    description: Text | None = None


class DeclaredStepView(StepShape, kw_only=True):
    """A step as it is read: null where it has no payload of its own."""

    payload: Any = None


class SignalShape(Shape, kw_only=True):
    """A signal for a run; the first of its name counts."""

    name: SignalName
    payload: Raw | UnsetType = UNSET


class DecisionShape(Shape, kw_only=True):
    """Which step of the run is meant (not needed where only one waits), and why it is decided so."""

    step: GivenStep | None = None
    reason: Text | None = None


class RerunShape(Shape, kw_only=True):
    """From which steps on a run is done again; none: from those that failed. What is not done again is taken over as it ended."""

    from_steps: Annotated[list[GivenStep], Meta(max_length=1000)] = []


class ItemsView(View, kw_only=True):
    """How far the items of a mapped step have come."""

    total: int
    succeeded: int
    failed: int


class StepView(View, kw_only=True):
    """A step of a run: `state` is null as long as it waits for other steps."""

    name: str
    depends_on: list[str]
    trigger: Rule
    state: StateName | None
    execution_id: str
    waits_for: str | None = None
    waits_until: str | None = None
    skip_reason: str | None = None
    created_at: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    attempt: int = 0
    result: Any = None
    error: Any = None
    items: ItemsView | None = None
    compensates: str | None = None
    is_critical: bool = False


class StepsView(View, kw_only=True):
    """A run with its steps, in an order in which each comes after those it depends on."""

    execution_id: str
    job_name: str
    state: StateName
    is_paused: bool
    steps: list[StepView]


class ParentView(View, kw_only=True):
    """A step that another comes after, with its whole result."""

    name: str
    execution_id: str
    result: Any = None


class ParentsView(View, kw_only=True):
    """The parents of a step that succeeded."""

    parents: list[ParentView]


def step_view(step: Step) -> DeclaredStepView:
    """A step as it is read, and may be sent again."""
    approval, signal = step.approval, step.signal
    return DeclaredStepView(
        name=step.name,
        depends_on=list(step.after),
        trigger=step.rule,
        when=step.when,
        target=None if step.target is None else target_shape(step.target),
        workflow=step.workflow,
        map=step.map,
        max_parallel=step.max_parallel,
        inputs=dict(step.inputs),
        payload=shown_json(masked_json(step.payload)),
        approval=None
        if approval is None
        else ApprovalShape(by=list(approval.by), timeout_sec=_seconds(approval.timeout), on_timeout=approval.on_timeout),
        signal=None
        if signal is None
        else AwaitedShape(name=signal.name, timeout_sec=_seconds(signal.timeout), on_timeout=signal.on_timeout),
        delay_sec=_seconds(step.delay),
        compensates=step.compensates,
        retry_policy=retry_shape(step.retry),
        timeout_sec=_seconds(step.timeout),
        priority=step.priority,
        description=step.description,
    )


def _seconds(micros: Micros | None) -> float | None:
    return None if micros is None else micros / SECOND
