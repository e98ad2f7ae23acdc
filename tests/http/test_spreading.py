"""Crowded minutes: what would move, that it moves, and that it can be taken back."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from duly.domain.access import Actor, Role
from duly.domain.ids import parse_job_id
from tests.http.conftest import OPERATOR, STRANGER, Bench


@pytest.fixture
async def herd(bench: Bench) -> list[str]:
    """Six jobs at midnight, one of them in another pool, and one that fires all the time."""
    await bench.job(name="often", schedule="*/5 * * * *")
    pools = ["default"] * 5 + ["slow"]
    return [
        await bench.job(name=f"nightly-{nth}", schedule="0 0 * * *", target={"handler": "duly.echo", "pool": pool})
        for nth, pool in enumerate(pools)
    ]


async def spread(client: httpx.AsyncClient, query: str = "most=2") -> dict[str, list[dict[str, object]]]:
    answer = await client.get(f"/v1/schedules/spread?{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


def moves(found: dict[str, list[dict[str, object]]]) -> list[dict[str, object]]:
    return [{name: move[name] for name in ("jobId", "before", "after")} for move in found["moves"]]


async def test_a_preview_says_what_would_move_and_changes_nothing(bench: Bench, admin: httpx.AsyncClient, herd: list[str]) -> None:
    found = await spread(admin)

    assert [(move["before"], move["after"]) for move in found["moves"]] == [("0 0 * * *", "H 0 * * *")] * 4
    midnight = next(minute for minute in found["minutes"] if minute["at"] == "2026-01-06T00:00:00Z")
    assert midnight["before"] == 6
    assert midnight["after"] < 6  # type: ignore[operator]
    assert sum(minute["before"] for minute in found["minutes"]) == sum(minute["after"] for minute in found["minutes"])  # type: ignore[misc]
    assert (found["often"], found["isWhole"]) == (1, True)
    assert len((await spread(admin, "most=1&pool=slow"))["moves"]) == 0
    assert (await spread(bench.client(STRANGER)))["moves"] == []
    assert {(await admin.get(f"/v1/jobs/{id}")).json()["schedule"] for id in herd} == {"0 0 * * *"}


async def test_moves_are_carried_out_told_to_the_audit_and_taken_back(admin: httpx.AsyncClient, herd: list[str]) -> None:
    wanted = moves(await spread(admin))

    answer = await admin.post("/v1/jobs:reschedule", json={"moves": wanted}, headers={"duly-reason": "midnight burns"})

    assert answer.json() == {"done": [move["jobId"] for move in wanted], "refused": []}
    moved = (await admin.get(f"/v1/jobs/{wanted[0]['jobId']}")).json()
    assert (moved["schedule"], moved["version"]) == ("H 0 * * *", 2)
    assert (await spread(admin))["moves"] == []
    record = (await admin.get(f"/v1/audit?subject={wanted[0]['jobId']}")).json()["items"][0]
    assert (record["action"], record["reason"], record["after"]["schedule"]) == ("job.change", "midnight burns", "H 0 * * *")

    back = [{"jobId": move["jobId"], "before": move["after"], "after": move["before"]} for move in wanted]
    assert len((await admin.post("/v1/jobs:reschedule", json={"moves": back})).json()["done"]) == 4
    assert moves(await spread(admin)) == wanted


async def test_a_job_that_has_changed_is_gone_or_belongs_to_another_is_left_alone(
    bench: Bench, admin: httpx.AsyncClient, herd: list[str]
) -> None:
    wanted = [
        {"jobId": herd[0], "before": "5 0 * * *", "after": "H 0 * * *"},
        {"jobId": herd[1], "before": "0 0 * * *", "after": "61 0 * * *"},
        {"jobId": "job_0198c2d5a4e87f3b9c1d2e3f4a5b6c7d", "before": "0 0 * * *", "after": "H 0 * * *"},
        {"jobId": herd[2], "before": "0 0 * * *", "after": "H 0 * * *"},
    ]

    answer = (await admin.post("/v1/jobs:reschedule", json={"moves": wanted})).json()
    strange = (await bench.client(STRANGER).post("/v1/jobs:reschedule", json={"moves": wanted[3:]})).json()
    refused = await bench.client(OPERATOR).post("/v1/jobs:reschedule", json={"moves": wanted})

    assert answer["done"] == [herd[2]]
    assert [each["code"] for each in answer["refused"]] == ["DULY-E209", "DULY-E101", "DULY-E204"]
    assert [each["code"] for each in strange["refused"]] == ["DULY-E204"]
    assert refused.status_code == 403
    assert (await admin.get(f"/v1/jobs/{herd[0]}")).json()["version"] == 1
    assert (await admin.post("/v1/jobs:reschedule", json={"moves": []})).status_code == 422


async def test_what_is_declared_in_code_is_moved_there(bench: Bench, admin: httpx.AsyncClient) -> None:
    await bench.job(name="beside", schedule="0 0 * * *")
    id = await bench.job(name="from-code", schedule="0 0 * * *")
    actor = Actor(1, "default", Role.ADMIN, "code")
    job = await bench.services.jobs.show(actor, parse_job_id(id))
    await bench.services.jobs.change_spec(actor, job, replace(job.version.spec, source="shop"), bench.clock.now())

    found = await spread(admin, "most=1")
    answer = (await admin.post("/v1/jobs:reschedule", json={"moves": [{"jobId": id, "before": "0 0 * * *", "after": "H 0 * * *"}]})).json()

    assert [(move["jobName"], move["source"]) for move in found["moves"]] == [("from-code", "shop")]
    assert [each["code"] for each in answer["refused"]] == ["DULY-E214"]
