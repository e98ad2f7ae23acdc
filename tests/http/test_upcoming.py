"""What will fire, over all jobs of a tenant: in order, page by page, bounded, and nobody else's."""

from __future__ import annotations

import asyncio
from uuid import UUID

import httpx
import pytest

from duly.domain.expected import Sketch
from duly.domain.ids import parse_job_id
from duly.domain.instants import SECOND
from duly.usecases import upcoming
from tests.http.conftest import STRANGER, Bench

ECHO = {"target": {"handler": "duly.echo"}}
WINDOW = "from=2026-01-05T12:00:00Z&until=2026-01-05T13:00:00Z"


async def shown(client: httpx.AsyncClient, query: str) -> dict[str, object]:
    answer = await client.get(f"/v1/upcoming?{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def pages(client: httpx.AsyncClient, query: str) -> list[tuple[str, str]]:
    seen: list[tuple[str, str]] = []
    page = await shown(client, query)
    while True:
        seen += [(item["at"][11:16], item["jobName"]) for item in page["items"]]
        if page["nextCursor"] is None:
            return seen
        page = await shown(client, f"{query}&cursor={page['nextCursor']}")


@pytest.fixture
async def jobs(bench: Bench) -> dict[str, str]:
    return {
        "half": await bench.job(name="half", schedule="*/30 * * * *"),
        "hour": await bench.job(name="hour", schedule="30 * * * *", target={"handler": "duly.echo", "pool": "slow"}),
        "once": await bench.job(name="once", runAt="2026-01-05T12:10:00Z"),
        "asked": await bench.job(name="asked"),
        "paused": await bench.job(name="paused", schedule="* * * * *"),
    }


async def test_fires_come_in_the_order_of_their_times(bench: Bench, admin: httpx.AsyncClient, jobs: dict[str, str]) -> None:
    await admin.post(f"/v1/jobs/{jobs['paused']}/pause")
    await admin.post(f"/v1/jobs/{jobs['once']}/skip")
    page = await shown(admin, WINDOW)

    assert [(item["at"][11:16], item["jobName"], item["pool"], item["isSkipped"]) for item in page["items"]] == [
        ("12:10", "once", "default", True),
        ("12:30", "half", "default", False),
        ("12:30", "hour", "slow", False),
    ]
    assert (page["from"], page["until"], page["capped"], page["nextCursor"]) == ("2026-01-05T12:00:00Z", "2026-01-05T13:00:00Z", 0, None)
    assert (await shown(bench.client(STRANGER), WINDOW))["items"] == []


async def test_what_paused_jobs_would_fire_is_told_until_their_pauses_end(
    bench: Bench, admin: httpx.AsyncClient, jobs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await shown(admin, f"{WINDOW}&state=PAUSED"))["items"] == []
    await admin.post(f"/v1/jobs/{jobs['paused']}/pause", json={"until": "2026-01-05T12:05:00Z"})
    await admin.post(f"/v1/jobs/{jobs['hour']}/pause", json={})

    page = await shown(admin, f"{WINDOW}&state=PAUSED&perJob=3")
    assert [(item["at"][11:16], item["jobName"]) for item in page["items"]] == [
        *((f"12:{minute:02}", "paused") for minute in (1, 2, 3)),
        ("12:30", "hour"),
    ]
    assert page["capped"] == 1
    assert await pages(admin, f"{WINDOW}&state=PAUSED&limit=2") == [
        *((f"12:{minute:02}", "paused") for minute in (1, 2, 3, 4)),
        ("12:30", "hour"),
    ]
    assert [item["jobName"] for item in (await shown(admin, f"{WINDOW}&state=PAUSED&pool=slow"))["items"]] == ["hour"]
    assert sum(minute["fires"] for minute in (await shown(admin, f"{WINDOW}&state=PAUSED&summary=minute"))["minutes"]) == 5
    # What is paused now fires again afterwards: it is never told of twice.
    assert ("12:04", "paused") not in await pages(admin, WINDOW)
    assert ("12:05", "paused") in await pages(admin, WINDOW)
    assert (await shown(bench.client(STRANGER), f"{WINDOW}&state=PAUSED"))["items"] == []
    assert (await admin.get("/v1/upcoming?state=CANCELLED")).status_code == 422

    monkeypatch.setattr(upcoming, "MOST_COUNTED", 2)
    monkeypatch.setattr(upcoming, "BREATHE_EVERY", 2)
    cut = await shown(admin, f"{WINDOW}&state=PAUSED&summary=minute")
    assert (cut["until"], sum(minute["fires"] for minute in cut["minutes"])) == ("2026-01-05T12:03:00Z", 2)
    monkeypatch.setattr(upcoming, "MOST_JOBS", 1)
    unknown = await shown(admin, f"{WINDOW}&state=PAUSED")
    assert (unknown["until"], unknown["items"]) == ("2026-01-05T12:00:00Z", [])


@pytest.mark.parametrize("limit", [1, 2, 7, 200])
async def test_pages_have_neither_holes_nor_repeats(admin: httpx.AsyncClient, jobs: dict[str, str], limit: int) -> None:
    everything = await pages(admin, f"{WINDOW}&limit={limit}&perJob=1000")

    assert everything == sorted(everything, key=lambda fire: fire[0])
    assert sorted(everything) == sorted(
        [(f"12:{minute:02}", "paused") for minute in range(1, 60)] + [("12:30", "half"), ("12:30", "hour"), ("12:10", "once")]
    )


async def test_one_job_does_not_drown_the_others(admin: httpx.AsyncClient, jobs: dict[str, str]) -> None:
    page = await shown(admin, f"{WINDOW}&perJob=3")

    assert [item["jobName"] for item in page["items"]] == ["paused"] * 3 + ["once", "half", "hour"]
    assert page["capped"] == 1
    assert await pages(admin, f"{WINDOW}&perJob=3&limit=2") == [(item["at"][11:16], item["jobName"]) for item in page["items"]]


async def test_a_window_may_lie_far_ahead(admin: httpx.AsyncClient, jobs: dict[str, str]) -> None:
    found = await pages(admin, "from=2031-06-01T00:29:30Z&until=2031-06-01T00:30:30Z")

    assert [name for _, name in found] == ["half", "hour", "paused"]


async def test_minutes_are_counted(admin: httpx.AsyncClient, jobs: dict[str, str]) -> None:
    page = await shown(admin, f"{WINDOW}&summary=minute")
    counts = {minute["at"][11:16]: minute["fires"] for minute in page["minutes"]}

    assert page["items"] == []
    assert (counts["12:01"], counts["12:10"], counts["12:30"], len(counts)) == (1, 2, 3, 59)


async def test_too_much_is_cut_and_said(admin: httpx.AsyncClient, jobs: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upcoming, "MOST_JOBS", 3)
    few = await shown(admin, f"{WINDOW}&perJob=1000&limit=200")
    monkeypatch.setattr(upcoming, "MOST_JOBS", 5_000)
    monkeypatch.setattr(upcoming, "MOST_FIRES", 10)
    monkeypatch.setattr(upcoming, "MOST_COUNTED", 10)
    short = await shown(admin, f"{WINDOW}&summary=minute")

    # The fourth job in time is one of the two at half past; whatever comes before it is complete.
    assert few["until"] == "2026-01-05T12:30:00Z"
    assert len(few["items"]) == 30
    assert short["until"] < "2026-01-05T12:30:00Z"
    assert all(minute["at"] < short["until"] for minute in short["minutes"])


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("until=2026-01-05T12:00:00Z", "until"),
        ("from=2026-01-05T12:00:00Z&until=2026-01-05T11:00:00Z", "until"),
        ("from=yesterday", "from"),
        ("from=9999-12-31T23:59:59Z", "until"),
        ("summary=hour", "summary"),
        ("perJob=0", "perJob"),
        ("perJob=1001", "perJob"),
        ("cursor=xyz", "cursor"),
        ("window=1", "window"),
    ],
)
async def test_bad_windows_are_refused(admin: httpx.AsyncClient, query: str, field: str) -> None:
    answer = await admin.get(f"/v1/upcoming?{query}")

    assert (answer.status_code, answer.json()["field"]) == (422, field)


