"""Whoever follows a tenant is told what changes in it, and nothing of anybody else's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest
from starlette.types import Message, Scope

from duly.domain.access import Role
from duly.domain.instants import MINUTE, SECOND
from duly.domain.lifecycle import State
from duly.http.events import BREATHE_EVERY
from duly.sdk.streams import Event, Events
from duly.usecases import events as usecase
from tests.http.conftest import ADMIN, STRANGER, VIEWER, Bench, key_row


class Follower:
    """One open stream. The server's pauses are ours to end: each `next` lets it look once more, a second later."""

    def __init__(self, bench: Bench, key: str, last: str | None = None) -> None:
        self.bench = bench
        self.events = Events()
        self.status = 0
        self.text = b""
        self.told: list[Event] = []
        self._paused = asyncio.Event()
        self._go = asyncio.Event()
        self._gone = asyncio.Event()
        self._headers = [(b"authorization", f"Bearer {key}".encode())]
        if last is not None:
            self._headers.append((b"last-event-id", last.encode()))

    async def sleep(self, seconds: float) -> None:
        self._paused.set()
        await self._go.wait()
        self._go.clear()
        self.bench.clock.turn(round(seconds * SECOND))

    async def open(self) -> None:
        self.bench.api._sleep = self.sleep
        scope: Scope = {
            "type": "http",
            "method": "GET",
            "path": "/v1/events",
            "raw_path": b"/v1/events",
            "query_string": b"",
            "headers": self._headers,
        }
        self.task = asyncio.create_task(self.bench.api(scope, self._receive, self._send))
        await self._pause()

    async def _receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.text += message["body"]
            self.told += self.events.feed(message["body"])

    async def _pause(self) -> None:
        paused = asyncio.create_task(self._paused.wait())
        await asyncio.wait([self.task, paused], return_when=asyncio.FIRST_COMPLETED)
        paused.cancel()
        self._paused.clear()

    async def next(self) -> list[tuple[str, dict[str, Any]]]:
        """What one more look brings."""
        self.told.clear()
        self._go.set()
        await self._pause()
        return self.read()

    def read(self) -> list[tuple[str, dict[str, Any]]]:
        return [(event.name, msgspec.json.decode(event.data)) for event in self.told]

    async def close(self) -> None:
        self._gone.set()
        await self.task


Opener = Callable[..., Awaitable[Follower]]


@asynccontextmanager
async def following(bench: Bench, key: str = VIEWER, last: str | None = None) -> AsyncIterator[Follower]:
    follower = Follower(bench, key, last)
    await follower.open()
    try:
        yield follower
    finally:
        await follower.close()


def brief(told: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, str]]:
    return [(name, data.get("state", "")) for name, data in told]


async def test_the_life_of_a_job_and_an_execution_is_told(bench: Bench, admin: httpx.AsyncClient) -> None:
    async with following(bench) as follower:
        assert follower.status == 200
        assert follower.text.startswith(b"retry: 2000\n")
        job = await bench.job(name="mail", schedule="0 3 * * *")
        made = await follower.next()
        run = await bench.enqueue(job)
        waits = await follower.next()
        claimed = await bench.claim()
        runs = await follower.next()
        await bench.finish(claimed)
        done = await follower.next()
        await admin.post(f"/v1/jobs/{job}/pause")
        paused = await follower.next()
        await admin.delete(f"/v1/jobs/{job}")
        gone = await follower.next()
        quiet = await follower.next()

    assert [brief(told) for told in (made, waits, runs, done, paused, gone, quiet)] == [
        [("job", "ACTIVE")],
        [("execution", "PENDING")],
        [("execution", "RUNNING")],
        [("execution", "SUCCEEDED")],
        [("job", "PAUSED")],
        [("job", "CANCELLED")],
        [],
    ]
    shown = {"jobId": job, "name": "mail", "state": "ACTIVE", "version": 1, "nextFireAt": "2026-01-06T03:00:00Z", "pausedUntil": None}
    assert made[0][1] == shown
    assert (done[0][1]["executionId"], done[0][1]["jobName"], done[0][1]["lastOutcome"]) == (run, "mail", "SUCCEEDED")


async def test_what_was_there_before_is_not_told(bench: Bench) -> None:
    await bench.enqueue(await bench.job())
    async with following(bench) as follower:
        assert follower.read() == []
        assert await follower.next() == []


async def test_nobody_is_told_of_another_tenant(bench: Bench) -> None:
    async with following(bench, STRANGER) as follower:
        job = await bench.job(name="private")
        await bench.enqueue(job, payload={"secret": 1})
        await bench.finish(await bench.claim())

        assert await follower.next() == await follower.next() == []
        assert b"private" not in follower.text


