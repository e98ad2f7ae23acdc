"""The pictures of the example workflows are what the examples are."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts.graphs import TARGET, pictures

PAGE = TARGET.parent / "workflows.md"


@pytest.mark.parametrize("name", sorted(pictures()))
def test_a_picture_is_what_the_example_says(name: str) -> None:
    assert (TARGET / name).read_text(encoding="utf-8") == pictures()[name], "run `python -m scripts.graphs`"


def test_every_picture_is_an_image_that_the_page_shows_and_no_other_lies_there() -> None:
    shown = {Path(link).name for link in re.findall(r"\]\((workflows/[a-z]+\.svg)\)", PAGE.read_text(encoding="utf-8"))}

    assert shown == set(pictures()) == {path.name for path in TARGET.iterdir()}
    for text in pictures().values():
        assert ElementTree.fromstring(text).tag.endswith("svg")
