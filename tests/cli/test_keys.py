"""`duly key`, and the rule by which a worker finds its work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duly import config
from tests.cli.processes import Running, duly, environment


def test_a_key_is_made_used_listed_and_revoked(server: Running) -> None:
    made = server.duly("key", "create", "--role", "worker", "--name", "gpu-fleet", "--expires", "90d", "--json")
    key = json.loads(made.out)
    listed = server.duly("key", "list")
    refused = duly("ps", env={**server.client_environment, "DULY_KEY": key["secret"]})
    revoked = server.duly("key", "revoke", key["keyId"])

    assert (key["role"], key["name"]) == ("WORKER", "gpu-fleet")
    assert "shown this once" in made.err
    assert [row[:3] for row in listed.rows if row[0] == key["keyId"]] == [[key["keyId"], "gpu-fleet", "WORKER"]]
    assert key["secret"] not in listed.out
    assert "DULY-E303" in refused.err
    assert revoked.code == 0


def test_scripts_get_the_secret_alone(server: Running) -> None:
    made = server.duly("key", "create", "--role", "viewer", "--name", "board", "-o", "name", "--quiet")

    assert made.out.startswith("duly_")
    assert (made.out.count("\n"), made.err) == (1, "")


def test_a_key_that_is_not_there_is_not_revoked(server: Running) -> None:
    answer = server.duly("key", "revoke", "0123456789abcdef")

    assert answer.code != 0
    assert "DULY-E225" in answer.err


@pytest.mark.parametrize(
    ("variables", "flags", "is_remote"),
    [
        ({}, {}, False),
        ({"DULY_URL": "http://h"}, {}, True),
        ({"DULY_URL": "http://h", "DULY_STORE": "sqlite:///x.db"}, {}, False),
        ({"DULY_URL": "http://h"}, {"store": "sqlite:///x.db"}, False),
        ({"DULY_STORE": "sqlite:///x.db"}, {"url": "http://h"}, True),
    ],
)
def test_a_worker_goes_to_the_server_when_one_is_named_and_no_store_is(
    variables: dict[str, str], flags: dict[str, str], is_remote: bool
) -> None:
    assert config.load(variables, **flags).is_remote is is_remote


def test_two_ways_at_once_are_refused(tmp_path: Path) -> None:
    answer = duly("worker", "--server", "http://127.0.0.1:9", "--store", "sqlite:///x.db", env=environment(tmp_path))

    assert "contradict" in answer.err


def test_a_remote_worker_without_a_key_says_how_to_get_one(tmp_path: Path) -> None:
    answer = duly("worker", "--server", "http://127.0.0.1:9", env=environment(tmp_path))

    assert "DULY-E301" in answer.err
    assert "duly key create --role worker" in answer.err