async def test_who_was_cut_off_goes_on_from_where_it_was(bench: Bench, admin: httpx.AsyncClient) -> None:
    async with following(bench) as follower:
        job = await bench.job(name="mail")
        await follower.next()
        last = follower.told[-1].id
    await bench.enqueue(job)
    await bench.finish(await bench.claim(), state=State.DEAD)
    other = await bench.job(name="other")
    await admin.post(f"/v1/jobs/{other}/pause")
    bench.clock.turn(MINUTE)
    async with following(bench, last=last) as follower:
        missed = follower.read()

    assert last is not None
    assert ("execution", "DEAD") in brief(missed)
    assert ("job", "PAUSED") in brief(missed)
    assert all(name != "refresh" for name, _ in missed)


async def test_who_was_away_for_long_is_told_to_read_again(bench: Bench) -> None:
    last = str(bench.clock.now())
    bench.clock.turn(usecase.LONGEST_AWAY + SECOND)
    async with following(bench, last=last) as follower:
        assert [name for name, _ in follower.read()] == ["refresh"]


async def test_more_than_is_told_one_by_one_is_said(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usecase, "MOST_TOLD", 3)
    job = await bench.job()
    async with following(bench) as follower:
        for _ in range(5):
            await bench.enqueue(job)
        told = await follower.next()
        monkeypatch.setattr(usecase, "NEWEST", 2)
        for _ in range(5):
            await bench.enqueue(job)
        flood = await follower.next()

    assert [name for name, _ in told] == ["execution"] * 3 + ["refresh"]
    assert flood[-1][0] == "refresh"


async def test_a_quiet_stream_breathes(bench: Bench) -> None:
    async with following(bench) as follower:
        for _ in range(BREATHE_EVERY + 1):
            assert await follower.next() == []

        assert follower.text.count(b": breathe") == 1


async def test_a_stream_ends_when_its_key_is_revoked(bench: Bench) -> None:
    secret = "duly_short_lived_key"
    row = key_row(secret, Role.VIEWER, tenant=1)
    await bench.store.keys.add_key(row)
    async with following(bench, secret) as follower:
        await follower.next()
        await bench.store.keys.revoke_key(1, row.id, bench.clock.now())
        for _ in range(5):
            await follower.next()

        assert follower.task.done()


async def test_many_followers_cost_one_look(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    newest = type(bench.store.search).newest

    async def counted(self: Any, tenant: int, *more: int) -> Any:
        looks.append(tenant)
        return await newest(self, tenant, *more)

    monkeypatch.setattr(type(bench.store.search), "newest", counted)
    changes = bench.services.changes
    await asyncio.gather(*(changes.look(1) for _ in range(20)), changes.look(2))
    bench.clock.turn(SECOND)
    await changes.look(1)

    assert sorted(looks) == [1, 1, 2]


async def test_a_key_has_so_many_streams_and_no_more(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usecase, "MOST_STREAMS", 1)
    async with following(bench, VIEWER):
        refused = await bench.client(VIEWER).get("/v1/events")
        assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (429, "DULY-E413", "5")
        async with following(bench, ADMIN) as other:
            assert other.status == 200
    async with following(bench, VIEWER) as again:
        assert again.status == 200


async def test_a_followed_log_is_one_of_the_streams_of_a_key(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usecase, "MOST_STREAMS", 1)
    run = await bench.enqueue(await bench.job())
    log = f"/v1/executions/{run}/logs"
    async with following(bench, VIEWER):
        refused = await bench.client(VIEWER).get(log, headers={"accept": "text/event-stream"})
        read = await bench.client(VIEWER).get(log)

    assert (refused.status_code, refused.json()["code"]) == (429, "DULY-E413")
    assert read.status_code == 200


async def test_of_many_streams_that_come_at_once_no_more_are_let_in(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usecase, "MOST_STREAMS", 2)
    # The key is known by then, so that all come in the same moment; each that is let in ends by itself.
    assert (await bench.client(VIEWER).get("/v1/session")).status_code == 200
    bench.api.close()

    answers = await asyncio.gather(*(bench.client(VIEWER).get("/v1/events") for _ in range(6)))
    after = await bench.client(VIEWER).get("/v1/events")

    assert sorted(answer.status_code for answer in answers) == [200, 200, 429, 429, 429, 429]
    assert after.status_code == 200


@pytest.mark.parametrize("last", ["x", "-1", "1" * 19, "", "1.5"])
async def test_what_is_no_event_id_is_refused(bench: Bench, last: str) -> None:
    answer = await bench.client(VIEWER).get("/v1/events", headers={"last-event-id": last})

    assert (answer.status_code, answer.json()["code"]) == (422, "DULY-E112")
