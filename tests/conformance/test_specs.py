"""Definitions are read once for all that differ in their names alone."""

from __future__ import annotations

from uuid import UUID

import msgspec
import pytest

from duly.adapters.sql.rows import encode, version_of
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
    for nth in range(2 * MOST + 10):
        specs.read(stored("n", payload=str(nth)))
    specs.read(stored("long", payload=f'"{"x" * LONGEST}"'))

    assert len(specs._known) <= 2 * MOST
    assert not any(len(rest) > LONGEST for rest in (*specs._known._young, *specs._known._old))


def test_what_a_newer_release_wrote_is_refused_as_before() -> None:
    with pytest.raises(msgspec.ValidationError):
        Specs().read(stored("n").replace('"CRON"', '"LUNAR"'))


def _row(**other: object) -> dict[str, object]:
    row = {
        "version_id": 7,
        "job_id": UUID(int=1),
        "version": 1,
        "tenant": 1,
        "tenant_name": "default",
        "route": 3,
        "definition": encode(JobSpec(name="a", timing=Timing(type=JobType.CRON, cron="5 4 * * *"), target=Target(handler="x"))),
        "version_created_at": 5,
    }
    return row | other


def test_a_version_that_is_read_again_is_the_same_value() -> None:
    assert version_of(_row()) is version_of(_row())


@pytest.mark.parametrize("other", [{"job_id": UUID(int=2)}, {"tenant": 2}, {"route": 4}, {"version_created_at": 6}])
def test_versions_of_one_number_in_two_stores_are_kept_apart(other: dict[str, object]) -> None:
    first, second = version_of(_row()), version_of(_row(**other))

    assert first == version_of(_row())
    assert second == version_of(_row(**other))
    assert first != second
