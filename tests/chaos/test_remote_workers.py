"""Workers that reach the store through the API, killed, paused, and cut off from a server that is killed itself."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter

import pytest

from tests.chaos.fleet import APP, KEY, Fleet, Member, eventually

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]


def start_server(fleet: Fleet) -> Member:
    """A server that can be started again where it was."""
    first = fleet.start_api("server")
    first.arguments[-1] = fleet.url.rpartition(":")[2]
    return first


def start_worker(fleet: Fleet, *more: str) -> Member:
    member = fleet.start("worker", APP, "--server", fleet.url, *more)
    member.wait_for("Ctrl-C stops it")
    return member


def create_effect(fleet: Fleet, **more: object) -> str:
    shape = {"name": "effect", "target": {"handler": "effect"}, "retryPolicy": {"maxAttempts": 5, "maxLosses": 50}, **more}
    return str(fleet.call("POST", "/v1/jobs", shape)["jobId"])


def phases(fleet: Fleet, phase: str) -> Counter[tuple[str, int]]:
    return Counter((effect["run"], effect["attempt"]) for effect in fleet.effects() if effect["phase"] == phase)


def nothing_waits(fleet: Fleet) -> bool:
    counts = fleet.call("GET", "/v1/stats")["executions"]
    return not any(counts.get(state) for state in ("SCHEDULED", "PENDING", "BLOCKED", "RUNNING"))


@pytest.fixture
def remote_fleet(fleet: Fleet) -> Fleet:
    fleet.environment["DULY_KEY"] = KEY
    return fleet


def test_nothing_is_lost_and_nothing_ends_twice_while_workers_and_server_are_killed(remote_fleet: Fleet, long_form: bool) -> None:
    fleet = remote_fleet
    count, kills = 2_000, 30 if long_form else 6
    chance = random.Random(11)
    server = start_server(fleet)
    workers = [start_worker(fleet), start_worker(fleet)]
    job = create_effect(fleet)
    submitted: list[str] = []
    for start in range(0, count, 1000):
        batch = [
            {"payload": {"n": start + n, "seconds": 0.0 if n % 10 else 0.3}, "delaySec": round(chance.random() * kills * 0.7, 3)}
            for n in range(1000)
        ]
        answer = fleet.call("POST", f"/v1/jobs/{job}/executions:batch", {"executions": batch})
        submitted += [item["executionId"] for item in answer["items"]]

    for nth in range(kills):
        time.sleep(chance.random())
        if nth % 3 == 1:
            server = fleet.replace(server)
        else:
            victim = chance.randrange(len(workers))
            workers[victim] = fleet.replace(workers[victim])
    eventually(lambda: nothing_waits(fleet), 120, "everything is final")

    final = {execution["executionId"]: execution for execution in fleet.executions()}
    assert set(final) == set(submitted), "lost, or invented"
    assert Counter(execution["state"] for execution in final.values()) == {"SUCCEEDED": count}
    ends = phases(fleet, "end")
    assert max(ends.values()) == 1, "one attempt ended twice"
    assert all((run, execution["attempt"]) in ends for run, execution in final.items()), "the recorded attempt did not run"
    assert any(execution["attempt"] > 1 for execution in final.values()), "no kill met a running handler: the test is blind"


def test_a_worker_that_was_paused_past_its_time_is_refused_and_starts_anew(remote_fleet: Fleet) -> None:
    fleet = remote_fleet
    start_server(fleet)
    sleeper = start_worker(fleet)
    job = create_effect(fleet)
    run = fleet.call("POST", f"/v1/jobs/{job}/executions", {"payload": {"seconds": 1.0}})["executionId"]
    eventually(lambda: bool(phases(fleet, "start")), 30, "the handler has started")

    sleeper.signal(signal.SIGSTOP)
    other = start_worker(fleet)
    eventually(lambda: fleet.call("GET", f"/v1/executions/{run}")["state"] == "SUCCEEDED", 60, "another worker ran it")
    sleeper.signal(signal.SIGCONT)
    sleeper.wait_for("was lost; starting again as a new one", 60)

    execution = fleet.call("GET", f"/v1/executions/{run}")
    attempts = fleet.call("GET", f"/v1/executions/{run}/attempts")["items"]
    assert [attempt["outcome"] for attempt in attempts] == ["WORKER_LOST", "SUCCEEDED"]
    assert execution["result"]["pid"] == other.process.pid
    again = fleet.call("POST", f"/v1/jobs/{job}/executions", {"payload": {"n": 1}})["executionId"]
    eventually(lambda: fleet.call("GET", f"/v1/executions/{again}")["state"] == "SUCCEEDED", 30, "the pool works on")


def test_a_result_outlives_a_server_that_is_away_for_a_while(remote_fleet: Fleet) -> None:
    fleet = remote_fleet
    fleet.environment["DULY_WORKER_TTL"] = "20s"
    server = start_server(fleet)
    start_worker(fleet)
    job = create_effect(fleet)
    run = fleet.call("POST", f"/v1/jobs/{job}/executions", {"payload": {"seconds": 1.0}})["executionId"]
    eventually(lambda: bool(phases(fleet, "start")), 30, "the handler has started")

    server.kill()
    fleet.members.remove(server)
    eventually(lambda: bool(phases(fleet, "end")), 30, "the handler has ended, with nobody to tell")
    fleet.start(*server.arguments)

    eventually(lambda: fleet.call("GET", f"/v1/executions/{run}")["state"] == "SUCCEEDED", 30, "the result was told in the end")
    execution = fleet.call("GET", f"/v1/executions/{run}")
    assert execution["attempt"] == 1
    assert phases(fleet, "start") == {(run, 1): 1}


def test_a_drained_worker_gives_back_what_it_could_not_end(remote_fleet: Fleet) -> None:
    fleet = remote_fleet
    start_server(fleet)
    leaving = start_worker(fleet, "--grace", "500ms")
    job = create_effect(fleet)
    run = fleet.call("POST", f"/v1/jobs/{job}/executions", {"payload": {"seconds": 60.0}})["executionId"]
    eventually(lambda: bool(phases(fleet, "start")), 30, "the handler has started")

    leaving.signal(signal.SIGTERM)
    leaving.wait_for("Stopped")

    eventually(lambda: fleet.call("GET", f"/v1/executions/{run}")["state"] == "PENDING", 30, "it waits for the next worker")
    [attempt] = fleet.call("GET", f"/v1/executions/{run}/attempts")["items"]
    assert attempt["outcome"] == "RELEASED"
    assert [worker["state"] for worker in fleet.call("GET", "/v1/workers")["items"]] == ["LOST"]


def test_a_key_that_is_no_workers_is_refused_at_the_start(remote_fleet: Fleet) -> None:
    fleet = remote_fleet
    start_server(fleet)
    secret = fleet.call("POST", "/v1/keys", {"role": "VIEWER", "name": "reader"})["secret"]
    fleet.environment["DULY_KEY"] = secret

    refused = fleet.start("worker", APP, "--server", fleet.url)

    refused.wait_for("DULY-E303|needs the role WORKER")
    assert refused.process.wait(timeout=90) != 0
