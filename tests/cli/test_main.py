"""The tree, the words, the exit codes, and what starting costs."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from duly import config
from duly.cli import errors
from duly.cli.completion import words_after
from duly.cli.main import MODULES, TREE, main, overview
from duly.domain.codes import CODES
from duly.domain.errors import Conflict, DulyError, Forbidden, Invalid, NotFound, TooLarge, Unavailable
from scripts import reference
from tests.cli.processes import duly, environment

HEAVY = ("asyncio", "asyncpg", "duly.compose", "httpx", "rich", "starlette", "typer", "uvicorn", "uvloop")


def loaded_by(*words: str) -> set[str]:
    """The modules that a command has imported when it ends."""
    code = f"""
import json, sys
from duly.cli.main import main
try:
    main({list(words)!r})
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], env=environment(Path("nowhere")), capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_help_imports_nothing_but_the_table() -> None:
    loaded = loaded_by("--help")

    assert not loaded & {*HEAVY, "argparse", "http.client", "msgspec", "duly.config", "duly.domain"}


@pytest.mark.parametrize("words", [("ps", "-h"), ("run", "-h"), ("job", "list", "-h"), ("cron", "0 3 * * *"), ("help", "E204"), ("ps",)])
def test_daily_verbs_start_without_the_server(words: tuple[str, ...]) -> None:
    assert not loaded_by(*words) & set(HEAVY)


