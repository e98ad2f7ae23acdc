"""`duly verify` without a fleet: what it refuses, what it lists, and how it judges a history that was kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from duly.cli.main import main
from duly.verify.engines.engine import NAMES, engine_of
from duly.verify.faults import KINDS
from duly.verify.history import Fault, Final, History, save


def test_the_kinds_of_faults_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--only", "list"]) == 0

    named = [*KINDS, *(kind.name for name in NAMES for kind in engine_of(name).kinds)]
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == named


@pytest.mark.parametrize(
    ("words", "code", "names"),
    [
        (["--only", "explode"], 2, "explode"),
        (["--store", "mysql"], 2, "mysql"),
        (["--with", "memcached"], 2, "memcached"),
        (["--only", "redis-flush"], 2, "--with redis"),
        (["--minutes", "0"], 2, "number of minutes"),
        (["--check", "no-such-file.json"], 2, "DULY-E609"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], code: int, names: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", *words]) == code

    said = capsys.readouterr()
    assert names in said.err
    assert said.out == ""


def test_a_history_of_nothing_is_no_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(History(started_at=1, ended_at=2), tmp_path / "history.json")

    assert main(["verify", "--check", str(tmp_path), "--report", str(tmp_path / "again")]) == 1

    out = capsys.readouterr().out
    assert "too weak a test: nothing was broken" in out
    assert re.search("BROKEN: I0", out)
    assert {file.name for file in (tmp_path / "again").iterdir()} == {"report.json", "report.html"}


def test_what_was_drawn_and_never_done_is_too_weak(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = History(started_at=1, ended_at=2, final=Final(at=2), faults=[Fault(kind="kill", since=1, until=2)])
    history.about = {"planned": {"kill": 3, "pause": 2}, "deaths": {"worker-1": {"-11": 2, "6": 4}}}
    save(history, tmp_path / "history.json")

    assert main(["verify", "--check", str(tmp_path)]) == 1

    out = capsys.readouterr().out
    assert "no pause was done, of 2 that were drawn" in out
    assert "no kill" not in out
    assert "worker-1 ended by itself with status -11, 2 times" in out
    assert "status 6" not in out
