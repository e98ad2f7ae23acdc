"""Nobody gets more of a server than its share."""

from __future__ import annotations

import re

import pytest

from duly.domain.instants import SECOND
from duly.domain.rates import Rate
from duly.http.app import Api, create_api
from duly.http.throttle import Buckets
from tests.http.conftest import ADMIN, STRANGER, VIEWER, WORKER, Bench

RATE = Rate(per_second=2, burst=5)


@pytest.fixture
def store_kind() -> str:
    return "sqlite"


@pytest.fixture
def limited(bench: Bench) -> Api:
    async def sleep(seconds: float) -> None:
        bench.slept.append(seconds)

    return create_api(bench.services, rate=RATE, sleep=sleep)


async def test_a_key_gets_its_burst_and_then_its_rate(bench: Bench, limited: Api) -> None:
    client = bench.client(VIEWER, limited)
    answers = [await client.get("/v1/jobs") for _ in range(6)]
    bench.clock.turn(SECOND // 2)
    after = [(await client.get("/v1/jobs")).status_code for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200] * 5 + [429]
    left = [(4, 1), (3, 1), (2, 2), (1, 2), (0, 3), (0, 3)]
    assert [answer.headers["ratelimit"] for answer in answers] == [f'"key";r={requests};t={seconds}' for requests, seconds in left]
    assert {answer.headers["ratelimit-policy"] for answer in answers} == {'"key";q=5;w=3'}
    assert (answers[5].headers["retry-after"], answers[5].json()["code"]) == ("1", "DULY-E411")
    assert after == [200, 429]


async def test_one_key_leaves_the_others_their_share(bench: Bench, limited: Api) -> None:
    flood = [await bench.client(ADMIN, limited).get("/v1/nothing") for _ in range(10)]

    assert [answer.status_code for answer in flood] == [404] * 5 + [429] * 5
    assert (await bench.client(VIEWER, limited).get("/v1/jobs")).status_code == 200
    assert (await bench.client(STRANGER, limited).get("/v1/jobs")).status_code == 200


async def test_workers_and_health_are_not_counted(bench: Bench, limited: Api) -> None:
    worker, nobody = bench.client(WORKER, limited), bench.client(None, limited)
    answers = [await worker.post("/v1/workers/1/heartbeat", json={}) for _ in range(10)] + [await nobody.get("/healthz") for _ in range(10)]

    assert 429 not in {answer.status_code for answer in answers}
    assert not any("ratelimit" in answer.headers for answer in answers)


async def test_without_a_rate_nothing_is_counted(bench: Bench) -> None:
    answer = await bench.client(ADMIN).get("/v1/jobs")

    assert not any(name.startswith("ratelimit") for name in answer.headers)


async def test_a_stream_says_what_is_left_too(bench: Bench, limited: Api) -> None:
    run = await bench.enqueue(await bench.job())
    await bench.finish(await bench.claim())
    answer = await bench.client(VIEWER, limited).get(f"/v1/executions/{run}/logs", headers={"accept": "text/event-stream"})

    assert re.fullmatch(r'"key";r=\d+;t=\d+', answer.headers["ratelimit"])


async def test_a_key_that_is_not_valid_is_told_so_each_time(bench: Bench, limited: Api) -> None:
    answers = [await bench.client(f"duly_guess_{n}", limited).get("/v1/jobs") for n in range(300)]

    assert {answer.status_code for answer in answers} == {401}


def test_what_is_remembered_is_bounded() -> None:
    buckets = Buckets(RATE, most=100)
    for n in range(1000):
        buckets.of(str(n), 0).left = 0.0
        buckets.of("busy", 0)

    assert len(buckets) == 100
    assert buckets.of("999", 0).left == 0.0
    assert buckets.of("0", 0).left == RATE.burst
