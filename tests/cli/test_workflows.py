"""Workflows on the command line: apply a file, run, look, draw, approve, do again."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from duly.cli.apply import read_jobs
from duly.domain.errors import Invalid
from duly.domain.target import Target
from duly.domain.workflow.picture import Node, draw_graph, draw_timeline, layout
from duly.domain.workflow.step import Step
from duly.domain.workflow.timeline import Bar, critical_path
from tests.chaos.fleet import eventually
from tests.cli.processes import Running

FLOW = """
[[jobs]]
name = "etl"
[[jobs.steps]]
name = "list"
target = {handler = "duly.echo"}
payload = [1, 2]
[[jobs.steps]]
name = "each"
map = "list"
target = {handler = "duly.echo"}
[[jobs.steps]]
name = "release"
dependsOn = ["each"]
approval = {}
"""


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    for text in ("", "[[jobs]]\n", "[[jobs]]\nname = 'a'\nnobody = 1\n", "x = 1\n", "[[jobs"):
        (tmp_path / "a.toml").write_text(text, encoding="utf-8")
        with pytest.raises(Invalid):
            read_jobs(tmp_path / "a.toml")


def test_the_picture_of_a_graph_is_svg_and_always_the_same() -> None:
    target = Target(handler="work")
    steps = [
        Step(name="a", target=target),
        Step(name="b", after=("a",), target=target),
        Step(name="c<&>", after=("a",), target=target),
        Step(name="d", after=("b", "c<&>"), target=target),
        Step(name="undo", compensates="a", target=target),
    ]
    bars = [Bar("a", (), 0, 5), Bar("b", ("a",), 5, 9), Bar("c<&>", ("a",), 5, 20), Bar("d", ("b", "c<&>"), 20, 22)]

    picture = draw_graph(steps, {"a": Node("SUCCEEDED", "1 s", True)}, "a <workflow>")

    assert picture == draw_graph(steps, {"a": Node("SUCCEEDED", "1 s", True)}, "a <workflow>")
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    assert ElementTree.fromstring(draw_timeline(bars, {})).tag.endswith("svg")
    places = layout(steps)
    assert len(set(places.values())) == len(steps)
    assert places["a"].column < places["b"].column == places["c<&>"].column < places["d"].column
    assert critical_path(bars) == ["a", "c<&>", "d"]


def test_a_workflow_is_applied_run_looked_at_approved_and_done_again(server: Running, tmp_path: Path) -> None:
    file = tmp_path / "flows.toml"
    file.write_text(FLOW, encoding="utf-8")
    assert "created" in server.duly("apply", str(file)).out
    assert "unchanged" in server.duly("apply", str(file)).out
    file.write_text(FLOW.replace("[1, 2]", "[1, 2, 3]"), encoding="utf-8")
    assert "changed" in server.duly("apply", str(file), "--dry-run").out
    assert "changed" in server.duly("apply", str(file)).out
    assert "etl" in server.duly("workflow", "list").out

    run = server.duly("workflow", "run", "etl", "-o", "name").out.strip()

    def states() -> dict[str, str | None]:
        return {step["name"]: step["state"] for step in json.loads(server.duly("workflow", "show", run, "--json").out)}

    eventually(lambda: states()["release"] == "BLOCKED", 30, "it waits for the approval")
    assert "3/3" in server.duly("workflow", "show", run).out
    assert server.duly("workflow", "graph", "etl").out.startswith("<svg")
    assert server.duly("workflow", "graph", run, "--timeline").out.startswith("<svg")
    assert server.duly("workflow", "signal", run, "nobody-waits").code == 0
    assert "approve" in server.duly("why", run).err + server.duly("why", run).out
    assert server.duly("workflow", "reject", run, "--because", "no").code == 0
    again = server.duly("workflow", "retry", run, "-o", "name").out.strip()
    run = again
    eventually(lambda: states()["release"] == "BLOCKED", 30, "what had succeeded is taken over")
    assert server.duly("workflow", "approve", run, "release").code == 0
    eventually(lambda: json.loads(server.duly("run", "show", run, "--json").out)["state"] == "SUCCEEDED", 30, "the run ended")


def test_a_job_that_waits_for_another_is_created_and_applied(server: Running, tmp_path: Path) -> None:
    nightly = ("--cron", "0 4 * * *", "--handler", "duly.echo")
    made = json.loads(server.duly("job", "create", "--name", "waits", *nightly, "--after", "extract", "--after", "clean", "--json").out)
    file = tmp_path / "jobs.toml"
    file.write_text(
        '[[jobs]]\nname = "waits-too"\nschedule = "0 4 * * *"\ntarget = {handler = "duly.echo"}\n'
        'after = [{job = "waits", withinSec = 7200, onDeadline = "run"}]\n',
        encoding="utf-8",
    )

    assert [one["job"] for one in made["after"]] == ["extract", "clean"]
    assert "extract of the same day; skips after 24 h" in server.duly("job", "show", "waits").out
    assert "created" in server.duly("apply", str(file)).out
    assert "waits of the same day; runs after 2 h" in server.duly("job", "show", "waits-too").out
