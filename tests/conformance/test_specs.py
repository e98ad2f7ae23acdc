"""Definitions are read once for all that differ in their names alone."""

from __future__ import annotations

import msgspec
import pytest

from duly.adapters.sql.rows import encode
from duly.adapters.sql.specs import LONGEST, MOST, Specs
from duly.domain.job import JobSpec, JobType, Target, Timing


def stored(name: str, **more: object) -> str:
    spec = JobSpec(name=name, timing=Timing(type=JobType.CRON, cron="0 3 * * *"), target=Target(handler="tick"), **more)  # type: ignore[arg-type]
    return encode(spec)


@pytest.mark.parametrize("name", ["a", "b", 'says "timing"', 'x","timing":{}', "back\\slash", "ünïcode", "\u2028"])
def test_what_is_read_is_what_was_written(name: str) -> None:
    specs = Specs()
    specs.read(stored("first"))

    assert specs.read(stored(name)) == msgspec.json.decode(stored(name), type=JobSpec)


def test_jobs_that_differ_in_their_names_share_the_rest() -> None:
    specs = Specs()
    one, other = specs.read(stored("one")), specs.read(stored("other"))

    assert (one.name, other.name) == ("one", "other")
    assert one.timing is other.timing
    assert one.retry is other.retry


def test_a_payload_of_its_own_is_its_own() -> None:
    specs = Specs()

    assert [specs.read(stored("n", payload=payload)).payload for payload in ("1", "2", "1")] == ["1", "2", "1"]


def test_no_more_is_remembered_than_fits() -> None:
    specs = Specs()
    for nth in range(MOST + 10):
        specs.read(stored("n", payload=str(nth)))
    specs.read(stored("long", payload=f'"{"x" * LONGEST}"'))

    assert len(specs._known) <= MOST
    assert not any(len(rest) > LONGEST for rest in specs._known)


def test_what_a_newer_release_wrote_is_refused_as_before() -> None:
    with pytest.raises(msgspec.ValidationError):
        Specs().read(stored("n").replace('"CRON"', '"LUNAR"'))
