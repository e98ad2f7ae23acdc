"""`duly capacity`: plans from files, the jobs of a server, what-if options, and words for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duly.cli.main import main
from duly.domain.capacity.costs import POSTGRES
from duly.wire.capacity import costs_text
from tests.cli.processes import Running

PLAN = """
oneMachine = true
databaseCores = 4

[pools.reports]
workers = 2
slots = 10

[[classes]]
name = "report"
pool = "reports"
jobs = 100
schedule = "0 2 * * *"
duration = "30s"
"""
WHEN = ["--from", "2026-11-17T01:30:00Z", "--horizon", "1h"]


@pytest.fixture
def plan(tmp_path: Path) -> str:
    file = tmp_path / "plan.toml"
    file.write_text(PLAN)
    return str(file)


def answered(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object]]:
    code = main(["capacity", *words, *WHEN, "--json"])
    view: dict[str, object] = json.loads(capsys.readouterr().out)
    return code, view


def test_people_hear_what_is_short_and_what_would_do(plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["capacity", plan, *WHEN, "-o", "table"])
    told = capsys.readouterr()

    assert code == 1
    assert told.out.splitlines()[0] == (
        "✗ reports: NOT enough: 20 slots, 99 needed at 02:00 UTC; starts up to 2 min late, worst minute 02:00 UTC; "
        "100 slots (10 workers of 10) or spreading the schedule would do"
    )
    assert "POOL" in told.out
    assert "100 executions of 100 jobs" in told.err


def test_enough_workers_end_well(plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, view = answered(capsys, plan, "--pool", "reports=13x10")

    [pool] = view["pools"]  # type: ignore[misc]
    assert (code, view["verdict"]) == (0, "fine")
    assert (pool["slots"], pool["peakBusy"], pool["succeeded"]) == (130, 100, 100)
    assert pool["latenessMaxMs"] < 1000


def test_what_if_there_were_more(plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, once = answered(capsys, plan)
    _, thrice = answered(capsys, plan, "--times", "3")

    assert (once["due"], thrice["due"]) == (100, 300)
    assert thrice["diskBytesADay"] == pytest.approx(3 * once["diskBytesADay"], rel=0.001)  # type: ignore[operator]
    assert thrice["connections"] == once["connections"]


def test_programs_get_rows(plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["capacity", plan, *WHEN, "-o", "tsv", "-q"])
    head, row = capsys.readouterr().out.splitlines()
    values = dict(zip(head.split("\t"), row.split("\t"), strict=True))

    assert (values["pool"], values["verdict"], values["due"], values["slotsNeeded"]) == ("reports", "short", "100", "99")


def test_a_plan_may_be_json_and_a_retention_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.json"
    file.write_text(
        json.dumps({"pools": {"default": {}}, "classes": [{"name": "a", "perSecond": 2, "duration": {"p50": 0.1, "p95": 0.4}}]})
    )
    _, day = answered(capsys, str(file), "--retention", "1d")
    _, month = answered(capsys, str(file), "--retention", "30d")

    assert month["diskBytes"] == pytest.approx(30 * day["diskBytes"], rel=0.01)  # type: ignore[operator]


def test_jobs_with_a_hash_of_their_own_do_not_meet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.toml"
    file.write_text('[pools.default]\nslots = 100\n[[classes]]\nname = "a"\njobs = 600\nschedule = "H * * * *"\nduration = "20s"\n')
    _, view = answered(capsys, str(file))

    [pool] = view["pools"]  # type: ignore[misc]
    assert pool["fires"] == 600
    assert pool["peakBusy"] < 60, "ten a minute, give or take"


def test_costs_of_another_machine_are_taken(plan: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "costs.json"
    file.write_text(costs_text(POSTGRES))
    _, with_file = answered(capsys, plan, "--costs", str(file))
    _, without = answered(capsys, plan)
    file.write_text(costs_text(POSTGRES).replace(f'"executionDisk": {POSTGRES.execution_disk}', '"executionDisk": 1000000'))
    _, dear = answered(capsys, plan, "--costs", str(file))

    assert with_file == without
    assert dear["diskBytesADay"] == 100 * 1_000_000 * 24


@pytest.mark.parametrize(
    ("text", "words", "code"),
    [
        ("classes = []", [], "DULY-E281"),
        ('[[classes]]\nname = "a"', [], "DULY-E281"),
        ('[[classes]]\nname = "a"\nschedule = "0 2 * * *"\nperSecond = 1', [], "DULY-E281"),
        ('[[classes]]\nname = "a"\nschedul = "0 2 * * *"', [], "DULY-E281"),
        ('[[classes]]\nname = "a"\nschedule = "0 2 * * *"\ncalendars = ["x"]', [], "DULY-E281"),
        ("this is no TOML", [], "DULY-E281"),
        ('[[classes]]\nname = "a"\nschedule = "99 2 * * *"', [], "DULY-E101"),
        ('[[classes]]\nname = "a"\nperSecond = 1\nduration = {p50 = "9s", p95 = "1s"}', [], "DULY-E282"),
        ('[[classes]]\nname = "a"\nperSecond = 1\nduration = "soon"', [], "DULY-E104"),
        (PLAN, ["--pool", "reports"], "DULY-E283"),
        (PLAN, ["--pool", "reports=axb"], "DULY-E283"),
        (PLAN, ["--servers", "0"], "DULY-E283"),
        (PLAN, ["--times", "0"], "DULY-E281"),
        (PLAN, ["--horizon", "40d"], "DULY-E284"),
        (PLAN, ["--horizon", "1m"], "DULY-E284"),
        ('engine = "mysql"\n' + PLAN, [], "DULY-E285"),
    ],
)
def test_what_is_wrong_is_said(text: str, words: list[str], code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(text)

    assert main(["capacity", str(file), *WHEN, *words]) == 2
    assert code in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{}", "[", costs_text(POSTGRES).replace('"round": ', '"round": -')])
def test_costs_that_are_none_are_refused(text: str, plan: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "costs.json"
    file.write_text(text)

    assert main(["capacity", plan, *WHEN, "--costs", str(file)]) == 2
    assert "DULY-E285" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["plan.toml", "plan.json"])
def test_a_file_in_another_encoding_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / name
    text = '{"classes": [{"name": "über", "perSecond": 1}]}' if name.endswith("json") else '[[classes]]\nname = "über"\nperSecond = 1\n'
    file.write_bytes(text.encode("latin-1"))

    assert main(["capacity", str(file)]) == 2

    assert "DULY-E281" in capsys.readouterr().err


def test_so_little_that_nothing_is_due_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.toml"
    file.write_text('[[classes]]\nname = "a"\nperSecond = 0.0001\n', encoding="utf-8")

    assert main(["capacity", str(file), "--horizon", "1h"]) == 2

    assert "DULY-E284" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capacity", "no-such-plan.toml"]) == 2
    assert "no-such-plan.toml cannot be read" in capsys.readouterr().err


def test_the_jobs_of_a_server_are_planned_with_what_they_took(server: Running) -> None:
    name = "capacity-every-minute"
    made = server.duly("job", "create", "--name", name, "--cron", "* * * * *", "--handler", "duly.echo")
    assert made.code == 0, made.err
    assert server.duly("run", name, "--exit-status").code == 0

    answer = server.duly("capacity", "--horizon", "1h", "--json")
    view = json.loads(answer.out)

    assert answer.code in (0, 1), answer.err
    assert view["due"] >= 60
    pools = {pool["pool"]: pool for pool in view["pools"]}
    assert pools["default"]["workers"] == 1
    assert pools["default"]["fires"] >= 60
