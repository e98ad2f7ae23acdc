"""`duly dead` against a real server: a family of letters is made, looked at, replayed and put away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.processes import Running
from tests.cli.test_daily import created


@pytest.fixture
def letters(server: Running, request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, list[str]]:
    """A job of its own, and three runs of it that have died of the same."""
    job = f"dies-{abs(hash(request.node.name))}"
    created(server, "--name", job, "--handler", "duly.fail", "--retry", "1", "--payload", '{"times": 5}')
    return job, [server.duly("run", job, "--wait", "-o", "name").out.strip() for _ in range(3)]


def test_letters_are_listed_by_cause_and_one_by_one(server: Running, letters: tuple[str, list[str]]) -> None:
    job, runs = letters

    groups = json.loads(server.duly("dead", "--job", job, "--json").out)
    cause = groups[0]["cause"]
    alone = server.duly("dead")
    singles = server.duly("dead", "list", "--cause", cause, "-o", "name").out.split()
    shown = server.duly("dead", "show", runs[0])

    assert [(group["jobName"], group["count"], group["sample"]) for group in groups] == [(job, 3, runs[2])]
    assert alone.code == 0
    assert cause in alone.out
    assert singles == runs[::-1]
    assert "state\t✗ dead" in shown.out
    assert "its only attempt failed" in shown.err


def test_letters_are_replayed_with_canaries_and_put_away(server: Running, letters: tuple[str, list[str]]) -> None:
    job, runs = letters

    tried = json.loads(server.duly("dead", "replay", "--job", job, "--dry-run", "--json").out)
    payload = ("--payload", '{"times": 0}')
    first = json.loads(server.duly("dead", "replay", "--job", job, "--canary", "1", "--rate", "100/s", *payload, "--json").out)
    new = json.loads(server.duly("run", "show", runs[0], "--json").out)["replayedAs"]
    assert server.duly("logs", "-f", new).code == 0
    rest = json.loads(server.duly("batch", "continue", first["batchId"], "-n", "1", "--json").out)
    batch = json.loads(server.duly("batch", "show", first["batchId"], "--json").out)
    discarded = json.loads(server.duly("dead", "discard", "--job", job, "--json").out)

    assert (tried["batchId"], tried["matched"], tried["remaining"]) == (None, 3, 3)
    assert (first["done"], first["remaining"]) == (1, 2)
    assert (rest["done"], rest["remaining"]) == (1, 1)
    assert sum(batch["executions"].values()) == 2
    assert discarded["done"] == 1
    assert "No dead letters" in server.duly("dead", "--job", job).err


def test_a_single_letter_is_replayed_retried_and_discarded(server: Running, letters: tuple[str, list[str]]) -> None:
    _, runs = letters

    replayed = server.duly("dead", "replay", runs[0], "--payload", '{"times": 0}', "-o", "name").out.strip()
    retried = server.duly("run", "retry", runs[1], "-o", "name")
    discarded = json.loads(server.duly("dead", "discard", runs[2], "--json").out)
    again = server.duly("run", "retry", replayed)

    assert json.loads(server.duly("run", "show", runs[0], "--json").out)["replayedAs"] == replayed
    assert retried.out.strip() not in runs
    assert f"it runs again as {retried.out.strip()}" in retried.err
    assert discarded["discardedAt"] is not None
    assert again.code == 5
    assert "DULY-E231" in again.err


def test_what_is_meant_must_be_said(server: Running) -> None:
    nothing = server.duly("dead", "replay")
    both = server.duly("dead", "discard", "--all", "--job", "x")
    rate = server.duly("dead", "replay", "--all", "--rate", "fast")
    batch = server.duly("batch", "show", "batch_" + "0" * 32)

    assert (nothing.code, both.code, rate.code, batch.code) == (2, 2, 2, 3)
    assert "Which dead letters are meant is not clear" in nothing.err
    assert "DULY-E233" in batch.err
