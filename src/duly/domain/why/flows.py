"""Why a run of a workflow, or a step of one, stands where it stands."""

from __future__ import annotations

from duly.domain.ids import execution_text
from duly.domain.instants import to_rfc3339
from duly.domain.why.answers import Reason, WhyCode, counted, known, moment
from duly.domain.why.errors import error_of
from duly.domain.why.facts import ExecutionFacts, FlowFacts, HeldFacts

_SKIPPED = {
    "upstream": "a step before it failed",
    "branch": "a step before it was skipped, so its path was not taken",
    "condition": "its condition did not hold",
    "unneeded": "nothing failed that it would have handled or undone",
}


def held(facts: ExecutionFacts, wait: HeldFacts) -> Reason:
    """A step that waits for somebody."""
    run = execution_text(facts.execution.run or facts.execution.id)
    until = "" if wait.until is None else f", until {moment(wait.until)}"
    told = known(step=facts.execution.step_name, runId=run, until=None if wait.until is None else to_rfc3339(wait.until))
    if wait.is_approval:
        asked = next((step.approval for step in facts.job.version.spec.steps if step.name == wait.name), None)
        who = ", ".join(asked.by) if asked is not None and asked.by else "any operator"
        return Reason(
            WhyCode.APPROVAL_WAIT,
            f"It waits for the approval of {who}{until}.",
            told | {"by": who},
            since=facts.execution.created_at,
            until=wait.until,
            hint=f"To approve it: duly workflow approve {run} {wait.name}",
        )
    return Reason(
        WhyCode.SIGNAL_WAIT,
        f"It waits for the signal {wait.name!r}{until}.",
        told | {"signal": wait.name},
        since=facts.execution.created_at,
        until=wait.until,
        hint=f"To send it: duly workflow signal {run} {wait.name}",
    )


def under_way(facts: ExecutionFacts, flow: FlowFacts) -> Reason:
    """A run whose steps are not all done."""
    run = execution_text(facts.execution.id)
    paused = "" if flow.paused_by is None else f" It is paused by {facts.who(flow.paused_by)}: no step begins."
    waiting = f", {counted(len(flow.held), 'of which waits', 'of which wait')} for somebody" if flow.held else ""
    return Reason(
        WhyCode.STEPS_UNDER_WAY,
        f"{counted(len(flow.live), 'step')} of it {'is' if len(flow.live) == 1 else 'are'} under way{waiting}.{paused}",
        known(steps=[execution_text(id) for id in flow.live], pausedBy=flow.paused_by),
        since=facts.execution.created_at,
        hint=f"All of them: duly workflow show {run}",
    )


def skipped(facts: ExecutionFacts) -> Reason:
    """A step that was not run."""
    execution = facts.execution
    reason = str(error_of(execution.error).get("reason") or "upstream")
    run = None if execution.run is None else execution_text(execution.run)
    return Reason(
        WhyCode.SKIPPED_STEP,
        f"The step was skipped: {_SKIPPED.get(reason, reason)}.",
        known(step=execution.step_name, reason=reason, runId=run),
        since=execution.finished_at,
    )
