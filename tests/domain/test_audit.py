"""Deeds, and the arithmetic of the chain."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from duly.domain.access import Actor, Role
from duly.domain.audit import (
    GENESIS,
    LONGEST,
    Deed,
    Head,
    Link,
    Record,
    chained,
    check_end,
    check_links,
    content,
    diff,
    link_hash,
    on_execution,
    on_job,
    told,
)
from duly.domain.ids import execution_text

ME = Actor(1, "default", Role.ADMIN, "me")
RUNS = [UUID(int=n) for n in range(1, 8)]
RECORD = Record(1, 1_000_000, "me", "ADMIN", "cli", "req-1", "job.pause", "job", "job_1", UUID(int=9), "über", '{"a":1}', '{"a":2}')

fields = st.dictionaries(st.sampled_from("abcd"), st.none() | st.integers(0, 3) | st.lists(st.integers(0, 2), max_size=2))
texts = st.none() | st.text(max_size=5)
records = st.builds(
    Record,
    place=st.integers(1, 1 << 40),
    at=st.integers(0, 1 << 50),
    actor=st.text(max_size=5),
    role=st.just("ADMIN"),
    channel=st.just("api"),
    request_id=texts,
    action=st.text(max_size=5),
    kind=st.just("job"),
    subject=st.text(max_size=5),
    job_id=st.none() | st.uuids(),
    reason=texts,
    before=st.none() | fields.map(json.dumps),
    after=st.none() | fields.map(json.dumps),
)
chains = st.lists(records, min_size=1, max_size=6).map(lambda found: chained(Head(), found))


@given(fields, fields)
def test_a_difference_turns_the_one_into_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    old, new = diff(before, after)

    assert all(before[name] != after.get(name) for name in old)
    kept = {name: value for name, value in before.items() if name not in old}
    assert {name: value for name, value in {**kept, **new}.items() if value is not None} == {
        name: value for name, value in after.items() if value is not None
    }


@given(chains)
def test_a_chain_as_it_was_made_is_whole(links: list[Link]) -> None:
    seq, hash, broken = check_links(0, GENESIS, links)

    assert (seq, hash, broken) == (len(links), links[-1].hash, None)
    assert check_end(seq, hash, Head(seq, hash)) is None


@given(chains, st.data())
def test_a_chain_in_which_anything_differs_is_broken_there(links: list[Link], data: st.DataObject) -> None:
    nth = data.draw(st.integers(0, len(links) - 1))
    link = links[nth]
    assert link.record is not None
    other = data.draw(records)
    kinds: dict[str, list[Link]] = {
        "changed": [*links[:nth], replace(link, record=replace(link.record, reason=f"{link.record.reason} ")), *links[nth + 1 :]],
        "exchanged": [*links[:nth], replace(link, record=replace(other, place=link.record.place + 1)), *links[nth + 1 :]],
        "forged": [*links[:nth], replace(link, hash=bytes(32)), *links[nth + 1 :]],
        "removed": [*links[:nth], replace(link, record=None), *links[nth + 1 :]],
    }
    tampered = kinds[data.draw(st.sampled_from(sorted(kinds)))]

    seq, hash, broken = check_links(0, GENESIS, tampered)

    assert broken is not None
    assert (broken.seq, seq) == (nth + 1, nth)
    assert hash == (links[nth - 1].hash if nth else GENESIS)


@given(chains, st.data())
def test_a_chain_that_lacks_links_is_broken(links: list[Link], data: st.DataObject) -> None:
    nth = data.draw(st.integers(0, len(links) - 1))
    head = Head(len(links), links[-1].hash)

    seq, hash, broken = check_links(0, GENESIS, [*links[:nth], *links[nth + 1 :]])
    broken = broken or check_end(seq, hash, head)

    assert broken is not None
    assert broken.seq == nth + 1


def test_the_hash_is_of_what_the_wire_shows() -> None:
    text = (
        '{"action":"job.pause","actor":"me","after":{"a":2},"at":"1970-01-01T00:00:01Z","auditId":"1","before":{"a":1},"channel":"cli",'
        '"jobId":"job_00000000000000000000000000000009","kind":"job","reason":"über","requestId":"req-1","role":"ADMIN","seq":7,'
        '"subject":"job_1"}'
    )

    assert json.loads(text) == content(RECORD, 7)
    # printf '%s' … | sha256sum, with 32 zero bytes in front.
    assert link_hash(GENESIS, 7, RECORD).hex() == "4dd1520666a173460d108e495e19e224dedc1a35d2e07fe2ef6764c2d17766b3"


def test_a_deed_on_one_execution_says_no_more_than_its_subject() -> None:
    deed = on_execution(ME, 0, "execution.enqueue", RUNS[0], None, executions=RUNS[:1])

    assert deed.result is None


def test_a_deed_on_many_counts_them_and_names_the_first() -> None:
    deed = on_job(ME, 0, "execution.enqueue", UUID(int=9), executions=RUNS)

    assert deed.result == {"count": 7, "first": [execution_text(id) for id in RUNS[:5]]}
    narrowed = deed.about(RUNS[2:3])
    assert narrowed is not None
    assert narrowed.result == {"executionId": execution_text(RUNS[2])}
    assert deed.about([]) is None


def test_what_is_too_long_is_named_and_left_out() -> None:
    assert told({"b": "x" * LONGEST, "a": 1}) == '{"omitted":["a","b"]}'
    assert told({"a": "ü"}) == '{"a":"ü"}'
    assert told({}) is None
    assert told(None) is None


def test_a_change_is_what_differs() -> None:
    deed = Deed(ME, 0, "job.pause", "job", "job_1").changing({"state": "ACTIVE", "until": None}, {"state": "PAUSED", "until": None})

    assert (deed.before, deed.after) == ({"state": "ACTIVE"}, {"state": "PAUSED"})
