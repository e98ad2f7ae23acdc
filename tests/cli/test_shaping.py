"""Formats, fields, watching, dry runs and completion."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as some

from duly.cli import completion
from duly.cli.main import TREE, main
from duly.cli.shaping import chosen, columns_of, quoted, written
from duly.domain.errors import Invalid
from tests.cli.processes import Running

JSON = some.recursive(
    some.none() | some.booleans() | some.integers(-(10**9), 10**9) | some.text(some.characters(codec="utf-8"), max_size=20),
    lambda inner: (
        some.lists(inner, max_size=4)
        | some.dictionaries(some.text(some.characters(codec="ascii", min_codepoint=32), max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
def test_yaml_says_what_json_says(value: Any) -> None:
    assert yaml.safe_load(written(value)) == value


def test_a_cell_with_commas_and_quotes_is_quoted() -> None:
    assert [quoted(cell) for cell in ("plain", "a,b", 'say "x"')] == ["plain", '"a,b"', '"say ""x"""']


def test_fields_are_chosen_by_either_name_and_unknown_ones_are_named() -> None:
    item = {"jobId": "job_1", "name": "a", "nextFireAt": None}

    assert chosen(item, ["next_fire_at", "name"]) == {"nextFireAt": None, "name": "a"}
    assert [column.shown(item) for column in columns_of([], ["name", "job_id", "nextFireAt"])] == ["a", "job_1", ""]
    with pytest.raises(Invalid, match="nam") as raised:
        chosen(item, ["nam"])
    assert raised.value.hint == "Did you mean name?"


@pytest.mark.parametrize(
    ("words", "begins"),
    [
        (("-o", "csv"), "at,local,note\n2026-01-01T03:00:00Z,2026-01-01T03:00:00+00:00,\n"),
        (("-o", "csv", "--fields", "local"), "local\n2026-01-01T03:00:00+00:00\n"),
        (("-o", "yaml", "--fields", "words"), "words: "),
        (("-o", "json", "--fields", "words"), '{\n  "words": '),
    ],
)
def test_every_format_is_there(words: tuple[str, ...], begins: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cron", "0 3 * * *", "-n", "1", "--after", "2026-01-01T00:00:00Z", *words]) == 0
    assert capsys.readouterr().out.startswith(begins)


@pytest.mark.parametrize("format", ["tsv", "csv", "json", "jsonl", "yaml", "table"])
def test_a_field_that_is_not_there_leaves_nothing_on_standard_output(server: Running, format: str) -> None:
    answer = server.duly("job", "list", "--fields", "nme", "-o", format)

    assert (answer.code, answer.out) == (2, "")
    assert "Did you mean name?\n" in answer.err


def test_a_dry_run_shows_what_it_does_not_send(server: Running) -> None:
    server.duly("job", "create", "--name", "dry", "--cron", "0 3 * * *", "--handler", "duly.echo")

    answer = server.duly("pause", "dry", "-m", "move", "--dry-run")

    assert answer.code == 0
    assert answer.out.startswith("POST /v1/jobs/job_")
    assert '/pause {"reason":"move"' in answer.out
    assert "was not sent" in answer.err
    listed = server.duly("job", "list", "--search", "dry", "-o", "yaml", "--fields", "name,state")
    assert yaml.safe_load(listed.out) == [{"name": "dry", "state": "ACTIVE"}]


def test_watching_repeats_until_it_is_interrupted(start: Callable[..., Running], tmp_path: Path) -> None:
    running = start("cron", "0 3 * * *", "-n", "1", "--watch=100ms", "-o", "name", home=tmp_path)

    for _ in range(3):
        running.until("T03:00:00Z")
    running.signal(signal.SIGINT)

    assert running.end() == 130
    assert main(["resume", "x", "--watch"]) == 2


def test_completion_knows_the_whole_tree() -> None:
    words = completion.words_after()

    assert set(words[""]) == {name for _, commands in TREE for name, _, _ in commands}
    assert "list" in words["job"]
    assert "--fields" in words["job list"]
    assert "bash" in words["completion"]
    assert main(["completion", "tcsh"]) == 2


@pytest.mark.parametrize(
    ("line", "expected"),
    [("duly comp", "completion"), ("duly job cre", "create"), ("duly job list --fie", "--fields"), ("duly completion z", "zsh")],
)
def test_bash_completes(line: str, expected: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert shutil.which("bash")
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "duly.bash"
    script.write_text(capsys.readouterr().out, encoding="utf-8")
    words = line.split(" ")
    ask = f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _duly; printf '%s\\n' \"${{COMPREPLY[@]}}\""

    said = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True).stdout.split()

    assert expected in said
    assert all(word.startswith(words[-1]) for word in said)


def test_the_other_shells_have_theirs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out.startswith("#compdef duly\n")
    assert main(["completion", "fish"]) == 0
    assert (
        "complete -c duly -n '__fish_seen_subcommand_from job; and __fish_seen_subcommand_from list' -l fields" in capsys.readouterr().out
    )
    assert main(["completion", "pwsh"]) == 0
    said = capsys.readouterr().out
    assert "Register-ArgumentCompleter -Native -CommandName duly" in said
    assert re.search(r"^    'job list' = '[^']*--fields[^']*'$", said, re.MULTILINE)
    assert said.count("{") == said.count("}")


@pytest.mark.skipif(shutil.which("pwsh") is None, reason="this machine has no PowerShell: its completion was only read, not run")
def test_powershell_completes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["completion", "pwsh"]) == 0
    script = tmp_path / "duly.ps1"
    script.write_text(capsys.readouterr().out, encoding="utf-8")
    line = "duly job list --fie"
    complete = f"[System.Management.Automation.CommandCompletion]::CompleteInput('{line}', {len(line)}, $null)"
    ask = f". {script}; {complete}.CompletionMatches.CompletionText"

    said = subprocess.run(["pwsh", "-NoProfile", "-Command", ask], capture_output=True, text=True, check=True).stdout.split()

    assert said == ["--fields"]
