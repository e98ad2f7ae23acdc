"""The jobs of the workload: one shape per kind, drawn so that something happens within the minute that a seed lasts."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from duly.domain.instants import SECOND, Instant, to_datetime, to_rfc3339
from tests.simulation.plan import Plan

CALENDAR = "closed"
OVERLAPS = ("skip", "queue_one", "queue_all", "allow", "cancel_previous", "kill_previous")
BACKOFFS = ("EXPONENTIAL", "LINEAR", "FIXED")
PRIORITIES = ("CRITICAL", "HIGH", "NORMAL", "LOW")
# Kinds that only change what others make.
DEEDS = ("change", "cancel", "bulk", "backfill")


class JobDrawer:
    """Draws jobs as they are sent over the wire."""

    def __init__(self, plan: Plan, chance: random.Random) -> None:
        self._plan = plan
        self._chance = chance
        self._count = 0
        self._kinds = [kind for kind in plan.kinds if kind not in DEEDS] or ["interval"]

    def draw(self, now: Instant) -> dict[str, Any]:
        """One job, to be created now."""
        chance = self._chance
        self._count += 1
        kind = self._kinds[(self._count - 1) % len(self._kinds)] if self._count <= len(self._kinds) else chance.choice(self._kinds)
        payload: dict[str, Any] = {}
        if chance.random() < 0.6:
            payload["for"] = round(chance.choice((0.01, 0.3, 1.0, 2.5)), 2)
        if chance.random() < 0.3:
            payload["result"] = True
        body: dict[str, Any] = {"name": f"{kind.replace(' ', '-')}-{self._count}", "target": {"handler": "work"}, "payload": payload}
        body["retryPolicy"] = self._policy()
        if chance.random() < 0.4:
            body["priority"] = chance.choice(PRIORITIES)
        if chance.random() < 0.2:
            payload["fail"] = chance.choice((20, 50))
        body["overlap"] = chance.choice(OVERLAPS) if chance.random() < 0.3 else "allow"
        getattr(self, "_" + kind.replace(" ", "_"))(body, payload, now)
        if body["overlap"] == "queue_all":
            body["maxQueued"] = chance.randint(1, 3)
        if body["overlap"] == "allow" and chance.random() < 0.3:
            body["maxRunning"] = chance.randint(1, 3)
        if body["overlap"] == "kill_previous":
            body["killGraceSec"] = 1
        body["stopGraceSec"] = chance.choice((0.5, 1, 2))
        return body

    def _policy(self) -> dict[str, Any]:
        chance = self._chance
        return {
            "maxAttempts": chance.randint(1, 4),
            "backoff": chance.choice(BACKOFFS),
            "initialDelayMs": chance.choice((0, 100, 1000)),
            "maxDelayMs": 3000,
            "jitter": chance.choice((0, 0.1, 1)),
            # Whoever dies with its worker again and again is quarantined; enough of them are not.
            "maxLosses": chance.choice((2, 3, 50)),
        }

    def _ends(self, body: dict[str, Any], now: Instant) -> None:
        """Most schedules end with the workload; the client stops the others."""
        if self._chance.random() < 0.6:
            body["endAt"] = to_rfc3339(now + round(self._chance.uniform(0.3, 1.0) * self._plan.horizon * SECOND))

    def _local(self, now: Instant, ahead: float) -> datetime:
        return (to_datetime(now) + timedelta(seconds=ahead)).astimezone(ZoneInfo(self._plan.zone))

    # ------------------------------------------------------------ when

    def _once(self, body: dict[str, Any], payload: dict[str, Any], now: Instant) -> None:
        body["runAt"] = to_rfc3339(now + round(self._chance.uniform(-5, 0.8 * self._plan.horizon) * SECOND))

    def _delayed(self, body: dict[str, Any], payload: dict[str, Any], now: Instant) -> None:
        body["delaySec"] = round(self._chance.uniform(0, 15), 1)

    def _interval(self, body: dict[str, Any], payload: dict[str, Any], now: Instant) -> None:
        body["intervalSec"] = self._chance.choice((1, 2, 3, 5, 10))
        self._ends(body, now)

    def _cron(self, body: dict[str, Any], payload: dict[str, Any], now: Instant) -> None:
        body["timezone"] = self._plan.zone
        at = self._local(now, 60)
        body["schedule"] = self._chance.choice(
            ("* * * * *", f"{at.minute} {at.hour} * * *", f"{at.minute} * * * *", f"{at.minute} {at.hour} {at.day} * *", "*/2 * * * *")
        )
        body["dstGap"] = self._chance.choice(("run_after", "skip", "shift"))
        body["dstOverlap"] = self._chance.choice(("first", "second", "both"))

    def _seconds(self, body: dict[str, Any], payload: dict[str, Any], now: Instant) -> None:
        body["timezone"] = self._plan.zone
        body["seconds"] = True
        body["schedule"] = self._chance.choice(("* * * * * *", "*/2 * * * * *", "*/5 * * * * *", "0-59/7 * * * * *", "10,11,12 * * * * *"))
        self._ends(body, now)

    def _rrule(self, body: dict[str, Any], payload: dict[str, Any], now: Instant) -> None:
        at = self._local(now, self._chance.uniform(0, self._plan.horizon))
        seconds = ",".join(str(second) for second in sorted(self._chance.sample(range(60), 5)))
        body |= {"type": "RRULE", "timezone": self._plan.zone}
        body["schedule"] = f"FREQ=DAILY;BYHOUR={at.hour};BYMINUTE={at.minute};BYSECOND={seconds}"

    def _calendar(self, body: dict[str, Any], payload: dict[str, Any], now: Instant) -> None:
        self._chance.choice((self._seconds, self._interval))(body, payload, now)
        body["calendars"] = [CALENDAR]

    def _jitter(self, body: dict[str, Any], payload: dict[str, Any], now: Instant) -> None:
        self._chance.choice((self._seconds, self._interval))(body, payload, now)
        body["jitterSec"] = self._chance.choice((0.5, 2, 5))

    # ------------------------------------------------------------ steps

    def _workflow(self, body: dict[str, Any], payload: dict[str, Any], now: Instant) -> None:
        """A chain, a diamond, a wide join or a map, some steps of which fail."""
        chance = self._chance
        del body["target"], body["retryPolicy"]
        body["payload"] = {}
        body["intervalSec"] = chance.choice((5, 10, 20))
        body["endAt"] = to_rfc3339(now + round(0.6 * self._plan.horizon * SECOND))
        body["steps"] = getattr(self, chance.choice(("_chain", "_diamond", "_join", "_map")))()

    def _step(self, name: str, *after: str, **more: Any) -> dict[str, Any]:
        chance = self._chance
        payload: dict[str, Any] = {"for": chance.choice((0.01, 0.1, 0.5))}
        if chance.random() < 0.2:
            payload["fail"] = chance.choice((20, 50))
        return {
            "name": name,
            "target": {"handler": "work"},
            "dependsOn": list(after),
            "payload": payload,
            "retryPolicy": self._policy(),
        } | more

    def _chain(self) -> list[dict[str, Any]]:
        count = self._chance.randint(2, 6)
        return [self._step(f"s{nth}", *([f"s{nth - 1}"] if nth else [])) for nth in range(count)]

    def _diamond(self) -> list[dict[str, Any]]:
        rule = self._chance.choice(("all_succeeded", "all_done", "any_succeeded", "any_failed"))
        return [self._step("a"), self._step("b", "a"), self._step("c", "a"), self._step("d", "b", "c", trigger=rule)]

    def _join(self) -> list[dict[str, Any]]:
        wide = [f"p{nth}" for nth in range(20)]
        return [*(self._step(name) for name in wide), self._step("join", *wide, trigger=self._chance.choice(("all_succeeded", "all_done")))]

    def _map(self) -> list[dict[str, Any]]:
        more = {"maxParallel": self._chance.randint(1, 3)} if self._chance.random() < 0.5 else {}
        listed = self._step("list") | {"payload": {"list": self._chance.randint(0, 8)}}
        each = self._step("each", map="list", **more) | {"inputs": {"n": "item"}}
        return [listed, each, self._step("sum", "each")]

    # ------------------------------------------------------------ how

    def _overlap(self, body: dict[str, Any], payload: dict[str, Any], now: Instant) -> None:
        body["intervalSec"] = self._chance.choice((1, 2, 4))
        body["overlap"] = self._chance.choice(OVERLAPS)
        payload["for"] = self._chance.choice((0.5, 2.5, 5.0))
        body["endAt"] = to_rfc3339(now + round(0.6 * self._plan.horizon * SECOND))

    def _catch_up(self, body: dict[str, Any], payload: dict[str, Any], now: Instant) -> None:
        self._chance.choice((self._seconds, self._interval))(body, payload, now)
        body["catchUp"] = {
            "policy": self._chance.choice(("latest", "all", "none")),
            "maxCount": self._chance.choice((2, 15)),
            "windowSec": self._chance.choice((10, 60)),
            "graceSec": self._chance.choice((1, 3)),
        }

    def _retry(self, body: dict[str, Any], payload: dict[str, Any], now: Instant) -> None:
        payload["fail"] = self._chance.choice((30, 60, 100))
        payload["give_up"] = self._chance.random() < 0.2
        if self._chance.random() < 0.3:
            payload["snooze"] = self._chance.randint(1, 3)

    def _limits(self, body: dict[str, Any], payload: dict[str, Any], now: Instant) -> None:
        # What waits in line must come through within a seed: no retries to fill the line again.
        payload["for"] = self._chance.choice((0.1, 1.0))
        payload.pop("fail", None)
        match self._chance.randrange(4):
            case 0:
                body["maxConcurrent"] = self._chance.randint(1, 2)
            case 1:
                body["concurrency"] = {"max": 1, "key": "user"}
            case 2:
                body["concurrency"] = {"max": 2, "name": "shared"}
            case _:
                body["rateLimit"] = {"count": self._chance.randint(1, 3), "perSec": self._chance.choice((0.5, 1.0))}

    def _unique(self, body: dict[str, Any], payload: dict[str, Any], now: Instant) -> None:
        body["unique"] = self._chance.choice(({"key": "user"}, {}, {"key": "user", "forSec": 5}))

    def _batch(self, body: dict[str, Any], payload: dict[str, Any], now: Instant) -> None:
        body["target"] = {"handler": "gather"}
        body["batch"] = self._chance.randint(2, 4)

    def _timeout(self, body: dict[str, Any], payload: dict[str, Any], now: Instant) -> None:
        payload["for"] = self._chance.choice((0.3, 3.0))
        body[self._chance.choice(("timeoutSec", "executionTimeoutSec", "heartbeatTimeoutSec"))] = self._chance.choice((1, 2))

    def _checkpoint(self, body: dict[str, Any], payload: dict[str, Any], now: Instant) -> None:
        payload |= {"for": self._chance.choice((2.0, 4.0, 8.0)), "checkpoints": self._chance.randint(1, 4)}

    def _stubborn(self, body: dict[str, Any], payload: dict[str, Any], now: Instant) -> None:
        payload |= {"for": self._chance.choice((4.0, 9.0)), "stubborn": True}
        if self._chance.random() < 0.5:
            body["intervalSec"] = 4
            body["overlap"] = self._chance.choice(("kill_previous", "cancel_previous"))
            body["endAt"] = to_rfc3339(now + round(0.5 * self._plan.horizon * SECOND))
