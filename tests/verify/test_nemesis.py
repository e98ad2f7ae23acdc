"""The schedule of faults: by its seed, of every kind, and of nothing that the store cannot have."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from duly.domain.errors import Invalid
from duly.verify.faults import KINDS
from duly.verify.nemesis import chosen, schedule
from duly.verify.stores import NamedStore, SqliteStore, StoreUnderTest

HALF_AN_HOUR = 27 * 60.0


@pytest.fixture
def sqlite(tmp_path: Path) -> StoreUnderTest:
    return SqliteStore(tmp_path, 64)


def test_the_same_seed_draws_the_same_faults(sqlite: StoreUnderTest) -> None:
    kinds = chosen(None, sqlite)

    assert schedule(7, 600, kinds, sqlite) == schedule(7, 600, kinds, sqlite)
    assert schedule(7, 600, kinds, sqlite) != schedule(8, 600, kinds, sqlite)


@pytest.mark.parametrize("seed", range(20))
def test_faults_come_in_order_and_in_time(sqlite: StoreUnderTest, seed: int) -> None:
    strokes = schedule(seed, 120, chosen(None, sqlite), sqlite).strokes

    assert [stroke.at for stroke in strokes] == sorted(stroke.at for stroke in strokes)
    assert all(0 <= stroke.at < 120 for stroke in strokes)
    assert len({stroke.seed for stroke in strokes}) == len(strokes)


def test_what_a_store_cannot_have_is_skipped_with_a_reason(sqlite: StoreUnderTest) -> None:
    drawn = schedule(1, HALF_AN_HOUR, chosen(None, sqlite), sqlite)

    assert set(drawn.skipped) == {"disk-full"}
    assert "root" in drawn.skipped["disk-full"]
    done = {stroke.kind for stroke in drawn.strokes}
    assert done | set(drawn.skipped) == set(KINDS) - {"clock", "store-crash", "failover", "terminate", "snapshot", "connections"}
    assert not done & set(drawn.skipped)


def test_a_users_server_is_left_alone() -> None:
    store = NamedStore("postgresql://me@db/empty")
    drawn = schedule(1, HALF_AN_HOUR, chosen(None, store), store)

    assert set(drawn.skipped) == {"failover", "store-crash", "connections"}
    assert not (set(drawn.skipped) | {"disk-full", "lock"}) & {stroke.kind for stroke in drawn.strokes}


def test_half_an_hour_has_enough_of_everything(sqlite: StoreUnderTest) -> None:
    strokes = schedule(1, HALF_AN_HOUR, chosen(None, sqlite), sqlite).strokes

    kinds = Counter(stroke.kind for stroke in strokes)
    assert kinds["kill"] >= 100
    assert kinds["pause"] >= 60
    assert kinds["cut"] >= 40


def test_only_chooses_and_a_word_that_is_none_is_named(sqlite: StoreUnderTest) -> None:
    drawn = schedule(1, 300, chosen("kill, pause", sqlite), sqlite)

    assert {stroke.kind for stroke in drawn.strokes} == {"kill", "pause"}
    with pytest.raises(Invalid, match="explode") as refused:
        chosen("kill,explode", sqlite)
    assert "pause" in (refused.value.hint or "")


def test_a_schedule_of_nothing_possible_is_empty(sqlite: StoreUnderTest) -> None:
    drawn = schedule(1, 300, chosen("failover", sqlite), sqlite)

    assert drawn.strokes == []
    assert set(drawn.skipped) == {"failover"}
