"""What changes something can be tried first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duly import config
from duly.cli.main import main
from tests.cli.processes import Running, duly, environment
from tests.cli.test_contexts import place as place


def test_a_store_is_upgraded_only_without_a_dry_run(tmp_path: Path) -> None:
    env = environment(tmp_path)

    tried, done, again = (duly("db", "upgrade", *words, env=env) for words in (("--dry-run",), (), ("--dry-run",)))

    assert [answer.code for answer in (tried, done, again)] == [0, 0, 0]
    assert tried.out.startswith("0001_")
    assert "would be applied" in tried.err
    assert again.out == ""
    assert duly("db", "migrate", "--dry-run", env=env).code == 0


def test_no_store_is_made_by_a_dry_run(tmp_path: Path) -> None:
    assert duly("db", "upgrade", "--dry-run", env=environment(tmp_path)).code == 0
    assert not (tmp_path / "duly.db").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("tenant", "create", "tried-only"),
        ("tenant", "set", "default", "--weight", "7"),
        ("tenant", "key", "default"),
        ("key", "create", "--role", "viewer", "--name", "tried-only"),
    ],
)
def test_tenants_and_keys_are_tried(server: Running, words: tuple[str, ...]) -> None:
    answer = server.duly(*words, "--dry-run", "--reason", "to see")

    assert answer.code == 0, answer.err
    assert answer.out.split()[0] in ("POST", "PUT", "PATCH")
    assert "was not sent" in answer.err
    assert "tried-only" not in server.duly("tenant", "list").out + server.duly("key", "list").out
    assert json.loads(server.duly("tenant", "show", "--json").out)["weight"] != 7


def test_contexts_are_tried(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("prod", "--url", "https://duly.example.com")
    assert main(["context", "add", *words, "--dry-run"]) == 0
    assert not config.contexts_file().exists()
    assert '[contexts.prod]\nurl = "https://duly.example.com"' in capsys.readouterr().out
    assert main(["context", "add", *words]) == 0
    kept = config.contexts_file().read_text(encoding="utf-8")

    assert main(["context", "use", "prod", "--dry-run"]) == main(["context", "remove", "prod", "--dry-run"]) == 0
    assert config.contexts_file().read_text(encoding="utf-8") == kept


def test_a_first_application_is_tried(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "shop", "--dry-run"]) == 0

    assert capsys.readouterr().out.split() == ["shop_jobs.py", "duly.toml"]
    assert list(Path.cwd().iterdir()) == []
