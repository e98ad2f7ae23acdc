"""Rooms that handlers share: filled from the oldest, never over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duly.domain.fairness import Work, within_rooms


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 100), st.integers(0, 50)), max_size=8, unique_by=lambda row: row[0]),
    st.dictionaries(st.integers(1, 6), st.sampled_from("ab")),
    st.fixed_dictionaries({"a": st.integers(0, 40), "b": st.integers(0, 40)}),
)
def test_rooms_are_filled_from_the_oldest_and_never_over(
    rows: list[tuple[int, int, int]], room_of: dict[int, str], free: dict[str, int]
) -> None:
    work = [Work(route, 1, 1, head, depth) for route, head, depth in rows]
    wanted = {item.route: item.depth for item in work}

    found = within_rooms(work, room_of, free)

    assert {item.route for item in found} == set(wanted)
    for room, places in free.items():
        inside = [item for item in found if room_of.get(item.route) == room]
        assert sum(item.depth for item in inside) == min(places, sum(wanted[item.route] for item in inside))
        cut = [item.head for item in inside if item.depth < wanted[item.route]]
        assert all(item.depth == 0 for item in inside if cut and item.head > min(cut))
    assert all(item.depth == wanted[item.route] for item in found if item.route not in room_of)
