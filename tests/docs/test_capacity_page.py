"""The page about `duly capacity`: its plan is a plan, its answer is the answer, and it knows every option."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from duly.cli.capacity import COMMANDS
from duly.cli.main import main
from duly.cli.parsing import Parser
from duly.wire.capacity import ClassShape

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "capacity.md").read_text(encoding="utf-8")


def test_the_worked_example_says_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [plan] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    [console] = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    command, *lines = console.splitlines()
    (tmp_path / "plan.toml").write_text(plan)
    monkeypatch.chdir(tmp_path)

    code = main([*shlex.split(command.removeprefix("$ duly ")), "-o", "table"])

    assert code == 1
    assert [_without_costs(line) for line in capsys.readouterr().out.splitlines()[: len(lines)]] == list(map(_without_costs, lines))


def _without_costs(line: str) -> str:
    """What suffices says so with figures that change with the unit costs; what is short for want of slots does not."""
    return re.sub(r"[0-9][0-9,.:]*( [kMGT]?B)?", "#", line) if line.startswith("✓") else line


def test_every_option_has_a_row() -> None:
    parser = Parser("duly capacity", "")
    COMMANDS["capacity"].configure(parser)  # type: ignore[union-attr]
    options = {option for action in parser._actions for option in action.option_strings if option.startswith("--")} - {"--help"}
    section = PAGE.partition("## Options")[2].partition("## Costs")[0]

    assert set(re.findall(r"`(--[a-z-]+)`", section)) - {"--tolerance 30s"} == options


def test_every_key_of_a_class_of_its_own_is_named() -> None:
    section = PAGE.partition("## What a class says")[2].partition("## Options")[0]
    own = set(ClassShape.__struct_encode_fields__) - set(ClassShape.__mro__[1].__struct_encode_fields__)

    assert own - set(re.findall(r"`([A-Za-z]+)`", section)) == set()
