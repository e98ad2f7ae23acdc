"""`duly mcp` as an assistant starts it: a process, and lines of JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from duly.cli.mcp.protocol import LARGEST_ANSWER, Protocol, Tool
from duly.domain.errors import NotFound
from tests.cli.processes import DULY, Running


class Assistant:
    """A client of one process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._number = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._number += 1
        print(json.dumps({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}), file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert answer["id"] == self._number
        return answer

    def call(self, tool: str, **arguments: Any) -> tuple[bool, str]:
        result = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        return result["isError"], result["content"][0]["text"]


@contextmanager
def assistant(server: Running, *words: str) -> Iterator[Assistant]:
    process = subprocess.Popen(
        [*DULY, "mcp", *words], env=server.client_environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Assistant(process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        assert process.wait(timeout=60) == 0
        process.stdout.close()


def test_an_assistant_looks_and_cannot_act(server: Running) -> None:
    run = server.duly("run", "broken", "--wait", "-o", "name").out.strip()

    with assistant(server) as client:
        hello = client.ask("initialize", protocolVersion="2024-11-05", capabilities={}, clientInfo={"name": "test", "version": "1"})[
            "result"
        ]
        names = {tool["name"]: tool for tool in client.ask("tools/list")["result"]["tools"]}
        _, jobs = client.call("list_jobs", search="broken")
        _, execution = client.call("show_execution", execution=run)
        _, why = client.call("why", execution=run)
        _, letters = client.call("list_dead_letters", job="broken")
        _, logs = client.call("read_logs", execution=run)
        _, upcoming = client.call("list_upcoming", limit=3)
        wrong, missing = client.call("show_job", job="brokn")
        refused = client.ask("tools/call", name="run_job", arguments={"job": "broken"})

    assert hello["protocolVersion"] == "2024-11-05"
    assert all(tool["annotations"]["readOnlyHint"] for tool in names.values())
    assert json.loads(jobs)["items"][0]["name"] == "broken"
    assert json.loads(execution)["state"] == "DEAD"
    assert json.loads(execution)["attempts"]
    assert json.loads(why)["reasons"]
    assert "no such table: orders" in letters
    assert "about to fail" in logs
    assert "items" in json.loads(upcoming)
    assert wrong
    assert "DULY-E204" in missing
    assert "Did you mean broken" in missing
    assert refused["error"]["message"] == "There is no tool 'run_job'."


def test_what_was_allowed_can_be_done_and_nothing_else(server: Running) -> None:
    server.duly("job", "create", "--name", "mcp-job", "--cron", "0 3 * * *", "--handler", "duly.echo")

    with assistant(server, "--allow", "pause", "--allow", "resume") as client:
        names = {tool["name"] for tool in client.ask("tools/list")["result"]["tools"] if not tool["annotations"]["readOnlyHint"]}
        _, paused = client.call("pause_job", job="mcp-job", reason="asked to")
        _, resumed = client.call("resume_job", job="mcp-job")

    assert names == {"pause_job", "resume_job"}
    assert (json.loads(paused)["state"], json.loads(paused)["pauseReason"]) == ("PAUSED", "asked to")
    assert json.loads(resumed)["state"] == "ACTIVE"


def _protocol() -> Protocol:
    def missing(given: Any) -> Any:
        raise NotFound("DULY-E204", "There is no such job.", hint="Look again.")

    return Protocol(
        "duly",
        "1",
        "",
        [
            Tool("echo", "", {"text": {"type": "string"}, "n": {"type": "integer"}}, ("text",), lambda given: given["text"]),
            Tool("missing", "", {}, (), missing),
        ],
    )


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("{", -32700),
        ("[]", -32600),
        ('{"jsonrpc": "2.0", "id": 1}', -32600),
        ('{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', -32601),
        ('{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}', -32602),
        ('{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "nothing"}}', -32602),
        ("[" * 200_000, -32700),
        (" " * (1 << 20) + "{", -32600),
    ],
)
def test_what_is_no_request_is_an_error_and_never_the_end(line: str, code: int) -> None:
    answer = _protocol().answer(line)

    assert answer is not None
    assert json.loads(answer)["error"]["code"] == code


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "text: is missing"),
        ({"text": 1}, "type string"),
        ({"text": "a", "n": True}, "type integer"),
        ({"text": "a", "x": 1}, "x: is not known"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], text: str) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "echo", "arguments": arguments}})

    result = json.loads(_protocol().answer(line) or "")["result"]

    assert result["isError"]
    assert text in result["content"][0]["text"]


def test_a_notification_has_no_answer_and_a_long_answer_is_cut() -> None:
    protocol = _protocol()
    long = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "x" * 200_000}}})

    assert protocol.answer('{"jsonrpc": "2.0", "method": "notifications/initialized"}') is None
    assert json.loads(protocol.answer('{"jsonrpc": "2.0", "id": "a", "method": "ping"}') or "") == {
        "jsonrpc": "2.0",
        "id": "a",
        "result": {},
    }
    text = json.loads(protocol.answer(long) or "")["result"]["content"][0]["text"]
    assert LARGEST_ANSWER < len(text) < LARGEST_ANSWER + 100
