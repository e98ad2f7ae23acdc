"""The named statements: one text for one name."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from duly.adapters.sql.statements import _files


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_no_two_files_of_an_engine_give_a_name_two_texts(engine: str) -> None:
    shared = _files("neither")
    own = _files(engine)[len(shared) :]

    for files in (shared, own):
        names = Counter(name for text in files for name in re.findall(r"^-- name: (\w+)$", text, re.MULTILINE))
        assert [name for name, times in names.items() if times > 1] == []
