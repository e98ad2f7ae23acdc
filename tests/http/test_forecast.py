"""What is foretold is what comes: 400 days in 12 zones, as the route lists them and as the dispatcher fires them."""

from __future__ import annotations

import random
from collections import defaultdict

import httpx
import pytest

from duly.adapters.memory.hot_index import MemoryHotIndex
from duly.domain.instants import DAY, HOUR, to_rfc3339
from duly.roles.dispatcher import Dispatcher, DispatcherSettings
from duly.roles.ownership import Ownership, OwnershipSettings
from duly.usecases.quotas import Directory
from tests.http.conftest import START, Bench

DAYS = 400
# Each where its clocks change: at two and three, at midnight, by half an hour, by two hours, twice around Ramadan.
SCHEDULES = {
    "Europe/Berlin": {"schedule": "30 2 * * *", "dstGap": "skip", "dstOverlap": "both"},
    "Europe/Dublin": {"schedule": "30 1 * * *", "dstGap": "run_after", "dstOverlap": "second"},
    "America/New_York": {"schedule": "15 2 * * *", "dstGap": "shift", "dstOverlap": "first"},
    "America/St_Johns": {"schedule": "45 1 * * 0", "dstOverlap": "both"},
    "America/Havana": {"schedule": "30 0 * * *", "dstOverlap": "both"},
    "America/Santiago": {"schedule": "@daily"},
    "Africa/Cairo": {"schedule": "0 0 * * *"},
    "Africa/Casablanca": {"schedule": "30 2 * * 0,6", "dstGap": "skip"},
    "Asia/Beirut": {"type": "RRULE", "schedule": "FREQ=DAILY;BYHOUR=0;BYMINUTE=30"},
    "Australia/Lord_Howe": {"schedule": "H 2 * * *", "dstOverlap": "both"},
    "Pacific/Chatham": {"schedule": "*/50 2,3 * * 0"},
    "Antarctica/Troll": {"schedule": "0 2 1-7,25-31 * *"},
}


@pytest.fixture
def store_kind() -> str:
    return "sqlite"


async def foretold(client: httpx.AsyncClient) -> dict[str, list[str]]:
    window = f"from={to_rfc3339(START)}&until={to_rfc3339(START + DAYS * DAY)}&perJob=1000&limit=200"
    found: dict[str, list[str]] = defaultdict(list)
    cursor = ""
    while cursor is not None:
        page = (await client.get(f"/v1/upcoming?{window}{cursor and f'&cursor={cursor}'}")).json()
        assert (page["until"], page["capped"]) == (to_rfc3339(START + DAYS * DAY), 0)
        for fire in page["items"]:
            found[fire["jobId"]].append(fire["at"])
        cursor = page["nextCursor"]
    return found


def dispatcher(bench: Bench) -> Dispatcher:
    ownership = Ownership("d", bench.store.leases, bench.clock, OwnershipSettings())
    quotas = Directory(bench.store.tenants, bench.clock)
    parts = (bench.store.schedules, bench.store.definitions, quotas, MemoryHotIndex(), bench.hints, bench.clock, DispatcherSettings())
    return Dispatcher(ownership, *parts)


async def test_the_forecast_is_what_the_dispatcher_fires(bench: Bench, admin: httpx.AsyncClient) -> None:
    lenient = {"overlap": "allow", "catchUp": {"policy": "all", "maxCount": 1000, "windowSec": 5 * 86_400}}
    jobs = {zone: await bench.job(name=zone.replace("/", "-"), timezone=zone, **timing, **lenient) for zone, timing in SCHEDULES.items()}
    expected = await foretold(admin)

    role, chance, end = dispatcher(bench), random.Random(400), START + DAYS * DAY
    while bench.clock.now() < end - 1:
        # Now and then somebody sleeps for hours: what was due meanwhile is made up for.
        [soonest], _ = await bench.store.definitions.waiting(1, end + 30 * DAY, 1)
        bench.clock.at = min(max(soonest.next_fire_at, bench.clock.now()) + round(chance.uniform(0, 36) * HOUR), end - 1)
        for _ in range(20):
            if (await role.step(bench.clock.now())).wait > 0:
                break

    for zone, job in jobs.items():
        page, seen = f"/v1/jobs/{job}/executions?limit=200", list[str]()
        while page:
            answer = (await admin.get(page)).json()
            seen += [run["scheduledAt"] for run in answer["items"]]
            page = answer["nextCursor"] and f"/v1/jobs/{job}/executions?limit=200&cursor={answer['nextCursor']}"
        assert len(seen) > 50, zone
        assert sorted(seen) == expected[job], zone
