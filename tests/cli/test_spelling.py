"""Other words for commands, and what is done otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from duly.cli.main import MODULES, main
from duly.cli.parsing import Group
from duly.cli.spelling import ELSEWHERE, SAME, meant
from tests.cli.processes import Running


def test_other_words_mean_a_command_that_there_is() -> None:
    for words in SAME.values():
        tree = import_module(f"duly.cli.{MODULES[words[0]]}").COMMANDS[words[0]]
        assert len(words) == 1 or (isinstance(tree, Group) and words[1] in tree.commands), words
    for words in (*SAME, *ELSEWHERE):
        assert len(words) > 1 or words[0] not in MODULES, "a command of that name is not hidden"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("dlq", "dead"),
        ("dlq replay --all --dry-run", "dead replay --all --dry-run"),
        ("quota", "tenant show"),
        ("quota set acme --max-jobs 3", "tenant set acme --max-jobs 3"),
        ("queue list", "pool list"),
        ("queue show gpu", "pool show gpu"),
        ("db migrate", "db upgrade"),
        ("schedule skip nightly", "skip nightly"),
        ("job enable nightly", "job resume nightly"),
        ("worker drain:app", "worker drain:app"),
        ("ps", "ps"),
    ],
)
def test_words_are_read_as_they_are_meant(typed: str, expected: str) -> None:
    assert meant(typed.split()) == expected.split()


@pytest.mark.parametrize("words", [" ".join(words) for words in ELSEWHERE])
def test_what_is_done_otherwise_says_how(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words.split(), "it"]) == 2

    said = capsys.readouterr()
    assert said.out == ""
    assert f"There is no `duly {words}`." in said.err
    assert len(said.err.splitlines()) == 3, "with the way to go"


def test_aliases_do_what_they_stand_for(server: Running) -> None:
    server.duly("job", "create", "--name", "by-alias", "--cron", "0 3 * * *", "--handler", "duly.echo")

    assert server.duly("dlq", "list", "--json").code == 0
    assert server.duly("dlq", "-o", "name").code == 0
    assert "tenant" in server.duly("quota").out
    assert server.duly("queue", "list").rows[0][0] == "default"
    assert server.duly("schedule", "skip", "by-alias").code == server.duly("job", "enable", "by-alias").code == 0
    assert "duly dead" in server.duly("help", "dlq").out
    assert "Did you mean list?" in server.duly("queue", "lst").err


def test_one_pool_and_one_worker_are_shown(server: Running) -> None:
    pool = json.loads(server.duly("pool", "show", "default", "--json").out)
    workers = json.loads(server.duly("worker", "list", "--json").out)
    worker = json.loads(server.duly("worker", "show", workers[0]["workerId"], "--json").out)

    assert (pool["pool"], pool["workers"]) == ("default", 1)
    assert "served by" in server.duly("pool", "show", "default").out
    assert worker == {**workers[0], "running": worker["running"], "expiresAt": worker["expiresAt"], "clockSkewMs": worker["clockSkewMs"]}
    wrong = [server.duly("pool", "show", "defualt"), server.duly("worker", "show", "nobody"), server.duly("worker", "drain", "nobody")]
    assert [answer.code for answer in wrong] == [3, 3, 3]
    assert "Did you mean default?" in wrong[0].err
    refused = server.duly("worker", "drain", workers[0]["workerId"])
    assert refused.code == 5
    assert "SIGTERM" in refused.err


def test_a_worker_that_works_through_the_api_is_drained(start: Callable[..., Running], tmp_path: Path) -> None:
    # A server of its own: others count the workers of the one that they share.
    server = start("server", "--port", "0", home=tmp_path / "server").ready()
    key = json.loads(server.duly("key", "create", "--role", "worker", "--name", "drained", "--json").out)["secret"]
    away = start("worker", "--server", server.url, "--pool", "drained", home=tmp_path / "away", DULY_KEY=key).ready()

    [worker] = json.loads(server.duly("worker", "list", "--pool", "drained", "--json").out)
    answer = server.duly("worker", "drain", worker["name"], "-m", "an upgrade", "--json")

    assert (answer.code, json.loads(answer.out)["retired"]) == (0, False), answer.err
    assert json.loads(server.duly("worker", "show", worker["workerId"], "--json").out)["state"] == "DRAINING"
    away.kill()
