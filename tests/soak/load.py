"""The churn, through the API: a process of its own, so that what it costs is not in anybody's figures.

python -m tests.soak.load URL KEY --rate 200     until its standard input ends; one line of counts every second
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

# Of 200 schedules: every second, and every minute at a second of its own, so that no second of the minute is a spike.
EVERY_SECOND, EVERY_MINUTE = 30, 170
OVERLAPS: list[dict[str, Any]] = [
    {"overlap": "allow"},
    {"overlap": "skip"},
    {"overlap": "queue_one"},
    {"overlap": "queue_all", "maxQueued": 3},
    {"overlap": "allow", "maxRunning": 2},
    {"overlap": "cancel_previous"},
    {"overlap": "kill_previous", "killGraceSec": 1},
]
METRONOME = "soak-metronome"
# One in so many of the schedules outlasts its period, so that its overlap policy has something to do.
SLOW_ONE_IN = 5


class Load:
    """What is done in a second, over and over."""

    def __init__(self, client: httpx.AsyncClient, rate: int, chance: random.Random) -> None:
        self._client = client
        self._rate = rate
        self._chance = chance
        self._numbers = itertools.count()
        self._later: deque[str] = deque(maxlen=200)
        self._jobs: dict[str, str] = {}
        self._schedules: list[tuple[str, dict[str, Any]]] = []
        self._paused: deque[str] = deque()
        self.counts: Counter[str] = Counter()

    async def prepare(self) -> None:
        """Find the application's jobs, make the schedules."""
        for name in ("churn", "limited", "rated", "threaded", "pick_up"):
            found = (await self._call("GET", f"/v1/jobs?name={name}"))["items"]
            self._jobs[name] = found[0]["jobId"]
        wanted = [self._schedule(nth) for nth in range(EVERY_SECOND + EVERY_MINUTE)]
        wanted.append({"name": METRONOME, "schedule": "* * * * * *", "seconds": True, "target": {"handler": "tick"}, "overlap": "allow"})
        made = (await self._call("POST", "/v1/jobs:batch", {"jobs": wanted}))["items"]
        self._schedules = [(item["jobId"], body) for item, body in zip(made, wanted, strict=True)][:-1]

    def _schedule(self, nth: int) -> dict[str, Any]:
        is_fast = nth < EVERY_SECOND
        slow = nth % SLOW_ONE_IN == 0
        return {
            "name": f"soak-{nth}-{next(self._numbers)}",
            "schedule": "* * * * * *" if is_fast else f"{nth % 60} * * * * *",
            "seconds": True,
            "target": {"handler": "tick"},
            "payload": {"wait": (1.5 if is_fast else 70.0) if slow else 0.01},
            "retryPolicy": {"maxAttempts": 1},
            **OVERLAPS[nth % len(OVERLAPS)],
        }

    async def run(self, stop: asyncio.Event) -> None:
        """Quarter by quarter of a second, until `stop`. What the API refuses is counted, and goes on."""
        began = time.monotonic()
        for quarter in itertools.count():
            if stop.is_set():
                return
            pause = began + quarter / 4 - time.monotonic()
            if pause > 0:
                await asyncio.sleep(pause)
            self.counts["behind"] += pause < -1
            await self._try(self._enqueue_many)
            second = quarter // 4
            await self._try(self._by_quarter(quarter % 4, second))

    def _by_quarter(self, quarter: int, second: int) -> Callable[[], Awaitable[None]]:
        if quarter == 0:
            return self._enqueue_later
        if quarter == 1:
            return self._enqueue_special
        if quarter == 2:
            return self._cancel_some
        return (self._update, self._pause, self._resume, self._replace)[second % 4]

    async def _try(self, act: Callable[[], Awaitable[None]]) -> None:
        try:
            await act()
        except (httpx.HTTPError, RuntimeError) as error:
            self.counts["refused"] += 1
            if self.counts["refused"] <= 20:
                print(f"load: {error!r}", file=sys.stderr, flush=True)

    async def _enqueue_many(self) -> None:
        await self._enqueue("churn", [{"payload": self._payload()} for _ in range(self._rate // 4)])

    def _payload(self) -> dict[str, Any]:
        payload: dict[str, Any] = {"n": next(self._numbers)}
        dice = self._chance.random()
        if dice < 0.03:
            payload["fails"] = self._chance.choice([1, 1, 2, 3])
        elif dice < 0.06:
            payload["lines"] = 3
        elif dice < 0.08:
            payload["saves"] = 2
        elif dice < 0.20:
            payload["wait"] = self._chance.random() * 0.2
        return payload

    async def _enqueue_later(self) -> None:
        wanted = [{"payload": self._payload(), "delaySec": self._chance.randrange(1, 60)} for _ in range(self._rate // 20)]
        made = await self._enqueue("churn", wanted)
        self._later.extend(item["executionId"] for item in made[: self._rate // 50])
        await self._enqueue("pick_up", [{}])

    async def _enqueue_special(self) -> None:
        await self._enqueue("limited", [{"payload": {"user": self._chance.randrange(5)}} for _ in range(5)])
        await self._enqueue("rated", [{"payload": {"n": 1}} for _ in range(5)])
        await self._enqueue("threaded", [{"payload": {"user": self._chance.randrange(3)}} for _ in range(5)])

    async def _cancel_some(self) -> None:
        for _ in range(2):
            if self._later:
                answer = await self._client.post(f"/v1/executions/{self._later.popleft()}/cancel")
                self.counts["cancelled" if answer.status_code < 300 else "too late to cancel"] += 1

    async def _update(self) -> None:
        """A new version of one of the schedules."""
        job, body = self._some_schedule()
        await self._call("PUT", f"/v1/jobs/{job}", body | {"description": f"version {next(self._numbers)}"})
        self.counts["updated"] += 1

    async def _pause(self) -> None:
        job, _ = self._some_schedule()
        await self._call("POST", f"/v1/jobs/{job}/pause", {"reason": "soak"})
        self._paused.append(job)

    async def _resume(self) -> None:
        if len(self._paused) > 5:
            await self._call("POST", f"/v1/jobs/{self._paused.popleft()}/resume")

    async def _replace(self) -> None:
        """One of the schedules is deleted, and another made."""
        nth = self._chance.randrange(len(self._schedules))
        await self._call("DELETE", f"/v1/jobs/{self._schedules[nth][0]}")
        if self._schedules[nth][0] in self._paused:
            self._paused.remove(self._schedules[nth][0])
        body = self._schedule(nth)
        self._schedules[nth] = ((await self._call("POST", "/v1/jobs", body))["jobId"], body)
        self.counts["replaced"] += 1

    def _some_schedule(self) -> tuple[str, dict[str, Any]]:
        return self._chance.choice(self._schedules)

    async def _enqueue(self, name: str, wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if not wanted:
            return []
        made: list[dict[str, Any]] = (await self._call("POST", f"/v1/jobs/{self._jobs[name]}/executions:batch", {"executions": wanted}))[
            "items"
        ]
        self.counts["enqueued"] += len(made)
        return made

    async def _call(self, method: str, path: str, body: Any = None) -> Any:
        answer = await self._client.request(method, path, json=body)
        if answer.status_code >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
        return answer.json()


async def churn(url: str, key: str, rate: int, seed: int) -> None:
    """Run the load until standard input ends."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), stop.set)
    async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60) as client:
        load = Load(client, rate, random.Random(seed))
        await load.prepare()
        running = asyncio.create_task(load.run(stop))
        while not stop.is_set():
            print(json.dumps(load.counts), flush=True)
            await asyncio.wait({running}, timeout=1)
            if running.done():
                break
        await running


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("key")
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    asyncio.run(churn(options.url, options.key, options.rate, options.seed))


if __name__ == "__main__":
    main()
