"""Settings from files and contexts: which wins, what is refused, and what is never betrayed."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from duly import config
from duly.cli.main import main
from duly.config.files import NAMES, merged
from duly.domain.errors import Invalid


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to stand in, with a home of its own."""
    import os

    for name in [name for name in os.environ if name.startswith("DULY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "duly").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def _origins() -> dict[str, tuple[str, str]]:
    return {setting.name: (text, origin) for setting, text, origin in config.origins()}


def test_flags_win_over_the_environment_over_the_project_over_the_user_over_defaults(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = place / "config" / "duly" / "config.toml"
    user.write_text('slots = 1\nchildren = 1\npool = "users"\nlog_level = "debug"\n', encoding="utf-8")
    (place / "project" / "pyproject.toml").write_text("[tool.duly]\nslots = 2\nchildren = 2\n", encoding="utf-8")
    assert (config.load().slots, config.load().pool) == (2, "users")

    (place / "project" / "duly.toml").write_text(
        'slots = 3\nchildren = 3\nlabels = ["gpu", "region=eu"]\nwebhook_http = true\n', encoding="utf-8"
    )
    monkeypatch.setenv("DULY_SLOTS", "4")
    settings = config.load(children=5)

    assert (settings.slots, settings.children, settings.pool, settings.log_level, settings.port) == (4, 5, "users", "debug", 3859)
    assert settings.labels == {"gpu": "", "region": "eu"}
    assert settings.webhook_http
    origins = _origins()
    assert origins["DULY_SLOTS"] == ("4", "DULY_SLOTS")
    assert origins["DULY_CHILDREN"] == ("3", "duly.toml")
    assert origins["DULY_POOL"] == ("users", str(user))
    assert origins["DULY_PORT"] == ("3859", "default")
    assert config.load({"DULY_SLOTS": "9"}).children != 3, "an environment that is given is all there is"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slotz = 3\n", "Did you mean slots?"),
        ("slots = [1]\n", "must be text"),
        ("slots = \n", "is not TOML"),
        ("config = 'x'\n", "is not a setting"),
    ],
)
def test_a_file_that_is_wrong_is_named(place: Path, text: str, message: str) -> None:
    (place / "project" / "duly.toml").write_text(text, encoding="utf-8")

    with pytest.raises(Invalid) as raised:
        config.load()

    assert raised.value.code == "DULY-E601"
    assert message in f"{raised.value.message} {raised.value.hint}"


def test_a_secret_may_be_a_file_and_the_stronger_layer_decides_about_both(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "secret").write_text("duly_from_a_file\n", encoding="utf-8")
    (place / "config" / "duly" / "config.toml").write_text('key = "duly_in_the_users_file"\n', encoding="utf-8")
    assert config.load().key == "duly_in_the_users_file"

    monkeypatch.setenv("DULY_KEY_FILE", str(place / "secret"))

    assert config.load().key == "duly_from_a_file"


@pytest.mark.parametrize("file", ["duly.toml", "pyproject.toml"])
def test_a_users_key_is_not_sent_where_only_the_project_says(place: Path, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    head = "" if file == "duly.toml" else "[tool.duly]\n"
    (place / "project" / file).write_text(f'{head}url = "https://evil.example.com"\n', encoding="utf-8")
    assert config.load().url == "https://evil.example.com"

    monkeypatch.setenv("DULY_KEY", "duly_mine")
    with pytest.raises(Invalid, match="not sent there"):
        config.load()
    monkeypatch.setenv("DULY_URL", "https://evil.example.com")
    assert config.load().key == "duly_mine", "now somebody has said both"

    monkeypatch.delenv("DULY_URL")
    (place / "project" / file).write_text(f'{head}url = "http://127.0.0.1:4000"\n', encoding="utf-8")
    assert config.load().url == "http://127.0.0.1:4000"


def test_contexts_are_added_used_listed_and_removed(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "prod.key").write_text("duly_prod", encoding="utf-8")
    assert main(["context", "add", "prod", "--url", "https://duly.example.com", "--key-file", str(place / "prod.key"), "--use"]) == 0
    assert main(["context", "add", "test", "--url", "https://test.example.com"]) == 0
    assert main(["context", "add", "test", "--url", "https://test.example.com"]) == 5
    kept = place / "config" / "duly" / "contexts.toml"

    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "duly_prod" not in kept.read_text(encoding="utf-8")
    assert (config.load().url, config.load().key) == ("https://duly.example.com", "duly_prod")
    assert _origins()["DULY_URL"] == ("https://duly.example.com", "context prod")
    assert config.load(context="test").url == "https://test.example.com"
    monkeypatch.setenv("DULY_CONTEXT", "test")
    assert config.load().url == "https://test.example.com"
    monkeypatch.setenv("DULY_CONTEXT", "prd")
    with pytest.raises(Invalid, match="no context") as raised:
        config.load()
    assert raised.value.hint == "Did you mean prod?"
    monkeypatch.delenv("DULY_CONTEXT")
    capsys.readouterr()
    assert main(["context", "list", "--json"]) == 0
    assert [(row["name"], row["inUse"]) for row in json.loads(capsys.readouterr().out)] == [("prod", True), ("test", False)]
    assert main(["context", "use", "test"]) == 0
    assert main(["context", "use", "tset"]) == 3
    assert main(["context", "remove", "test"]) == 0
    assert config.load().url == "http://127.0.0.1:3859"


def test_a_context_by_flag_stands_above_the_project_and_one_in_use_below_it(place: Path) -> None:
    main(["context", "add", "prod", "--url", "https://prod.example.com", "--use"])
    (place / "project" / "duly.toml").write_text('url = "http://127.0.0.1:4000"\n', encoding="utf-8")

    assert config.load().url == "http://127.0.0.1:4000"
    assert config.load(context="prod").url == "https://prod.example.com"


def test_the_schema_names_every_key_of_a_file(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "schema"]) == 0

    schema = json.loads(capsys.readouterr().out)
    assert set(schema["properties"]) == {*NAMES, "stores"}
    assert schema["additionalProperties"] is False
    assert merged({})[1] == {}
