"""`duly dev --demo`: a shop that has a past, and whose time passes as fast as it is asked to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from duly.cli.demo import bar, door
from duly.cli.demo.shop import app
from duly.cli.demo.town import Town
from duly.cli.main import main
from duly.dashboard.pages import pages
from duly.domain.access import Role
from duly.domain.instants import HOUR, MINUTE, SECOND, Instant, from_rfc3339
from duly.domain.lifecycle import State
from duly.http.app import route_table
from tests.http.conftest import ADMIN, VIEWER, key_row

START = from_rfc3339("2026-06-03T10:00:00Z")


def test_the_shop_has_forty_jobs_of_many_kinds() -> None:
    specs = {name: job.spec for name, job in app.declared.items()}

    assert len(specs) == 40
    assert len(app.workflows) == 3
    assert {spec.overlap.policy.value for spec in specs.values()} >= {"skip", "queue_one"}
    assert {spec.target.pool for spec in specs.values()} == {"default", "gpu"}
    assert any(spec.retry.max_attempts > 1 for spec in specs.values())
    # 02:30 in Berlin is there twice in autumn and not at all in spring.
    assert getattr(specs["nightly-report"].timing, "cron", "") == "30 2 * * *"


@pytest.fixture
def town() -> Iterator[Town]:
    made = Town(app, START)
    yield made
    made.stop()
    made.world.close()


def passed(town: Town, until: Instant) -> None:
    """Wait until so much time has passed in town, on the clock of nobody else."""
    reached = threading.Event()
    note = town._note

    def noticing(at: float) -> None:
        note(at)
        if town.now >= until or town.trouble is not None:
            reached.set()

    town._note = noticing  # type: ignore[method-assign]
    town.start(reached.set)
    assert reached.wait(60)
    assert town.trouble is None


def test_its_past_was_lived_through_by_the_real_roles(town: Town) -> None:
    town.live(timedelta(minutes=40))

    runs = town.world.executions(None)
    assert town.now == START + 40 * MINUTE
    assert len(runs) > 100
    assert {State.SUCCEEDED, State.DEAD} <= {run.state for run in runs}


def test_who_is_lost_is_missed_and_what_it_should_do_waits(town: Town) -> None:
    town.live(timedelta(minutes=5))

    town.lose("gpu")
    town.live(timedelta(hours=1))

    job = town.world.job("train-recommender")
    assert job is not None
    assert [run.state for run in town.world.executions(job)] == [State.PENDING]


def test_time_passes_as_fast_as_it_is_asked_to(town: Town) -> None:
    town.set_speed(3600)

    passed(town, START + 10 * MINUTE)

    # Ten fires of a job that fires every minute, each at its instant, whatever the speed.
    job = town.world.job("heartbeat")
    assert job is not None
    town.stop()
    due = [run.due_at for run in town.world.executions(job)]
    assert due[:10] == [START + (1 + nth) * MINUTE for nth in range(10)]
    assert all(run.started_at == run.due_at for run in town.world.executions(job)[:10])


@pytest.fixture
async def client(town: Town, tmp_path: Path) -> Any:
    node = door.node_in(town, door.settings_in(tmp_path))
    await node.store.keys.add_key(key_row(ADMIN, Role.ADMIN, tenant=1))
    await node.store.keys.add_key(key_row(VIEWER, Role.VIEWER, tenant=1))
    api, _ = door.api_in(town, node)
    headers = {"authorization": f"Bearer {ADMIN}"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://127.0.0.1", headers=headers) as asking:
        yield asking


async def test_every_page_says_that_its_time_is_the_demos(client: httpx.AsyncClient) -> None:
    for path in ("/", "/upcoming", "/jobs", "/cluster"):
        text = (await client.get(path, headers={"accept": "text/html"})).text
        assert text.count("data-demo-time") == 1
        assert text.count('src="/demo/time.js"') == 1
        assert [f'value="{speed}"' in text for speed in (1, 10, 60, 600, 3600)] == [True] * 5

    # A part that is fetched again has no bar of its own, and files are files.
    assert "data-demo-time" not in (await client.get("/?part=verdict", headers={"accept": "text/html"})).text
    assert (await client.get("/demo/time.js")).headers["content-type"].startswith("text/javascript")
    assert (await client.get("/demo/time.css")).headers["content-type"].startswith("text/css")


async def test_its_speed_is_changed_over_a_route_of_its_own(client: httpx.AsyncClient, town: Town) -> None:
    assert (await client.get("/demo/time")).json() == {"now": "2026-06-03T10:00:00Z", "speed": 1, "reached": 1.0}

    assert (await client.put("/demo/time", json={"speed": 600})).json()["speed"] == 600

    assert town.speed == 600
    assert (await client.put("/demo/time", json={"speed": 7200})).status_code == 422
    assert (await client.put("/demo/time", json={"speed": 1}, headers={"authorization": f"Bearer {VIEWER}"})).status_code == 403
    assert (await client.put("/demo/time", json={"speed": 1}, headers={"authorization": ""})).status_code == 401
    assert town.speed == 600


def test_no_server_has_that_route_or_that_bar() -> None:
    declared = [*pages().routes, *route_table().routes]

    assert not [route.path for route in declared if "demo" in route.path]
    assert {route.path for route in bar.on_top_of(pages().routes)} == {route.path for route in pages().routes}


async def test_what_is_asked_for_over_the_api_is_done_in_the_demos_time(client: httpx.AsyncClient, town: Town) -> None:
    [job] = (await client.get("/v1/jobs", params={"name": "welcome-mail"})).json()["items"]
    made = await client.post(f"/v1/jobs/{job['jobId']}/executions", json={"payload": {"customer": 42}})
    new = await client.post("/v1/jobs", json={"name": "mine", "schedule": "*/5 * * * *", "target": {"handler": "duly.echo"}})
    assert (made.status_code, new.status_code) == (201, 201)

    town.set_speed(600)
    passed(town, START + 6 * MINUTE)
    town.stop()

    seen = (await client.get(f"/v1/executions/{made.json()['executionId']}")).json()
    assert (seen["state"], seen["result"]) == ("SUCCEEDED", "welcome, 42")
    fired = (await client.get("/v1/executions", params={"jobId": new.json()["jobId"]})).json()["items"]
    assert [(run["scheduledAt"], run["state"]) for run in fired] == [("2026-06-03T10:05:00Z", "SUCCEEDED")]


async def test_a_session_lasts_hours_of_the_real_world_however_fast_time_passes(client: httpx.AsyncClient, town: Town) -> None:
    link = (await client.post("/v1/sessions/link", json={})).json()["url"]
    token = link.partition("token=")[2]
    town.world.store_clock.step(2 * HOUR)
    headers = {"authorization": "", "sec-fetch-site": "same-origin"}
    begun = await client.post("/login", data={"token": token}, headers=headers)
    assert begun.status_code == 303
    lasts = int(begun.headers["set-cookie"].partition("Max-Age=")[2].partition(";")[0])

    town.world.store_clock.step(1000 * HOUR)

    assert lasts > HOUR // SECOND
    cookie = begun.headers["set-cookie"].partition(";")[0]
    assert (await client.get("/v1/session", headers={"authorization": "", "cookie": cookie})).status_code == 200


@pytest.mark.parametrize("words", [["shop:app"], ["--store", "sqlite:///x.db"], ["--home", "x"], ["--pool", "gpu"], ["--allow-shell"]])
def test_the_demo_has_its_own_jobs_and_its_own_store(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dev", "--demo", *words]) == 2

    assert "contradict one another" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--demo", "--speed", "2x"], ["--speed", "60x"]])
def test_only_the_demo_has_a_speed_and_only_some(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dev", *words]) == 2

    assert "speed" in capsys.readouterr().err
