"""An execution in words."""

from __future__ import annotations

from typing import Any

import pytest

from duly.cli.execution_text import progress_text


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (None, None),
        ({"done": 30, "total": 200, "message": "reading"}, "30 of 200 (15 %)  reading"),
        ({"done": 7}, "7"),
        ({"done": 0, "total": 0}, "0 of 0"),
        ([1, 2], "[1,2]"),
    ],
)
def test_progress_is_shown_as_far_as_it_is_known(progress: Any, text: str | None) -> None:
    assert progress_text(progress) == text
