"""Real processes, killed without warning: nothing is lost, nothing ends twice, nothing starts early."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.chaos.fleet import APP, Fleet, Refused, eventually
from tests.services.postgres import Postgres

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]


def test_ten_thousand_executions_survive_ten_kills(fleet: Fleet, long_form: bool) -> None:
    count, kills = 10_000, 50 if long_form else 10
    chance = random.Random(7)
    fleet.start_api("api")
    replaceable = [fleet.start("scheduler"), fleet.start("worker", APP), fleet.start("worker", APP)]
    eventually(lambda: bool(fleet.call("GET", "/v1/jobs?name=effect")["items"]), 30, "the application published its job")
    job = fleet.job("effect")

    submitted: list[str] = []
    for start in range(0, count, 1000):
        # Half at once, half over the time of the kills; one in ten runs for a moment, so that kills meet running handlers.
        batch = [
            {
                "payload": {"n": start + n, "seconds": 0.0 if n % 10 else 0.2},
                "delaySec": round(chance.random() * kills * 0.8, 3) if n % 2 else 0,
            }
            for n in range(1000)
        ]
        submitted += [
            item["executionId"] for item in fleet.call("POST", f"/v1/jobs/{job}/executions:batch", {"executions": batch})["items"]
        ]
    for _ in range(kills):
        time.sleep(chance.random())
        index = chance.randrange(len(replaceable))
        replaceable[index] = fleet.replace(replaceable[index])
    eventually(lambda: _nothing_waits(fleet), 120, "everything is final")

    final = {execution["executionId"]: execution for execution in fleet.executions()}
    assert set(submitted) == set(final), "lost, or invented"
    assert Counter(execution["state"] for execution in final.values()) == {"SUCCEEDED": count}
    starts, ends = _phases(fleet)
    assert all(final[effect["run"]]["scheduledAt"] <= _shown(effect["at"]) for effect in starts), "started early"
    assert {effect["run"] for effect in ends} == set(final), "succeeded without having run"
    accepted = Counter((effect["run"], effect["attempt"]) for effect in ends)
    assert max(accepted.values()) == 1, "one attempt ended twice"
    assert any(execution["attempt"] > 1 for execution in final.values()), "no kill met a running handler: the test is blind"
    assert all((run, execution["attempt"]) in accepted for run, execution in final.items()), "the recorded attempt did not run"


def test_two_dispatchers_and_four_workers_fire_each_of_a_thousand_targets_once(fleet: Fleet) -> None:
    jobs, targets = 50, 20
    fleet.start_api("api")
    for _ in range(2):
        fleet.start("scheduler")
    for _ in range(4):
        fleet.start("worker")
    eventually(lambda: len(fleet.call("GET", "/v1/workers")["items"]) == 4, 30, "four workers live")
    first = (datetime.now(UTC) + timedelta(seconds=4)).replace(microsecond=0)
    expected = {(first + timedelta(seconds=n)).strftime("%Y-%m-%dT%H:%M:%SZ") for n in range(targets)}

    shape = {"schedule": "* * * * * *", "seconds": True, "overlap": "allow", "target": {"handler": "duly.echo"}}
    bounds = {"startAt": first.isoformat(), "endAt": (first + timedelta(seconds=targets - 1)).isoformat()}
    created = fleet.call("POST", "/v1/jobs:batch", {"jobs": [{"name": f"tick-{n}", **shape, **bounds} for n in range(jobs)]})["items"]
    eventually(lambda: not fleet.call("GET", "/v1/jobs?state=ACTIVE")["items"], 60, "every job is complete")
    eventually(lambda: _nothing_waits(fleet), 30, "everything is final")

    for job in created:
        fired = [execution["scheduledAt"] for execution in fleet.executions(f"/v1/jobs/{job['jobId']}/executions")]
        assert sorted(fired) == sorted(expected)
    states = Counter(execution["state"] for execution in fleet.executions())
    assert states == {"SUCCEEDED": jobs * targets}


def test_an_acknowledged_submit_is_there_after_kill_minus_nine(fleet: Fleet) -> None:
    server = fleet.start_api("server")
    job = fleet.call("POST", "/v1/jobs", {"name": "kept", "target": {"handler": "nobody"}})["jobId"]
    acknowledged = [fleet.call("POST", f"/v1/jobs/{job}/executions", {"payload": n})["executionId"] for n in range(50)]

    server.kill()
    fleet.start_api("server")

    assert {execution["executionId"] for execution in fleet.executions()} == set(acknowledged)


def test_an_acknowledged_submit_survives_an_immediate_stop_of_postgresql(tmp_path: Path) -> None:
    with Postgres() as server:
        fleet = Fleet(server.create_database("immediate"), tmp_path)
        try:
            fleet.start_api("server")
            job = fleet.call("POST", "/v1/jobs", {"name": "kept", "target": {"handler": "nobody"}})["jobId"]
            acknowledged = {fleet.call("POST", f"/v1/jobs/{job}/executions", {"payload": n})["executionId"] for n in range(50)}

            server.stop("immediate")
            with pytest.raises(Refused) as away:
                fleet.call("POST", f"/v1/jobs/{job}/executions", {"payload": 50})
            assert (away.value.status, away.value.retry_after is not None) == (503, True)
            server.start()

            eventually(lambda: {execution["executionId"] for execution in fleet.executions()} == acknowledged, 30, "all are there")
        finally:
            fleet.stop()


def test_a_worker_that_was_paused_past_its_lease_cannot_finish_what_another_restarted(fleet: Fleet) -> None:
    fleet.start_api("server")
    paused = fleet.start("worker", APP)
    eventually(lambda: bool(fleet.call("GET", "/v1/jobs?name=effect")["items"]), 30, "the application published its job")
    run = fleet.call("POST", f"/v1/jobs/{fleet.job('effect')}/executions", {"payload": {"n": 1, "seconds": 1.0}})["executionId"]
    eventually(lambda: bool(fleet.effects()), 30, "the first attempt has started")

    paused.signal(signal.SIGSTOP)
    fleet.start("worker", APP)
    eventually(lambda: fleet.call("GET", f"/v1/executions/{run}")["state"] == "SUCCEEDED", 60, "the second attempt succeeded")
    stands = fleet.call("GET", f"/v1/executions/{run}")
    paused.signal(signal.SIGCONT)
    paused.wait_for("was lost; starting again|refused 1 finished")

    after = fleet.call("GET", f"/v1/executions/{run}")
    assert after == stands
    assert (after["attempt"], after["result"]["attempt"], after["result"]["pid"] != paused.process.pid) == (2, 2, True)
    outcomes = [attempt["outcome"] for attempt in fleet.call("GET", f"/v1/executions/{run}/attempts")["items"]]
    assert outcomes == ["WORKER_LOST", "SUCCEEDED"]


def test_sigterm_drains_and_gives_back_what_did_not_end(store_url: str, tmp_path: Path) -> None:
    fleet = Fleet(store_url, tmp_path, DULY_GRACE="1s")
    try:
        fleet.start_api("server")
        worker = fleet.start("worker", APP)
        eventually(lambda: bool(fleet.call("GET", "/v1/jobs?name=effect")["items"]), 30, "the application published its job")
        job = fleet.job("effect")
        quick, endless = (
            fleet.call("POST", f"/v1/jobs/{job}/executions", {"payload": {"n": n, "seconds": seconds}})["executionId"]
            for n, seconds in ((1, 0.5), (2, 600))
        )
        eventually(lambda: len(fleet.effects()) >= 2, 30, "both have started")

        worker.signal(signal.SIGTERM)

        assert worker.process.wait(timeout=90) == 0
        assert fleet.call("GET", f"/v1/executions/{quick}")["state"] == "SUCCEEDED"
        released = fleet.call("GET", f"/v1/executions/{endless}")
        assert (released["lastOutcome"], released["state"] in ("SCHEDULED", "PENDING")) == ("RELEASED", True)
    finally:
        fleet.stop()


def _nothing_waits(fleet: Fleet) -> bool:
    counts = fleet.call("GET", "/v1/stats")["executions"]
    return not any(counts.get(state) for state in ("SCHEDULED", "BLOCKED", "PENDING", "RUNNING"))


def _phases(fleet: Fleet) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    effects = fleet.effects()
    return [effect for effect in effects if effect["phase"] == "start"], [effect for effect in effects if effect["phase"] == "end"]


def _shown(micros: object) -> str:
    """An instant as the API shows it, with all its digits, so that texts compare as times do."""
    return datetime.fromtimestamp(int(str(micros)) / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