async def test_a_cursor_belongs_to_its_window(admin: httpx.AsyncClient, jobs: dict[str, str]) -> None:
    cursor = (await shown(admin, f"{WINDOW}&limit=1"))["nextCursor"]
    other = await admin.get(f"/v1/upcoming?cursor={cursor}")

    assert (other.status_code, other.json()["code"]) == (422, "DULY-E120")
    assert (await admin.get(f"/v1/upcoming?{WINDOW}&limit=50&cursor={cursor}")).status_code == 200


async def test_a_load_has_the_running_time_of_what_fires_and_says_of_how_much_nothing_is_known(
    bench: Bench, admin: httpx.AsyncClient, jobs: dict[str, str]
) -> None:
    sketch = Sketch(bench.clock.now())
    sketch.add([90 * SECOND] * 20, bench.clock.now())
    assert await bench.store.figures.count(0, None, UUID(int=1), {parse_job_id(jobs["half"]): (1, sketch)}, bench.clock.now())
    await admin.post(f"/v1/jobs/{jobs['paused']}/pause")

    page = await shown(admin, f"{WINDOW}&summary=load")

    # What is learnt of durations is right to within five per cent.
    assert [(minute["at"][11:16], minute["fires"], round(minute["busySec"] / 10)) for minute in page["minutes"]] == [
        ("12:10", 1, 0),
        ("12:30", 2, 6),
        ("12:31", 0, 3),
    ]
    assert page["unknown"] == 2
    far = await admin.get("/v1/upcoming?summary=load&until=2027-01-05T12:00:00Z")
    assert (far.status_code, far.json()["code"]) == (422, "DULY-E105")


async def test_only_the_fires_of_a_pool_are_shown_and_counted(admin: httpx.AsyncClient, jobs: dict[str, str]) -> None:
    listed = await shown(admin, f"{WINDOW}&pool=slow")
    counted = await shown(admin, f"{WINDOW}&pool=slow&summary=minute")

    assert [item["jobName"] for item in listed["items"]] == ["hour"]
    assert counted["minutes"] == [{"at": "2026-01-05T12:30:00Z", "fires": 1, "busySec": None}]
    assert (await shown(admin, f"{WINDOW}&pool=nowhere"))["items"] == []


async def test_a_look_ahead_after_a_shorter_one_repeats_nothing(admin: httpx.AsyncClient, jobs: dict[str, str]) -> None:
    await shown(admin, f"{WINDOW}&limit=1")
    later = await shown(admin, "from=2026-01-05T15:00:00Z&until=2026-01-05T16:00:00Z")

    fires = [(item["jobName"], item["at"]) for item in later["items"]]
    assert len(fires) == len(set(fires))
    assert [at[11:16] for name, at in fires if name == "half"] == ["15:00", "15:30"]


async def test_others_have_their_turn_while_seconds_are_counted(
    bench: Bench, admin: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upcoming, "BREATHE_EVERY", 10)
    await bench.job(name="often", schedule="* * * * * *", seconds=True)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    page = await shown(admin, f"{WINDOW}&summary=minute")
    beside.cancel()

    assert sum(minute["fires"] for minute in page["minutes"]) >= 3_500
    assert turns >= 350
