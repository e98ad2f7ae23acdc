"""Cursors are opaque, and nothing else is taken for one."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.errors import Invalid
from duly.http.cursors import from_cursor, from_log_cursor, paged, to_cursor


@given(id=st.uuids())
def test_a_cursor_leads_back_to_its_id(id: UUID) -> None:
    assert from_cursor(to_cursor(id)) == id


@given(text=st.text(max_size=40) | st.uuids().map(str) | st.uuids().map(to_cursor).map(lambda cursor: cursor + "\n"))
def test_what_was_never_handed_out_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        from_cursor(text)

    assert refused.value.code == "DULY-E112"


@given(id=st.uuids(), place=st.integers(0, 22), letter=st.characters(codec="ascii"))
def test_two_cursors_are_never_the_same_place(id: UUID, place: int, letter: str) -> None:
    cursor = to_cursor(id)
    changed = cursor[:place] + letter + cursor[place + 1 :]
    try:
        found = from_cursor(changed)
    except Invalid:
        return

    assert (found == id) is (changed == cursor)


@pytest.mark.parametrize("text", ["", "-1", "1.0", "٣", "1" * 19, "1\n", "x"])
def test_a_log_cursor_is_a_number(text: str) -> None:
    with pytest.raises(Invalid):
        from_log_cursor(text)


def test_the_last_page_has_no_cursor() -> None:
    assert paged([1, 2], 2, str) == ([1, 2], None)
    assert paged([1, 2, 3], 2, str) == ([1, 2], "2")
    assert paged([], 2, str) == ([], None)
