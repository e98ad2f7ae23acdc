"""Instants as texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duly.domain.instants import LATEST, MINUTE, from_rfc3339, minute_of, minute_text, to_rfc3339


@given(st.integers(0, LATEST // MINUTE))
def test_a_whole_minute_reads_as_every_instant_does_and_is_read_back(minute: int) -> None:
    at = minute * MINUTE

    assert minute_text(at) == to_rfc3339(at)
    assert minute_of(minute_text(at)) == from_rfc3339(to_rfc3339(at)) == at
