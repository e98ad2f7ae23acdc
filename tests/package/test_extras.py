"""Every extra that somebody is told to install is one."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"].keys()
TOLD = re.compile(r"duly\[([a-z0-9_,-]+)\]")


def test_every_extra_that_the_documents_and_the_messages_name_is_there() -> None:
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py"), *(ROOT / "examples").rglob("*.md")]
    named = {extra for file in files for found in TOLD.findall(file.read_text(encoding="utf-8")) for extra in found.split(",")}

    assert "postgres" in named
    assert named - EXTRAS == set()


def test_every_extra_of_the_image_is_there() -> None:
    [extras] = re.findall(r"^ARG EXTRAS=(\S+)$", (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)

    assert set(extras.split(",")) - EXTRAS == set()
