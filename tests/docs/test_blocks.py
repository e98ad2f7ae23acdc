"""Every block of every page: Python is executed, commands are read by `duly` itself, documents are parsed; the rest is excused by name."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from duly import App, Context
from duly.cli.main import MODULES
from duly.cli.parsing import Command, Group
from duly.domain.errors import DulyError

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^([ ]*)```([a-z]*)[^\n]*\n(.*?)^[ ]*```[ ]*$", re.DOTALL | re.MULTILINE)

# What is neither executed nor parsed here, and why that is enough.
EXCUSED = {
    "": "drawings and output, which no machine reads",
    "text": "settings of a deployment: test_tutorials reads them",
    "sql": "test_tutorials, test_explanations and the tests of transactions run it",
    "promql": "tests/deploy has every expression from the rules, and Prometheus reads those",
    "dockerfile": "a last stage of the reader's own, on an image that only he has",
    "ini": "systemd's own files are in deploy/, where tests/deploy checks them",
    "py": "needs a Django project: examples/django_shop is one, and tests/integrations run it; here it is compiled",
    "nginx": "for a program that is not ours",
}
NEEDS_MORE = {"docs/explanation/proof/checker.md": "a history of a real run: tests/verify checks many"}
# A page whose Python looks for a file that the reader has by then.
FILES = {"audit.md": ("audit.ndjson", "")}


def blocks(page: Path, *languages: str) -> list[str]:
    return [body for _, language, body in BLOCK.findall(page.read_text(encoding="utf-8")) if language in languages]


def having(*languages: str) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in PAGES if blocks(page, *languages)]


def test_every_language_is_looked_at_or_excused() -> None:
    found = {language for page in PAGES for _, language, _ in BLOCK.findall(page.read_text(encoding="utf-8"))}

    assert found - {"python", "py", "console", "sh", "json", "toml", "yaml"} <= EXCUSED.keys()


@pytest.mark.parametrize("page", [page for page in having("python") if page not in NEEDS_MORE])
def test_the_python_of_a_page_is_executed(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name, text = FILES.get(Path(page).name, (None, ""))
    if name is not None:
        (tmp_path / name).write_text(text)
    names: dict[str, Any] = {"__name__": "page", "app": App("page"), "Context": Context}

    for block in blocks(ROOT / page, "python"):
        exec(compile(block, page, "exec"), names)


@pytest.mark.parametrize("page", [*having("py"), *NEEDS_MORE])
def test_the_rest_of_the_python_is_python(page: str) -> None:
    for block in blocks(ROOT / page, "python", "py"):
        compile(block, page, "exec")


def commands(page: Path) -> list[list[str]]:
    """The words of each line that calls `duly`, without it; what a shell does with its answer is left out."""
    found = []
    for body in blocks(page, "console", "sh"):
        is_session = "\n$ " in f"\n{body}"
        for line in re.sub(r"\$\([^)]*\)", "X", body.replace("\\\n", " ")).splitlines():
            if is_session and not line.startswith("$ "):
                continue
            for part in re.split(r" (?:&&|\|) ", line.removeprefix("$ ").strip()):
                words = shlex.split(part, comments=True)
                while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                    words = words[1:]
                if words and words[0] in ("duly", ".venv/bin/duly"):
                    end = next((nth for nth, word in enumerate(words) if word in (">", ">>", "<", "2>")), len(words))
                    found.append(words[1:end])
    return found


def understood(words: list[str]) -> str | None:
    """What the command line has against these words."""
    if words[0] not in MODULES:
        return f"there is no command {words[0]}"
    tree = import_module(f"duly.cli.{MODULES[words[0]]}").COMMANDS[words[0]]
    rest = words[1:]
    if isinstance(tree, Group):
        if rest and rest[0] in tree.commands:
            tree, rest = tree.commands[rest[0]], rest[1:]
        elif tree.otherwise is not None:
            tree = tree.otherwise
        else:
            return f"{tree.path} has no {rest[:1]}"
    assert isinstance(tree, Command)
    own = rest[: rest.index("--")] if tree.takes_rest and "--" in rest else rest
    try:
        tree.parser().parse_intermixed_args(own)
    except (DulyError, argparse.ArgumentError, SystemExit, ValueError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("page", [page for page in having("console", "sh") if commands(ROOT / page)])
def test_the_commands_of_a_page_are_understood(page: str) -> None:
    assert {" ".join(words): trouble for words in commands(ROOT / page) if (trouble := understood(words)) is not None} == {}


def test_a_command_that_is_not_there_would_be_noticed() -> None:
    assert understood(["nothing"]) is not None
    assert understood(["job", "list", "--sorted-by-taste"]) is not None
    assert understood(["job", "list", "--state", "active"]) is None


@pytest.mark.parametrize("page", having("json", "toml", "yaml"))
def test_the_documents_of_a_page_can_be_read(page: str) -> None:
    for body in blocks(ROOT / page, "json"):
        json.loads(re.sub(r"…", "", body))
    for body in blocks(ROOT / page, "toml"):
        tomllib.loads(body)
    for body in blocks(ROOT / page, "yaml"):
        list(yaml.safe_load_all(body))
