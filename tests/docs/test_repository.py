"""What stands around the sources: forms for issues, a container for developers, the way ahead."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from duly.cli.doctor import COMMANDS
from tests.docs.test_blocks import understood

ROOT = Path(__file__).parents[2]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
KINDS = {"markdown", "textarea", "input", "dropdown", "checkboxes"}


@pytest.mark.parametrize("form", [form for form in FORMS if form.name != "config.yml"], ids=lambda form: form.stem)
def test_a_form_is_one(form: Path) -> None:
    found = yaml.safe_load(form.read_text(encoding="utf-8"))
    ids = [part["id"] for part in found["body"] if "id" in part]

    assert {"name", "description", "body"} <= found.keys()
    assert {part["type"] for part in found["body"]} <= KINDS
    assert len(set(ids)) == len(ids)
    for part in found["body"]:
        assert part["attributes"]["value" if part["type"] == "markdown" else "label"]
    assert any(part.get("validations", {}).get("required") for part in found["body"])


def test_a_bug_comes_with_what_the_doctor_says() -> None:
    [bug] = [form for form in FORMS if form.stem == "bug"]
    parts = yaml.safe_load(bug.read_text(encoding="utf-8"))["body"]

    [asked] = [part for part in parts if part["attributes"].get("label") == "duly doctor --json"]
    assert asked["validations"]["required"]
    assert "doctor" in COMMANDS
    for words in (["doctor", "--json"], ["why", "RUN", "--json"], ["why", "JOB", "--at", "2026-01-01T00:00:00Z"]):
        assert understood(words) is None


def test_the_container_for_developers_runs_what_contributors_run() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    command = container["postCreateCommand"]
    assert command.startswith("make ")
    assert re.search(rf"^{command.removeprefix('make ')}:", makefile, re.MULTILINE)
    version = tuple(map(int, re.findall(r"python:(\d+)\.(\d+)", container["image"])[0]))
    assert version >= (3, 11)
