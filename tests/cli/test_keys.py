"""`duly key`, and the rule by which a worker finds its work."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
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


def make(server: Running, name: str, *more: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(server.duly("key", "create", "--role", "worker", "--name", name, *more, "--json").out)
    return made


@pytest.mark.parametrize("by", ["keyId", "name", "prefix", "secret", "beginning"])
def test_a_key_is_rotated_and_revoked_by_whatever_names_it_alone(server: Running, by: str) -> None:
    old = make(server, f"turned-by-{by}", "--pool", "etl", "--pool", "mail")
    word = old["keyId"][:8] if by == "beginning" else old[by]

    rotated = server.duly("key", "rotate", word, "--overlap", "10m", "--json")
    new = json.loads(rotated.out)

    assert rotated.code == 0, rotated.err
    assert (new["name"], new["pools"], new["replaces"]) == (old["name"], ["etl", "mail"], old["keyId"])
    assert new["replaced"]["expiresAt"] is not None
    assert "shown this once" in rotated.err
    assert server.duly("key", "revoke", new["prefix"]).code == 0
    rows = {row["keyId"]: row for row in json.loads(server.duly("key", "list", "--json").out)}
    assert rows[new["keyId"]]["revokedAt"] is not None
    assert rows[old["keyId"]]["replacedBy"] == new["keyId"]


def test_a_name_of_two_keys_names_neither(server: Running) -> None:
    ids = [make(server, "twins")["keyId"] for _ in range(2)]

    answer = server.duly("key", "revoke", "twins")

    assert answer.code != 0
    assert all(id in answer.err for id in ids)
    assert server.duly("key", "revoke", ids[0]).code == 0
    # What has ended is hardly meant.
    assert server.duly("key", "revoke", "twins").code == 0


def test_the_only_admin_key_is_not_revoked(server: Running) -> None:
    answer = server.duly("key", "revoke", "first admin key")

    assert answer.code != 0
    assert "DULY-E306" in answer.err
    assert server.duly("ps").code == 0


def test_a_link_logs_a_browser_in(server: Running) -> None:
    answer = server.duly("login", "--role", "viewer", "-o", "name")
    url = answer.out.strip()

    with httpx.Client(trust_env=False) as browser:
        page = browser.get(url)
        entered = browser.post(f"{server.url}/login", data={"token": url.partition("=")[2]}, headers={"origin": server.url})
        session = browser.get(f"{server.url}/v1/session").json()

    assert url.startswith(f"{server.url}/login?token=duly_")
    assert "works once" in answer.err
    assert (page.status_code, entered.status_code) == (200, 303)
    assert (session["role"], session["channel"]) == ("VIEWER", "dashboard")


def test_a_worker_whose_key_does_not_open_its_pool_says_so(server: Running, start: Callable[..., Running], tmp_path: Path) -> None:
    secret = make(server, "mail-only", "--pool", "mail")["secret"]

    worker = start("worker", "--server", server.url, "--pool", "etl", home=tmp_path / "home", DULY_KEY=secret)

    assert "does not open the pool etl" in worker.until("pool etl.")


def test_a_revoked_key_is_cut_off_on_another_server_while_it_listens(
    server: Running, start: Callable[..., Running], tmp_path: Path
) -> None:
    other = start("api", "--port", "0", home=server.home, cwd=tmp_path).ready()
    key = json.loads(server.duly("key", "create", "--role", "viewer", "--name", "listener", "--json").out)
    server.duly("job", "create", "--name", "long-nap", "--handler", "duly.sleep", "--payload", '{"seconds": 300}')
    run = server.duly("run", "long-nap", "-o", "name").out.strip()
    headers = {"authorization": f"Bearer {key['secret']}", "accept": "text/event-stream"}

    with httpx.Client(base_url=other.url, headers=headers, trust_env=False, timeout=60) as client:
        with client.stream("GET", f"/v1/executions/{run}/logs") as stream:
            assert stream.status_code == 200
            assert server.duly("key", "revoke", "listener").code == 0
            rest = "".join(stream.iter_text())
        refused = client.get("/v1/jobs")

    assert "event: end" not in rest
    assert refused.status_code == 401
    assert server.duly("run", "cancel", run).code == 0


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
