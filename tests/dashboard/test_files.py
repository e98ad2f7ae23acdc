"""What the dashboard ships: files of others as they were taken, and no more than a browser should have to load."""

from __future__ import annotations

import ast
import gzip
from pathlib import Path

import pytest

from duly.dashboard.assets import FILES
from scripts.vendor import FOLDERS, offences

SOURCE = Path(__file__).parents[2] / "src" / "duly" / "dashboard"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
def test_files_of_others_are_as_they_were_taken(folder: Path) -> None:
    assert offences(folder) == []


@pytest.mark.parametrize(("ending", "most"), [(".js", 120_000), (".css", 30_000)])
def test_all_scripts_and_styles_together_are_small(ending: str, most: int) -> None:
    together = sum(len(gzip.compress(content, 9)) for name, content in FILES.items() if name.endswith(ending))

    assert 0 < together <= most


def test_every_script_of_ours_is_checked_by_its_types() -> None:
    own = {name: content for name, content in FILES.items() if name.startswith("js/")}

    assert own
    assert [name for name, content in own.items() if not content.startswith(b"// @ts-check\n")] == []


def test_pages_reach_nothing_but_the_public_api() -> None:
    """The import contracts keep use cases and stores away; here nobody reaches them through the call."""
    reached = [
        f"{path.name}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "services"
    ]

    assert reached == []


def test_no_template_writes_script_or_style_into_a_page() -> None:
    """The policy would refuse it; and an attribute that is a handler is script too."""
    offences = [
        f"{path.name}: {word}"
        for path in sorted((SOURCE / "templates").rglob("*.html"))
        for word in (" style=", " onclick=", " onload=", " onsubmit=", "hx-on", "javascript:", "|safe")
        if word in path.read_text("utf-8").replace("{{ style|safe }}", "")
    ]

    assert offences == []
