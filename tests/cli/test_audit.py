"""`duly audit`, and the reasons that commands give."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.fleet import eventually
from tests.cli.processes import Running


@pytest.fixture
def server(start: Callable[..., Running], tmp_path: Path) -> Running:
    """One of our own: what others do is recorded too."""
    return start("server", "--port", "0", home=tmp_path / "home").ready()


def intact(server: Running, links: int) -> str:
    """The head, once so many records have their link."""
    heads: list[str] = []

    def look() -> bool:
        chain = json.loads(server.duly("audit", "verify", "--json").out)
        assert chain["intact"]
        heads.append(f"{chain['head']['seq']}:{chain['head']['hash']}")
        return chain["head"]["seq"] >= links and not chain["waiting"]

    eventually(look, 30, "the records are linked")
    return heads[-1]


def run_of_the_page(directory: Path) -> subprocess.CompletedProcess[str]:
    """The check that the page shows, on an export in this directory."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "audit.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    return subprocess.run([sys.executable, "-c", code], cwd=directory, capture_output=True, text=True, timeout=60)


def test_a_deed_is_listed_exported_and_checked(server: Running, tmp_path: Path) -> None:
    made = json.loads(server.duly("job", "create", "--name", "mail", "--handler", "duly.echo", "--reason", "für Anna", "--json").out)
    server.duly("pause", "mail", "--reason", "too loud")
    server.duly("resume", "mail", "--reason", "quiet again")
    head = intact(server, 4)

    listed = server.duly("audit", "list", "--job", "mail", "--json")
    exported = server.duly("audit", "export")
    kept = tmp_path / "audit.ndjson"
    written = server.duly("audit", "export", str(kept), "--action", "job")
    compared = server.duly("audit", "verify", "--expect", head)

    assert [(item["action"], item["channel"], item["reason"]) for item in json.loads(listed.out)] == [
        ("job.resume", "cli", "quiet again"),
        ("job.pause", "cli", "too loud"),
        ("job.create", "cli", "für Anna"),
    ]
    lines = [json.loads(line) for line in exported.out.splitlines()]
    assert [(line["action"], line["channel"]) for line in lines[:2]] == [("key.create", "server"), ("job.create", "cli")]
    assert lines[1]["subject"] == made["jobId"]
    previous = bytes(32)
    for line in lines:
        hash = line.pop("hash")
        text = json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        previous = hashlib.sha256(previous + text.encode()).digest()
        assert previous.hex() == hash
    assert f"{len(lines)}:{previous.hex()}" == head
    assert [json.loads(line)["action"] for line in kept.read_text().splitlines()] == ["job.create", "job.pause", "job.resume"]
    (tmp_path / "audit.ndjson").write_text(exported.out)
    assert run_of_the_page(tmp_path).returncode == 0
    (tmp_path / "audit.ndjson").write_text(exported.out.replace("too loud", "too quiet"))
    assert "AssertionError" in run_of_the_page(tmp_path).stderr
    assert (written.out, written.err) == ("", "3 records.\n")
    assert (compared.code, head in compared.out) == (0, True)


def test_a_trail_that_was_tampered_with_is_not_passed(server: Running) -> None:
    server.duly("job", "create", "--name", "mail", "--handler", "duly.echo")
    head = intact(server, 2)
    with sqlite3.connect(server.home / "duly.db") as connection:
        connection.execute("DROP TRIGGER audit_no_update")
        connection.execute("UPDATE audit SET actor = 'somebody else' WHERE action = 'job.create'")
    connection.close()

    answer = server.duly("audit", "verify", "--expect", head)

    assert answer.code == 5
    assert "DULY-E273" in answer.err
    assert "the record of link 2 was changed" in answer.err


def test_a_wrong_head_is_not_passed(server: Running) -> None:
    intact(server, 1)

    answer = server.duly("audit", "verify", "--expect", f"1:{'0' * 64}")

    assert answer.code == 5
    assert "link 1 is not the one that was kept elsewhere" in answer.err


def test_a_run_is_asked_for_by_its_id(server: Running) -> None:
    answer = server.duly("audit", "list", "--run", "mail")

    assert answer.code == 2
    assert "is not the id of a run" in answer.err
