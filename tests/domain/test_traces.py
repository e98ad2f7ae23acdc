"""Trace contexts: what is read, what is computed, and that everybody decides alike."""

from __future__ import annotations

import random

import pytest

from duly.domain.ids import fire_id, new_ids
from duly.domain.instants import DAY, SECOND
from duly.domain.traces import TraceContext, bound_of, is_sampled, own_context, parse_traceparent, sampled_among, span_of

GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
NOW = 20_000 * DAY


def test_a_context_is_read_and_written_as_it_was() -> None:
    context = parse_traceparent(GIVEN)

    assert context == TraceContext(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, True)
    assert context.text == GIVEN
    assert parse_traceparent(GIVEN[:-1] + "0") == context._replace(is_sampled=False)
    # A later version may say more behind what we know.
    assert parse_traceparent(f"cc{GIVEN[2:]}-what-comes-later") == context


@pytest.mark.parametrize(
    "text",
    [
        "",
        GIVEN.upper(),
        GIVEN + "-more",
        GIVEN[:-3],
        GIVEN + "\n",
        "ff" + GIVEN[2:],
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
        "cc" + GIVEN[2:] + "-" + "x" * 500,
        "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
    ],
)
def test_what_is_malformed_is_as_if_it_were_not_there(text: str) -> None:
    assert parse_traceparent(text) is None


def test_spans_of_one_execution_and_of_neighbours_are_all_different() -> None:
    ids = new_ids(2_000, NOW, random.Random(1).getrandbits)
    spans = {span_of(id, attempt) for id in ids for attempt in range(4)}

    assert len(spans) == 8_000
    assert all(0 < span < 1 << 64 for span in spans)
    assert own_context(ids[0]) == TraceContext(ids[0].int, span_of(ids[0], 0))


@pytest.mark.parametrize("fraction", [0.01, 0.25, 0.9])
def test_so_many_are_sampled_as_are_asked_for_whatever_kind_of_id_they_have(fraction: float) -> None:
    enqueued = new_ids(20_000, NOW, random.Random(2).getrandbits)
    job = enqueued[0]
    fired = [fire_id(job, NOW + nth * 60 * SECOND) for nth in range(20_000)]
    bound = bound_of(fraction)

    for ids in (enqueued, fired):
        found = sampled_among(ids, bound)
        assert [ids[nth] for nth in found] == [id for id in ids if is_sampled(id, bound)]
        assert len(found) == pytest.approx(fraction * len(ids), rel=0.15)
    assert sampled_among(enqueued, bound_of(0.0)) == []
    assert sampled_among(enqueued, bound_of(1.0)) == list(range(20_000))
