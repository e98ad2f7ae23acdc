"""A claim of large payloads fits into one answer."""

from __future__ import annotations

import pytest

from duly.domain.fairness import Ask
from duly.domain.portion import LARGEST_ANSWER, Portion
from duly.domain.tenants import LARGEST_PAYLOAD

TWO = [Ask(1, 1, 3000), Ask(1, 2, 1000)]


def test_small_payloads_are_claimed_as_they_are_asked_for() -> None:
    portion = Portion()
    portion.learn(100, 100 * 500)

    assert portion.of(TWO) == TWO


def test_large_payloads_are_claimed_in_portions_and_in_proportion() -> None:
    portion = Portion()
    portion.learn(2, 2 * LARGEST_PAYLOAD)

    assert portion.of(TWO) == [Ask(1, 1, 192), Ask(1, 2, 64)]
    assert sum(ask.quota for ask in portion.of(TWO)) * LARGEST_PAYLOAD <= LARGEST_ANSWER


def test_what_was_large_is_forgotten_slowly() -> None:
    portion = Portion()
    portion.learn(1, LARGEST_PAYLOAD)

    sizes = []
    for _ in range(6):
        sizes.append(sum(ask.quota for ask in portion.of(TWO)))
        portion.learn(100, 100)

    assert sizes == [256, 512, 1024, 2048, 4000, 4000]


def test_after_a_failure_any_payloads_fit() -> None:
    portion = Portion()
    portion.fail()

    assert sum(ask.quota for ask in portion.of(TWO)) * LARGEST_PAYLOAD <= LARGEST_ANSWER


@pytest.mark.parametrize("count", [1, 3, 256, 5000])
def test_something_is_always_asked_for(count: int) -> None:
    portion = Portion()
    portion.learn(1, LARGEST_PAYLOAD)

    asks = portion.of([Ask(1, tenant, 1) for tenant in range(count)])

    assert 1 <= len(asks) <= 256
    assert all(ask.quota == 1 for ask in asks)
