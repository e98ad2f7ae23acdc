"""Dependencies between jobs over HTTP and in code: declared, read back, and refused in a circle."""

from __future__ import annotations

from typing import Any

import pytest

from duly import After, App, Context
from duly.domain.dependencies import Dependency, OnDeadline, Per
from duly.domain.errors import Invalid
from duly.domain.instants import HOUR
from tests.http.conftest import ADMIN, Bench

NIGHTLY = {"schedule": "0 4 * * *", "target": {"handler": "duly.echo"}}


@pytest.fixture
def store_kind() -> str:
    """The store's side is judged by its own suite, on every engine."""
    return "sqlite"


async def _create(bench: Bench, name: str, *after: str, **more: Any) -> tuple[int, dict[str, Any]]:
    answer = await bench.client(ADMIN).post("/v1/jobs", json={"name": name, **NIGHTLY, "after": [{"job": job} for job in after], **more})
    return answer.status_code, answer.json()


async def test_what_a_job_waits_for_is_read_back_as_it_may_be_sent(bench: Bench) -> None:
    extract = {"job": "extract", "per": "week", "withinSec": 3600, "onDeadline": "run"}

    status, job = await _create(bench, "load", after=[extract, {"job": "b"}])

    assert status == 201
    assert job["after"] == [
        extract,
        {"job": "b", "per": "day", "withinSec": 86_400, "onDeadline": "skip"},
    ]


async def test_jobs_that_would_wait_for_one_another_are_refused_whenever_the_circle_closes(bench: Bench) -> None:
    assert (await _create(bench, "c", "b"))[0] == 201
    status, made = await _create(bench, "b")
    assert status == 201
    assert (await _create(bench, "a", "c"))[0] == 201

    status, problem = await _create(bench, "x", "x")
    changed = await bench.client(ADMIN).put(f"/v1/jobs/{made['jobId']}", json={"name": "b", **NIGHTLY, "after": [{"job": "a"}]})
    batch = [{"name": name, **NIGHTLY, "after": [{"job": other}]} for name, other in (("p", "q"), ("q", "p"))]
    together = await bench.client(ADMIN).post("/v1/jobs:batch", json={"jobs": batch})

    assert (status, problem["code"]) == (422, "DULY-E157")
    assert (changed.status_code, changed.json()["code"]) == (422, "DULY-E157")
    assert "b waits for a waits for c waits for b" in changed.text
    assert (together.status_code, together.json()["code"]) == (422, "DULY-E157")


def test_code_names_a_job_its_name_or_all_there_is_to_say() -> None:
    app = App("shop")

    @app.job(cron="0 3 * * *")
    def extract(ctx: Context) -> None: ...

    @app.job(cron="0 4 * * *", after=[extract, After("clean", per="hour", within="1h", otherwise="run")])
    def load(ctx: Context) -> None: ...

    @app.job(cron="0 4 * * *", after="extract")
    def tell(ctx: Context) -> None: ...

    assert load.spec.after == (
        Dependency(job="extract"),
        Dependency(job="clean", per=Per.HOUR, within=HOUR, on_deadline=OnDeadline.RUN),
    )
    assert tell.spec.after == (Dependency(job="extract"),)
    with pytest.raises(Invalid, match="fortnight"):
        After("extract", per="fortnight")
