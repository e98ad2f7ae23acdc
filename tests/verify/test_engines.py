"""Engines that take part in a test: how they are named, what they bring, and that a run with one holds."""

from __future__ import annotations

import random

import pytest

from duly.domain.errors import Invalid
from duly.verify import nemesis
from duly.verify.engines.engine import engines_named
from duly.verify.faults import KINDS, Kind, Stage
from duly.verify.stores import StoreUnderTest, store_named


@pytest.fixture
def store(tmp_path) -> StoreUnderTest:  # type: ignore[no-untyped-def]
    return store_named("sqlite", tmp_path, minutes=1)


async def _nothing(stage: Stage, chance: random.Random, seconds: float) -> None:
    """Breaks nothing."""


MORE = Kind("more", 5, _nothing, "nothing happens")


def test_an_engine_that_there_is_not_is_named_with_those_that_there_are() -> None:
    with pytest.raises(Invalid, match=r"'zookeeper'.*etcd"):
        engines_named("zookeeper")

    assert engines_named(None) == engines_named("") == []


async def test_an_engine_that_is_not_installed_is_told_and_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    [engine] = engines_named("etcd")

    with pytest.raises(Invalid, match="etcd-server") as refused:
        await engine.open()
    await engine.close()

    assert refused.value.code == "DULY-E611"


def test_the_faults_of_an_engine_come_on_top_and_can_be_chosen(store: StoreUnderTest) -> None:
    everything, one = nemesis.chosen(None, store, [MORE]), nemesis.chosen("more", store, [MORE])

    drawn = nemesis.schedule(1, 60, one, store)

    assert MORE in everything
    assert {stroke.kind for stroke in drawn.strokes} == {"more"}
    assert drawn.kinds == {"more": MORE}
    with pytest.raises(Invalid, match="more"):
        nemesis.chosen("more", store)
    assert "more" not in KINDS