def test_import_duly_is_light_and_gives_every_public_name() -> None:
    code = """
import sys, duly
assert not {"asyncio", "duly.compose", "msgspec"} & set(sys.modules)
for name in duly.__all__:
    getattr(duly, name)
assert set(duly.__all__) <= set(dir(duly))
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_public_name_that_is_not_there_is_an_attribute_error() -> None:
    import duly as package

    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = package.Nothing


def test_every_command_is_in_the_overview_and_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for _, commands in TREE:
        for name, _, summary in commands:
            assert f"  {name:<11} {summary}" in overview()
            with contextlib.suppress(SystemExit):
                main([name, "--help"])
            assert f"duly {name}" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["help"], ["-h"], ["--help"]])
def test_without_a_command_the_overview_is_shown(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert capsys.readouterr().out == overview()


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["pss"], "There is no command 'pss'.", "Did you mean ps?"),
        (["--colour"], "There is no option '--colour'.", "duly --help"),
        (["ps", "--outptu", "json"], "`duly ps` does not take '--outptu'.", "Did you mean --output"),
        (["ps", "-o", "xml"], "invalid choice: 'xml'", "Usage: duly ps"),
        (["job", "lst"], "`duly job` has no 'lst'.", "Did you mean list?"),
        (["cron"], "The following arguments are required: EXPRESSION", "Usage: duly cron"),
        (["cron", "0 3 * * *", "-n", "0"], "invalid count value: '0'", "Usage: duly cron"),
        (["up", "--port", "http"], "invalid whole number value: 'http'", "Usage: duly up"),
    ],
)
def test_words_that_are_not_understood_end_with_2(words: list[str], message: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(words)

    said = capsys.readouterr()
    assert code == errors.USAGE
    assert said.out == ""
    assert said.err.startswith("✗ DULY-E604  ")
    assert message in said.err
    assert hint in said.err
    assert "More: duly help E604" in said.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DulyError("DULY-E599", "x"), 1),
        (Invalid("DULY-E601", "x"), 1),
        (Invalid("DULY-E602", "x"), 1),
        (Invalid("DULY-E101", "x"), 2),
        (TooLarge("DULY-E109", "x"), 2),
        (NotFound("DULY-E204", "x"), 3),
        (Forbidden("DULY-E302", "x"), 4),
        (Conflict("DULY-E208", "x"), 5),
        (Unavailable("DULY-E603", "x"), 6),
    ],
)
def test_every_kind_of_error_has_its_exit_code(error: DulyError, code: int) -> None:
    assert errors.exit_code(error) == code


def test_an_error_names_the_field_the_way_out_and_the_request(capsys: pytest.CaptureFixture[str]) -> None:
    error = Invalid("DULY-E106", "must be a whole number.", field="limit", hint="From 1 to 200.")
    error.add_note("request req_17")

    errors.report(error)

    assert (
        capsys.readouterr().err
        == "✗ DULY-E106  limit: must be a whole number.\n  From 1 to 200.\n  More: duly help E106   (request req_17)\n"
    )


@pytest.mark.parametrize("spelling", ["E204", "e204", "DULY-E204", "duly-e204"])
def test_help_explains_a_code_offline(spelling: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", spelling]) == 0

    assert capsys.readouterr().out.startswith("DULY-E204  No such job\n\n  It does not exist in this key's tenant.")


def test_help_knows_every_code(capsys: pytest.CaptureFixture[str]) -> None:
    for code in CODES.values():
        assert main(["help", code.code]) == 0
        assert code.title in capsys.readouterr().out


def test_help_for_a_code_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "E999"]) == errors.NOT_FOUND
    assert "There is no error code 'E999'" in capsys.readouterr().err


def test_every_module_of_the_tree_has_its_commands() -> None:
    from importlib import import_module

    for name, module in MODULES.items():
        assert name in import_module(f"duly.cli.{module}").COMMANDS


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("duly 0.")
    assert main(["version", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"duly", "python", "sqlite", "tzdata", "platform"}


def test_config_show_names_the_origin_and_masks_secrets(tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("duly_the_key_of_this_test\n")
    env = environment(tmp_path / "home", DULY_SLOTS="7", DULY_STORE="postgresql://me:hunter2@db/duly", DULY_KEY_FILE=str(secret))

    answer = duly("config", "show", env=env)

    rows = {row[0]: row[1:3] for row in answer.rows}
    assert answer.code == 0
    assert rows["DULY_SLOTS"] == ["7", "DULY_SLOTS"]
    assert rows["DULY_PORT"] == ["3859", "default"]
    assert rows["DULY_STORE"] == ["postgresql://me:…@db/duly", "DULY_STORE"]
    assert rows["DULY_KEY"] == ["…", "DULY_KEY_FILE"]
    assert "hunter2" not in answer.out + answer.err
    assert "duly_the_key" not in answer.out + answer.err


def test_config_show_hides_nothing_that_is_no_secret(tmp_path: Path) -> None:
    env = environment(tmp_path, DULY_TRANSPORT="kafka://me:hunter2@k:9092", DULY_HOT_INDEX="redis://r:6379/0")

    rows = {row[0]: row[1] for row in duly("config", "show", env=env).rows}

    assert rows["DULY_LEASES"] == "store"
    assert rows["DULY_HOT_INDEX"] == "redis://r:6379/0"
    assert rows["DULY_TRANSPORT"] == "kafka://me:…@k:9092"
    plain = {row[0]: row[1] for row in duly("config", "show", env=environment(tmp_path)).rows}
    assert (plain["DULY_HOT_INDEX"], plain["DULY_TRANSPORT"]) == ("memory", "store")


def test_settings_that_are_misspelled_or_wrong_are_told(tmp_path: Path) -> None:
    odd = {
        "DULY_PROT": "1",
        "DULY_STORE_FIEL": "x",
        "DULY_SECRET_TOKEN": "x",
        "DULY_JOB": "x",
        "DULY_SERVICE_PORT": "1",
        "DULY_PORT_80_TCP": "x",
    }

    shown, examined = (duly(*words, env=environment(tmp_path, **odd)) for words in (("config", "show"), ("doctor", "--json")))
    wrong = duly("config", "show", env=environment(tmp_path, DULY_PORT="abc", DULY_SLOTS="many"))

    assert shown.code == 0
    assert shown.err.count("Did you mean") == 2
    assert "DULY_PROT is not a setting. Did you mean DULY_PORT?" in shown.err
    assert "DULY_STORE_FIEL is not a setting. Did you mean DULY_STORE_FILE?" in shown.err
    assert examined.out.count("is set, and is not a setting") == 2
    assert wrong.code == 1
    assert "DULY_PORT: expected a number" in wrong.err
    assert "DULY_SLOTS: expected a number" in wrong.err
    assert "3859 is the default" in wrong.err


def test_the_package_is_the_command(tmp_path: Path) -> None:
    answer = subprocess.run([sys.executable, "-m", "duly", "version"], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert answer.stdout.startswith(f"duly {config.VERSION}")


def test_help_of_a_noun_that_is_a_verb_too_has_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0

    shown = capsys.readouterr().out
    assert "--dry-run" in shown
    assert "--reason" in shown
    assert "--parent" not in " ".join(words_after()["worker"])
    assert "SUPPRESS" not in reference.commands()


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    answer = duly("ps", env=environment(tmp_path / "home", DULY_SLOTS="many"))

    assert answer.code == 1
    assert "✗ DULY-E601  DULY_SLOTS: expected a number from 1 to 100000." in answer.err
