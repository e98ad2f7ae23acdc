"""What was and what comes, over the API: minutes, fires, versions."""

from __future__ import annotations

import httpx

from duly.domain.instants import MINUTE, SECOND
from duly.domain.lifecycle import State
from tests.http.conftest import STRANGER, VIEWER, Bench


async def test_the_history_tells_how_executions_ended_and_how_late_they_began(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job(name="report")
    await bench.enqueue(job)
    bench.clock.turn(2 * SECOND)
    claimed = await bench.claim()
    await bench.finish(claimed)
    await bench.enqueue(job)
    await bench.finish(await bench.claim(), state=State.DEAD, error='{"type":"E"}')
    bench.clock.turn(SECOND)

    answer = (await admin.get("/v1/stats/history", params={"minutes": 5})).json()

    assert len(answer["minutes"]) == 6
    assert answer["minutes"][-1]["ended"] == {"SUCCEEDED": 1, "DEAD": 1}
    assert answer["latenessP95Ms"] == 2000.0
    assert (await bench.client(STRANGER).get("/v1/stats/history")).json()["latenessP95Ms"] is None


async def test_the_history_tells_when_jobs_were_changed_and_paused(bench: Bench, admin: httpx.AsyncClient) -> None:
    report, night = await bench.job(name="report", intervalSec=60), await bench.job(name="night")
    bench.clock.turn(MINUTE)
    await admin.put(f"/v1/jobs/{report}", json={"name": "report", "intervalSec": 90, "target": {"handler": "duly.echo"}})
    bench.clock.turn(MINUTE)
    for job in (report, night):
        await admin.post(f"/v1/jobs/{job}/pause", json={"reason": "the database moves"})
    bench.clock.turn(MINUTE)
    await admin.post(f"/v1/jobs/{night}/resume", json={})

    async def told(client: httpx.AsyncClient, minutes: int) -> list[tuple[str, int, str | None, str | None]]:
        found = (await client.get("/v1/stats/history", params={"minutes": minutes})).json()["changes"]
        return [(each["action"], each["jobs"], each["jobId"], each["jobName"]) for each in found]

    everything = [("job.change", 1, report, "report"), ("job.pause", 2, None, None), ("job.resume", 1, night, "night")]
    assert await told(admin, 5) == everything
    # Nobody learns from it who did that: it is for everybody who may look.
    assert await told(bench.client(VIEWER), 5) == everything
    assert await told(admin, 1) == everything[1:]
    assert await told(bench.client(STRANGER), 5) == []


async def test_the_fires_of_a_job_say_what_the_clocks_do_to_them(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job(name="night", schedule="30 2 28,29 3 *", timezone="Europe/Berlin")

    items = (await admin.get(f"/v1/jobs/{job}/fires", params={"count": 3})).json()["items"]

    assert [item["local"] for item in items] == ["2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2027-03-28T03:00:00+02:00"]
    assert items[0]["note"] is None
    assert "does not exist" in items[1]["note"]
    assert not any(item["isSkipped"] for item in items)

    await admin.post(f"/v1/jobs/{job}/skip", json={})
    assert [item["isSkipped"] for item in (await admin.get(f"/v1/jobs/{job}/fires")).json()["items"]][:2] == [True, False]


async def test_a_job_without_a_schedule_has_no_fires(bench: Bench, admin: httpx.AsyncClient) -> None:
    assert (await admin.get(f"/v1/jobs/{await bench.job()}/fires")).json() == {"items": [], "nextCursor": None}


async def test_the_versions_of_a_job_are_all_that_it_was(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job(name="report", intervalSec=60)
    await admin.put(f"/v1/jobs/{job}", json={"name": "report", "intervalSec": 90, "target": {"handler": "duly.echo"}})

    items = (await admin.get(f"/v1/jobs/{job}/versions")).json()["items"]

    assert [(item["version"], item["intervalSec"]) for item in items] == [(2, 90), (1, 60)]
    assert (await bench.client(STRANGER).get(f"/v1/jobs/{job}/versions")).status_code == 404


async def test_the_grid_shows_runs_side_by_side_with_their_attempts(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job(name="report")
    await bench.enqueue(job)
    bench.clock.turn(2 * SECOND)
    await bench.finish(await bench.claim())
    await bench.enqueue(job)
    await bench.finish(await bench.claim(), state=State.DEAD, error='{"type":"E"}')

    grid = (await bench.client(VIEWER).get(f"/v1/jobs/{job}/grid")).json()

    assert (grid["kind"], grid["rows"], grid["rowsLeftOut"]) == ("attempts", ["attempt 1"], 0)
    assert [(run["state"], run["cells"], run["version"]) for run in grid["runs"]] == [("DEAD", "F", 1), ("SUCCEEDED", "S", 1)]
    assert [run["latenessMs"] for run in grid["runs"]] == [0.0, 2000.0]
    assert (grid["letters"]["F"], grid["letters"]["S"]) == ("failed", "succeeded")
    assert len((await admin.get(f"/v1/jobs/{job}/grid", params={"runs": 1})).json()["runs"]) == 1
    assert (await bench.client(STRANGER).get(f"/v1/jobs/{job}/grid")).status_code == 404
    for wrong in (0, 501, "many"):
        assert (await admin.get(f"/v1/jobs/{job}/grid", params={"runs": wrong})).status_code == 422


async def test_the_grid_looks_past_what_has_not_begun(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job(name="report")
    for _ in range(2):
        await bench.enqueue(job)
    await bench.finish(await bench.claim())
    later = {"executions": [{"runAt": "2027-01-01T00:00:00Z"}] * 65}
    assert (await admin.post(f"/v1/jobs/{job}/executions:batch", json=later)).status_code == 201

    for wanted, found in ((60, 2), (1, 1)):
        grid = (await admin.get(f"/v1/jobs/{job}/grid", params={"runs": wanted})).json()
        assert [run["state"] for run in grid["runs"]] == ["SUCCEEDED"] * found
