"""A load over several stores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.scale_model import PAGE, ROWS, line, question
from duly.domain.capacity.costs import POSTGRES
from duly.domain.capacity.stores import ROOM, least_stores, over_stores, share
from duly.domain.errors import Invalid


def test_each_store_has_its_share_and_nothing_is_left_out() -> None:
    [load] = question(ROWS[0], POSTGRES).classes

    assert [share([replace(load, jobs=10)], stores)[0].jobs for stores in (1, 3, 20)] == [10, 4, 1]
    with pytest.raises(Invalid):
        share([load], 0)


def test_half_the_load_is_about_half_the_log() -> None:
    asked = question(ROWS[2], POSTGRES)
    idle = POSTGRES.idle_log * asked.fleet.processes

    one, two = over_stores(asked, 1).each, over_stores(asked, 2).each

    assert 0.4 < (two.log - idle) / (one.log - idle) < 0.75
    assert two.disk == pytest.approx(one.disk / 2, rel=0.05)


def test_no_more_stores_than_are_needed() -> None:
    found = least_stores(question(ROWS[1], POSTGRES))

    assert (found.stores, found.servers, found.workers) == (1, 1, 1)
    assert found.each.database.worst <= ROOM


def test_the_page_has_the_table_that_the_costs_make() -> None:
    text = Path(PAGE).read_text(encoding="utf-8")

    for row in ROWS[:2]:
        assert line(row, least_stores(question(row, POSTGRES))) in text
