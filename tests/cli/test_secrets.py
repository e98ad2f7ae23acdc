"""Secrets and encryption from the command line."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.processes import Running, duly, environment

TOKEN = "canary-cli-77f0a1"
KEY = base64.b64encode(bytes(range(32))).decode()


def test_a_command_gets_its_secret_and_nobody_else_does(start: Callable[..., Running], tmp_path: Path) -> None:
    server = start("up", "--port", "0", "--allow-shell", home=tmp_path / "home", cwd=tmp_path, DULY_SECRET_TOKEN=TOKEN).ready()
    command = ("--shell", "sh", "--env", "TOKEN=${secret:env:DULY_SECRET_TOKEN}", "--", "-c", 'echo "got $TOKEN"; test -n "$TOKEN"')
    made = server.duly("job", "create", "--name", "command", *command)
    ran = server.duly("run", "command", "--exit-status")

    assert (made.code, ran.code) == (0, 0), made.err + ran.err
    shown = [server.duly(*words).out for words in (("logs", "command"), ("job", "show", "command"), ("run", "list"))]
    assert "got ••••••" in shown[0]
    assert TOKEN not in "".join(shown)

    missing = server.duly("job", "create", "--name", "m", "--handler", "duly.echo", "--payload", '{"a": {"$secret": "env:DULY_SECRET_NO"}}')
    failed = server.duly("run", "m", "--exit-status")
    assert (missing.code, failed.code != 0) == (0, True)
    assert "env:DULY_SECRET_NO" in server.duly("run", "list", "--job", "m", "--output", "json").out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--handler", "duly.echo", "--payload", '{"a": {"$secret": "nonsense"}}'), "DULY-E141"),
        (("--handler", "duly.echo", "--payload", '{"a": {"$secret": {"value": "x"}}}'), "DULY-E142"),
        (("--handler", "duly.echo", "--payload", '{"$sealed": {}}'), "DULY-E143"),
        (("--url", "https://example.com/", "--header", "A=${secret:x}"), "DULY-E141"),
        (("--url", "https://example.com/", "--header", "A"), "DULY-E604"),
        (("--url", "https://example.com/", "--env", "A=b"), "DULY-E604"),
        (("--handler", "duly.echo", "--header", "A=b"), "DULY-E604"),
        (("--shell", "echo", "--env", "DULY_KEY=b"), "DULY-E114"),
        (("--shell", "echo", "${secret:env:A}"), "DULY-E141"),
    ],
)
def test_what_is_no_secret_is_refused(server: Running, words: tuple[str, ...], code: str) -> None:
    refused = server.duly("job", "create", "--name", "refused", *words)

    assert refused.code != 0
    assert code in refused.err


def test_the_doctor_says_when_payloads_cannot_be_read(start: Callable[..., Running], tmp_path: Path) -> None:
    if not os.environ.get("CI"):
        pytest.importorskip("cryptography", reason="pip install 'duly[encryption]'")
    server = start("up", "--port", "0", home=tmp_path, DULY_PAYLOAD_KEYS=f"k1:{KEY}").ready()
    made = server.duly(
        "job", "create", "--name", "echo", "--handler", "duly.echo", "--payload", '{"a": {"$secret": {"value": "hunter2!"}}}'
    )
    assert made.code == 0, made.err

    def payloads(**settings: str) -> list[dict[str, str]]:
        done = duly("doctor", "--output", "json", env=environment(tmp_path, DULY_URL=server.url, **settings))
        assert KEY not in done.out + done.err
        return [finding for finding in json.loads(done.out) if finding["check"] == "payloads"]

    assert [finding["verdict"] for finding in payloads(DULY_PAYLOAD_KEYS=f"k1:{KEY}")] == ["pass"]
    assert [finding["verdict"] for finding in payloads()] == ["warn"]
    assert "hunter2" not in server.duly("job", "show", "echo").out
