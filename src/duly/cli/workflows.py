"""`duly workflow`: list, show, graph, run, retry, approve, reject, signal, pause, resume."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec

from duly.cli import output, remote, runs
from duly.cli.errors import OK
from duly.cli.output import Column, Output
from duly.cli.parsing import Arguments, Command, Group, Parser, count, remote_options
from duly.cli.remote import MOST_JOBS
from duly.cli.values import json_value
from duly.domain.errors import Invalid
from duly.domain.instants import from_rfc3339
from duly.domain.workflow.picture import Node, draw_graph, draw_timeline, took
from duly.domain.workflow.step import Step
from duly.domain.workflow.timeline import Bar
from duly.sdk import calls, workflow_calls
from duly.sdk.client import Client
from duly.wire.jobs import JobView
from duly.wire.specs import steps_of
from duly.wire.workflows import StepsView, StepView

_UNMARKED = "waits for steps"


def _run_option(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", help="an id such as run_0198c2…")


def _configure_list(parser: Parser) -> None:
    parser.add_argument("-n", "--limit", metavar="N", type=count, default=MOST_JOBS, help="at most that many, newest first")
    remote_options(parser)


def _list(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        jobs = list(
            calls.every_page(
                client.send, lambda cursor: calls.list_jobs(handler="duly.workflow", limit=200, cursor=cursor), arguments.limit
            )
        )
    found = [job for job in jobs if job.steps and job.state != "CANCELLED"]
    out.rows(_JOBS, found, name=lambda job: job.name)
    return OK


def _configure_show(parser: Parser) -> None:
    _run_option(parser)
    remote_options(parser)


def _show(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        _print(out, client.send(workflow_calls.show_steps(remote.run_id(arguments.run))))
    return OK


def _configure_graph(parser: Parser) -> None:
    parser.add_argument("what", metavar="JOB|RUN", help="a workflow by its name or id, or one of its runs")
    parser.add_argument("--timeline", action="store_true", help="when each step ran, instead of the graph")
    parser.add_argument("--to", metavar="FILE", help="write it there; otherwise to standard output")
    remote_options(parser)


def _graph(arguments: Arguments) -> int:
    with remote.connect(arguments) as client:
        picture = _picture(client, arguments.what, timeline=arguments.timeline)
    if arguments.to is None:
        sys.stdout.write(picture)
    else:
        with open(arguments.to, "w", encoding="utf-8") as file:
            file.write(picture)
    return OK


def _picture(client: Client, what: str, *, timeline: bool) -> str:
    if not remote.is_run(what):
        job = remote.find_job(client, what)
        if not job.steps:
            raise Invalid("DULY-E293", f"{job.name!r} has no steps.", hint="`duly workflow list` shows the workflows.")
        if timeline:
            raise Invalid("DULY-E604", "A timeline is that of a run.", hint=f"`duly run list --job {job.name}` shows its runs.")
        steps = steps_of([msgspec.structs.replace(step, payload=msgspec.UNSET) for step in job.steps])
        return draw_graph(steps, title=job.name)
    run = client.send(workflow_calls.show_steps(what))
    nodes = {step.name: _node(step) for step in run.steps}
    title = f"{run.job_name} {run.execution_id}"
    if timeline:
        bars = [bar for step in run.steps if (bar := _bar(step)) is not None]
        return draw_timeline(bars, nodes, title)
    made = [Step(name=one.name, after=tuple(one.depends_on), rule=one.trigger, compensates=one.compensates) for one in run.steps]
    return draw_graph(made, nodes, title)


def _node(step: StepView) -> Node:
    bar = _bar(step)
    detail = took(bar.began, bar.ended) if bar is not None and step.finished_at is not None else step.waits_for or ""
    if step.items is not None:
        failed = f", {step.items.failed} failed" if step.items.failed else ""
        detail = f"{step.items.succeeded + step.items.failed}/{step.items.total}{failed}"
    return Node(step.state.value if step.state is not None else None, detail, step.is_critical)


def _bar(step: StepView) -> Bar | None:
    began = step.started_at or step.created_at
    if began is None or step.state == "SKIPPED":
        return None
    ended = step.finished_at or began
    return Bar(step.name, tuple(step.depends_on), from_rfc3339(began), from_rfc3339(ended))


def _configure_retry(parser: Parser) -> None:
    _run_option(parser)
    parser.add_argument(
        "--from", metavar="STEP", action="append", default=[], dest="steps", help="from this step on; otherwise what failed"
    )
    remote_options(parser)


def _retry(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        made = client.send(workflow_calls.rerun(remote.run_id(arguments.run), from_steps=arguments.steps))
    out.one([("run", made.execution_id), ("state", made.state.value)], made, name=made.execution_id)
    return OK


def _configure_decision(parser: Parser) -> None:
    _run_option(parser)
    parser.add_argument("step", metavar="STEP", nargs="?", help="which step, where several wait")
    parser.add_argument("--because", metavar="TEXT", help="what is kept with the decision")
    remote_options(parser)


def _approve(arguments: Arguments) -> int:
    call = workflow_calls.approve(remote.run_id(arguments.run), step=arguments.step, reason=arguments.because)
    return _send(arguments, call)


def _reject(arguments: Arguments) -> int:
    call = workflow_calls.reject(remote.run_id(arguments.run), step=arguments.step, reason=arguments.because)
    return _send(arguments, call)


def _configure_signal(parser: Parser) -> None:
    _run_option(parser)
    parser.add_argument("name", metavar="NAME", help="of the signal")
    parser.add_argument("--payload", metavar="JSON", help="what comes with it")
    remote_options(parser)


def _signal(arguments: Arguments) -> int:
    payload = calls.NO_PAYLOAD if arguments.payload is None else json_value(arguments.payload, "--payload")
    return _send(arguments, workflow_calls.signal(remote.run_id(arguments.run), arguments.name, payload=payload))


def _pause(arguments: Arguments) -> int:
    return _send(arguments, workflow_calls.pause(remote.run_id(arguments.run)))


def _resume(arguments: Arguments) -> int:
    return _send(arguments, workflow_calls.resume(remote.run_id(arguments.run)))


def _send(arguments: Arguments, call: calls.Call[StepsView]) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        _print(out, client.send(call))
    return OK


def _print(out: Output, run: StepsView) -> None:
    if out.is_for_people:
        paused = ", paused" if run.is_paused else ""
        out.say(f"{run.job_name}  {run.execution_id}  {output.state_text(run.state)}{paused}")
    out.rows(_STEPS, run.steps, name=lambda step: step.execution_id)


def _situation(step: StepView) -> str:
    if step.state is None:
        return _UNMARKED
    if step.skip_reason is not None:
        return f"{step.state.value.lower()} ({step.skip_reason})"
    return f"{step.state.value.lower()}, waits for {step.waits_for}" if step.waits_for else step.state.value.lower()


def _progress(step: StepView) -> str:
    if step.items is None:
        return ""
    return f"{step.items.succeeded + step.items.failed}/{step.items.total}" + (f", {step.items.failed} failed" if step.items.failed else "")


_STEPS: Sequence[Column[StepView]] = (
    Column("step", lambda step: ("* " if step.is_critical else "  ") + step.name),
    Column("state", _situation),
    Column("after", lambda step: ", ".join(step.depends_on)),
    Column("items", _progress),
    Column("took", lambda step: "" if (bar := _bar(step)) is None or step.finished_at is None else took(bar.began, bar.ended)),
    Column("run", lambda step: step.execution_id),
)
_JOBS: Sequence[Column[JobView]] = (
    Column("name", lambda job: job.name),
    Column("state", lambda job: output.state_text(job.state)),
    Column("steps", lambda job: str(len(job.steps))),
    Column("when", lambda job: job.words),
    Column("next fire", lambda job: output.moment(job.next_fire_at) or ""),
)

COMMANDS = {
    "workflow": Group(
        "Workflows: jobs made of steps.",
        "duly workflow",
        {
            "list": Command("the workflows there are", _configure_list, _list, "duly workflow list"),
            "show": Command("a run with its steps; * marks the critical path", _configure_show, _show, "duly workflow show"),
            "graph": Command("the graph as SVG, of a workflow or a run", _configure_graph, _graph, "duly workflow graph"),
            "run": Command("begin a run", runs.run_options, runs.run, "duly workflow run", changes=True),
            "retry": Command(
                "do a run again, from a step on or what failed", _configure_retry, _retry, "duly workflow retry", changes=True
            ),
            "approve": Command("say yes to a step that waits for it", _configure_decision, _approve, "duly workflow approve", changes=True),
            "reject": Command("say no to a step that waits", _configure_decision, _reject, "duly workflow reject", changes=True),
            "signal": Command("tell a run something from outside", _configure_signal, _signal, "duly workflow signal", changes=True),
            "pause": Command("begin no step of a run", _configure_show, _pause, "duly workflow pause", changes=True),
            "resume": Command("let a paused run go on", _configure_show, _resume, "duly workflow resume", changes=True),
        },
    )
}
