"""The checker of the worker protocol: our server and our workers keep every rule, and who breaks one is caught."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.cli import conformance
from duly.cli.conformance import ends, server, worker
from duly.cli.conformance.probe import Book, Probe, Stage, Verdict
from tests.chaos.conftest import store_url  # noqa: F401 (a fixture)
from tests.chaos.fleet import KEY, Fleet
from tests.cli.processes import duly, environment
from tests.cli.tampering import tampered

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ALL = server.BOOK + ends.BOOK


@pytest.fixture
def fleet(store_url: str, tmp_path: Path) -> Iterator[Fleet]:  # noqa: F811
    made = Fleet(store_url, tmp_path, DULY_KEY=KEY)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def sqlite_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server on SQLite."""
    directory = tmp_path_factory.mktemp("server")
    made = Fleet(f"sqlite:///{directory / 'duly.db'}", directory)
    made.start_api("server")
    yield made.url
    made.stop()


def rules(*words: str) -> Book:
    """The rules whose text has one of these words."""
    found = Book([rule for rule in ALL.rules if any(word in rule.expected for word in words)])
    assert len(found.rules) >= len(words)
    return found


def broken(book: Book, url: str) -> list[Verdict]:
    probe = Probe(url, KEY)
    return [verdict for verdict in book.verdicts(lambda pool: Stage(probe, pool)) if not verdict.holds]


def test_there_are_enough_rules_and_each_says_something_of_its_own() -> None:
    texts = [rule.expected for rule in (*ALL.rules, *worker.BOOK.rules)]

    assert len(ALL.rules) >= 25
    assert len(set(texts)) == len(texts)


def test_our_server_keeps_every_rule(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start_api("server")

    checked = duly("conformance", fleet.url, "--key", KEY, "--json", env=environment(tmp_path))

    verdicts = [json.loads(line) for line in checked.out.splitlines()]
    assert [verdict for verdict in verdicts if not verdict["holds"]] == []
    assert len(verdicts) == len(ALL.rules)
    assert checked.code == 0
    assert fleet.call("GET", "/v1/jobs?state=ACTIVE")["items"] == [], "it left jobs behind"
    counts = fleet.call("GET", "/v1/stats")["executions"]
    assert not any(counts.get(state) for state in ("SCHEDULED", "PENDING", "RUNNING")), "it left executions behind"


@pytest.mark.parametrize("way", ["store", "server"])
def test_our_worker_keeps_every_rule(fleet: Fleet, tmp_path: Path, way: str) -> None:
    fleet.start_api("server")
    member = fleet.start("worker", "--pool", "tested", *(("--server", fleet.url) if way == "server" else ()))
    member.wait_for("Ctrl-C stops it")

    def name() -> str:
        [found] = [found for found in fleet.call("GET", "/v1/workers")["items"] if found["pool"] == "tested"]
        return str(found["name"])

    checked = duly("conformance", fleet.url, "--key", KEY, "--worker", _first(name), env=environment(tmp_path))

    assert checked.out.endswith(f"{len(worker.BOOK.rules)} rules, 0 broken.\n"), checked.out
    assert checked.code == 0


def _first(name: Any) -> str:
    from tests.chaos.fleet import eventually

    found: list[str] = []

    def look() -> bool:
        try:
            found.append(name())
        except ValueError:
            return False
        return True

    eventually(look, 30, "the worker has registered")
    return found[0]


def test_a_server_that_accepts_stale_fences_is_caught(sqlite_server: str) -> None:
    def tamper(path: str, status: int, body: Any) -> tuple[int, Any]:
        return (200, {"executionId": "run_x", "state": "SUCCEEDED", "nextAttemptAt": None}) if status == 409 else (status, body)

    with tampered(sqlite_server, tamper=tamper) as url:
        caught = broken(rules("a fence that is not the lease's", "complete after fail", "complete makes it"), url)

    assert len(caught) == 2
    assert all(verdict.seen.startswith("200") for verdict in caught)


def test_a_server_that_keeps_cancels_to_itself_is_caught(sqlite_server: str) -> None:
    def tamper(path: str, status: int, body: Any) -> tuple[int, Any]:
        return status, {**body, "stop": []} if path.endswith("/heartbeat") and status == 200 else body

    with tampered(sqlite_server, tamper=tamper) as url:
        [caught] = broken(rules("told by the next heartbeat", "heartbeats keep a worker"), url)

    assert caught.seen == "0 before, 0 after"


def test_a_server_that_forgets_which_leases_are_known_is_caught(sqlite_server: str) -> None:
    def meddle(path: str, body: Any) -> Any:
        return {**body, "known": []} if path.endswith("/lease") and isinstance(body, dict) else body

    with tampered(sqlite_server, meddle=meddle) as url:
        [caught] = broken(rules("a lease that is known", "does not name as known"), url)

    assert caught.seen.startswith("200")


def test_a_server_that_answers_without_problem_documents_is_caught(sqlite_server: str) -> None:
    def tamper(path: str, status: int, body: Any) -> tuple[int, Any]:
        return (status, {"error": "no"}) if status >= 400 else (status, body)

    with tampered(sqlite_server, tamper=tamper) as url:
        caught = broken(rules("malformed bodies", "nobody knows", "never registered", "every registration"), url)

    assert len(caught) == 3


def test_a_server_that_hands_one_execution_to_two_workers_is_caught(sqlite_server: str) -> None:
    leased: list[Any] = []

    def tamper(path: str, status: int, body: Any) -> tuple[int, Any]:
        if not path.endswith("/lease"):
            return status, body
        if status == 200:
            leased.append(body)
        elif status == 204 and leased:
            # The first who comes too late is given what somebody else has.
            again = leased[0]
            leased.clear()
            return 200, again
        return status, body

    with tampered(sqlite_server, tamper=tamper) as url:
        [caught] = broken(rules("leased to two workers"), url)

    assert caught.seen.endswith("20 different, of 20")


def test_a_broken_rule_is_the_commands_exit_code(
    sqlite_server: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def tamper(path: str, status: int, body: Any) -> tuple[int, Any]:
        return (status, {**body, "ttlSec": 99}) if path == "/v1/workers" and status == 201 else (status, body)

    monkeypatch.setattr(server, "BOOK", rules("registering answers 201", "every registration"))
    monkeypatch.setattr(ends, "BOOK", Book())

    with tampered(sqlite_server, tamper=tamper) as url:
        code = conformance.COMMANDS["conformance"].run([url, "--key", KEY])

    assert code == 1
    printed = capsys.readouterr().out
    assert "✗  1  registering answers 201" in printed
    assert "✓  2  every registration" in printed
    assert printed.endswith("2 rules, 1 broken.\n")


def test_a_server_that_is_away_is_no_verdict(tmp_path: Path) -> None:
    checked = duly("conformance", "http://127.0.0.1:9", "--key", KEY, env=environment(tmp_path))

    assert (checked.code, checked.out) != (0, "")
    assert "DULY-E603" in checked.err
