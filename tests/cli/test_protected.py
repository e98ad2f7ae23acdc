"""A protected context shows itself, and asks before wide changes."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from duly import config
from duly.cli.main import main
from tests.cli.processes import DULY, Answer, Running, duly, environment
from tests.cli.test_contexts import place as place
from tests.cli.test_daily import created


@pytest.fixture
def prod(server: Running, tmp_path: Path) -> dict[str, str]:
    """Where `prod` is the context in use, and `calm` is another one of the same server."""
    env = environment(tmp_path / "home", XDG_CONFIG_HOME=str(tmp_path / "config"))
    where = ("--url", server.url, "--key-file", str(server.home / "admin.key"))
    assert duly("context", "add", "prod", *where, "--use", env=env).code == 0
    assert duly("context", "add", "calm", *where, env=env).code == 0
    return env


def at_a_terminal(*words: str, env: Mapping[str, str], typed: str = "") -> Answer:
    """What a person sees who types that."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([*DULY, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        os.write(ours, typed.encode())
        seen = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:
                break
            if not part:
                break
            seen += part
        code = process.wait()
    os.close(ours)
    return Answer(code, seen.decode(), "")


@pytest.fixture
def letters(server: Running, request: pytest.FixtureRequest) -> str:
    job = f"wide-{abs(hash(request.node.name))}"
    created(server, "--name", job, "--handler", "duly.fail", "--retry", "1", "--payload", '{"times": 9}')
    server.duly("run", job, "--wait")
    return job


def test_wide_changes_need_a_yes_where_nobody_can_be_asked(prod: dict[str, str], letters: str) -> None:
    words = ("dead", "discard", "--job", letters)

    refused, tried = duly(*words, env=prod), duly(*words, "--dry-run", env=prod)

    assert (refused.code, refused.out) == (5, "")
    assert "PROD: discard 1 dead letters?" in refused.err
    assert "--yes" in refused.err
    assert tried.code == 0
    assert duly("dead", "replay", "--job", letters, env=prod).code == 5
    assert duly("batch", "abort", "batch_0198c2d5a4e87f3b9c1d2e3f4a5b6c7d", env=prod).code == 5
    assert duly(*words, "--dry-run", "--context", "calm", env=prod).code == 0
    assert duly(*words, "--yes", env=prod).code == 0


def test_what_is_not_protected_does_not_ask(prod: dict[str, str], letters: str) -> None:
    assert duly("dead", "discard", "--job", letters, "--context", "calm", env=prod).code == 0


def test_files_and_backfills_are_wide(prod: dict[str, str], server: Running, tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text('[[jobs]]\nname = "wide-file"\nevery = "1h"\nhandler = "duly.echo"\n', encoding="utf-8")
    span = ("--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T03:00:00Z")

    assert [duly("apply", str(file), *words, env=prod).code for words in ((), ("--dry-run",), ("--yes",), ())] == [5, 0, 0, 0]
    assert duly("backfill", "wide-file", *span, env=prod).code == 5
    assert duly("backfill", "wide-file", *span, "--dry-run", env=prod).code == 0


def test_a_person_is_shown_where_they_are_and_asked(prod: dict[str, str], letters: str) -> None:
    looked = at_a_terminal("job", "list", "--search", letters, env=prod)
    elsewhere = at_a_terminal("job", "list", "--search", letters, "--context", "calm", env=prod)
    no, yes = (at_a_terminal("dead", "discard", "--job", letters, env=prod, typed=f"{word}\n") for word in ("n", "y"))

    assert " PROD " in looked.out
    assert " PROD " not in elsewhere.out
    assert (no.code, yes.code) == (5, 0), (no.out, yes.out)
    assert "PROD: discard 1 dead letters? [y/N]" in no.out
    assert "PROD" not in duly("job", "list", env=prod).err, "a badge is for people"


def test_any_context_may_be_protected_and_prod_may_not(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["context", "add", "live", "--url", "https://live.example.com", "--protected"]) == 0
    assert main(["context", "add", "prod", "--url", "https://prod.example.com", "--unprotected", "--use"]) == 0
    assert main(["context", "add", "test", "--url", "https://test.example.com"]) == 0

    assert [config.protected_context(name) for name in ("live", "prod", "test", None)] == ["live", None, None, None]
    assert config.load(context="live").url == "https://live.example.com"
    monkeypatch.setenv("DULY_URL", "http://127.0.0.1:4000")
    assert config.protected_context("live") is None, "the environment says where to"
