"""Nobody gets more of a server than its share, and who guesses keys waits for it, without anybody else being locked out."""

from __future__ import annotations

import re

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from duly.domain.instants import SECOND
from duly.domain.rates import Rate
from duly.http.app import Api, create_api
from duly.http.throttle import GUESSES, REMEMBERED_FOR, Buckets, place_of
from tests.http.conftest import ADMIN, STRANGER, VIEWER, WORKER, Bench

RATE = Rate(per_second=2, burst=5)


class From:
    """Requests from an address."""

    def __init__(self, api: Api, address: str) -> None:
        self.api = api
        self.address = address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.api({**scope, "client": (self.address, 4711)}, receive, send)


@pytest.fixture
def limited(bench: Bench) -> Api:
    async def sleep(seconds: float) -> None:
        bench.slept.append(seconds)

    return create_api(bench.services, rate=RATE, sleep=sleep)


async def guess(bench: Bench, api: Api, times: int, address: str = "192.0.2.7") -> list[httpx.Response]:
    return [await bench.client(f"duly_guess_{n}", From(api, address)).get("/v1/jobs") for n in range(times)]


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


async def test_guessing_is_slowed_and_then_refused(bench: Bench, limited: Api) -> None:
    at_once = await guess(bench, limited, GUESSES.burst)
    quick = len(bench.slept)
    slow = await guess(bench, limited, 10)
    refused = await guess(bench, limited, 3)
    bench.clock.turn(2 * SECOND)
    later = await guess(bench, limited, 1)

    assert {answer.status_code for answer in at_once} == {401}
    assert quick == 0
    assert {answer.status_code for answer in slow} == {401}
    assert bench.slept == pytest.approx([n / 10 for n in range(1, 11)])
    assert {(answer.status_code, answer.json()["code"], answer.headers["retry-after"]) for answer in refused} == {(429, "DULY-E412", "2")}
    assert later[0].status_code == 401


async def test_good_keys_behind_the_same_proxy_pass(bench: Bench, limited: Api) -> None:
    known = bench.client(VIEWER, From(limited, "192.0.2.7"))
    assert (await known.get("/v1/jobs")).status_code == 200
    await guess(bench, limited, GUESSES.burst + 30)
    bench.clock.turn(SECOND)
    bench.slept.clear()

    assert (await known.get("/v1/jobs")).status_code == 200
    assert bench.slept == []
    assert (await bench.client(ADMIN, From(limited, "192.0.2.7")).get("/v1/jobs")).status_code == 200
    assert (await bench.client(ADMIN, From(limited, "192.0.2.8")).get("/v1/jobs")).status_code == 200


async def test_a_good_key_costs_its_address_nothing(bench: Bench) -> None:
    async def never(seconds: float) -> None:
        raise AssertionError("nobody has to wait")

    api = create_api(bench.services, sleep=never)
    for _ in range(3):
        for _ in range(GUESSES.burst):
            assert (await bench.client(VIEWER, From(api, "192.0.2.7")).get("/v1/jobs")).status_code == 200
        bench.clock.turn(REMEMBERED_FOR)


async def test_without_a_key_nothing_is_guessed(bench: Bench, limited: Api) -> None:
    client = bench.client(None, From(limited, "192.0.2.7"))

    assert {(await client.get("/v1/jobs")).status_code for _ in range(GUESSES.burst + 20)} == {401}


def test_what_is_remembered_is_bounded() -> None:
    buckets = Buckets(RATE, most=100)
    for n in range(1000):
        buckets.of(str(n), 0).left = 0.0
        buckets.of("busy", 0)

    assert len(buckets) == 100
    assert buckets.of("999", 0).left == 0.0
    assert buckets.of("0", 0).left == RATE.burst


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.7", "192.0.2.7", True),
        ("192.0.2.7", "192.0.2.8", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("", "a socket", False),
    ],
)
def test_who_stands_behind_an_address(one: str, other: str, same: bool) -> None:
    assert (place_of(one) == place_of(other)) is same
