"""Plan and apply: what a server would refuse is told before, and rows tell only what was done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

import pytest

from duly.cli import apply, output
from duly.domain.errors import Conflict, Invalid
from duly.sdk.calls import Call
from duly.sdk.client import Client
from tests.cli.processes import Running, duly

T = TypeVar("T")


def job(name: str, *lines: str) -> str:
    return "\n".join(["[[jobs]]", f'name = "{name}"', *lines, *([] if "steps" in " ".join(lines) else ['handler = "duly.echo"'])]) + "\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (job("faulty-zone", 'cron = "0 3 * * *"', 'tz = "Europe/Belin"'), "DULY-E103  {file}: faulty-zone: timezone: "),
        (job("faulty-day", 'cron = "0 0 31 2 *"'), "DULY-E102  {file}: faulty-day: schedule: "),
        (job("a b", 'cron = "0 3 * * *"'), "DULY-E114  {file}: a b: name: "),
        (job("faulty-hour", 'cron = "0 25 * * *"'), "DULY-E101  {file}: faulty-hour: schedule: "),
        (job("faulty-end", 'every = "15m"', 'end_at = "2001-01-01T00:00:00Z"'), "DULY-E102  {file}: faulty-end: schedule: "),
        (job("faulty-calendar", 'every = "15m"', 'calendars = ["no-such"]'), "DULY-E251  {file}: faulty-calendar: calendars: "),
        (
            job("faulty-alert", 'every = "15m"', 'alert = { missed_after = "15m", to = "nobody" }'),
            "DULY-E255  {file}: faulty-alert: alert.to: ",
        ),
        (
            job("faulty-steps", 'steps = [{ name = "a", depends_on = ["b"], target = { handler = "x" } }]'),
            "  {file}: faulty-steps: steps",
        ),
        (
            job("faulty-a", 'every = "1h"', 'after = [{ job = "faulty-b" }]')
            + job("faulty-b", 'every = "1h"', 'after = [{ job = "faulty-a" }]'),
            "DULY-E157  {file}: faulty-a: after: ",
        ),
    ],
)
def test_a_plan_refuses_what_the_server_would(server: Running, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text(text, encoding="utf-8")

    answers = [server.duly("plan", str(file)), server.duly("apply", str(file)), server.duly("apply", str(file), "--dry-run")]

    assert [(answer.code, answer.out) for answer in answers] == [(2, "")] * 3
    for answer in answers:
        assert said.format(file=file) in answer.err


def test_all_faults_are_told_at_once(server: Running, tmp_path: Path) -> None:
    one, other = tmp_path / "one.toml", tmp_path / "other.toml"
    one.write_text(
        job("many faults", 'cron = "0 25 * * *"') + job("many-zone", 'cron = "0 3 * * *"', 'tz = "Mars/Phobos"'), encoding="utf-8"
    )
    other.write_text(job("many-shape", "cron = 3") + job("many-more", 'every = "soon"'), encoding="utf-8")

    planned, read = server.duly("plan", str(one)), server.duly("plan", str(other), str(one))

    assert (planned.code, read.code) == (2, 2)
    told = ("many faults: name: ", "many faults: schedule: ", "many-zone: timezone: ")
    assert [planned.err.count(fault) for fault in told] == [1, 1, 1]
    assert "many-shape: " in read.err
    assert "many-more: every: " in read.err


def test_a_change_is_checked_as_a_new_job_is(server: Running, tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text(job("changes", 'cron = "0 3 * * *"'), encoding="utf-8")
    assert server.duly("apply", str(file)).code == 0

    file.write_text(job("changes", 'cron = "0 3 * * *"', 'tz = "Europe/Belin"'), encoding="utf-8")
    planned = server.duly("plan", str(file))

    assert (planned.code, planned.out) == (2, "")
    assert f"DULY-E103  {file}: changes: timezone: " in planned.err


def test_a_name_in_two_files_is_told(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / f"{name}.toml").write_text(job("in-both", 'every = "15m"'), encoding="utf-8")

    with pytest.raises(Invalid, match="in-both stands in"):
        apply._read([str(tmp_path / "one.toml"), str(tmp_path / "other.toml")])


def test_rows_tell_nothing_that_did_not_happen(server: Running, tmp_path: Path) -> None:
    """A quota that is used up is known to the server alone."""
    made = json.loads(server.duly("tenant", "create", "one-job", "--max-jobs", "1", "--json").out)
    file = tmp_path / "jobs.toml"
    env = {**server.client_environment, "DULY_KEY": made["key"]["secret"]}
    file.write_text(job("quota-1", 'every = "15m"'), encoding="utf-8")
    assert duly("apply", str(file), env=env).code == 0
    file.write_text(job("quota-2", 'every = "15m"'), encoding="utf-8")
    refused = duly("apply", str(file), env=env)

    assert (refused.code, refused.out) == (5, "")
    assert "DULY-E401" in refused.err


class Refusing(Client):
    """A server that refuses every change of a job, and takes what is new."""

    def send(self, call: Call[T]) -> T:
        if call.request.method == "PUT":
            raise Conflict("DULY-E209", "The job has changed meanwhile.")
        return super().send(call)


def test_what_was_done_in_part_is_told_in_part(server: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text(job("part-old", 'every = "15m"') + job("part-same", 'every = "15m"'), encoding="utf-8")
    assert server.duly("apply", str(file)).code == 0
    file.write_text(
        job("part-old", 'every = "20m"') + job("part-same", 'every = "15m"') + job("part-new", 'every = "15m"'), encoding="utf-8"
    )
    key = (server.home / "admin.key").read_text(encoding="utf-8").strip()
    with Refusing(server.url, key) as client:
        intents = apply.plan(client, apply._read([str(file)]))
        code = apply.carry_out(client, output.Output("tsv"), intents)

    said = capsys.readouterr()
    assert [one.verb for one in intents] == ["changed", "unchanged", "created"]
    assert code == 9
    assert [line.split("\t")[:2] for line in said.out.splitlines()[1:]] == [["part-same", "unchanged"], ["part-new", "created"]]
    assert "part-old: DULY-E209" in said.err
