"""Real processes whose handlers kill them, ignore every stop, or are asked to end: causes are named, and the work goes on."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.fleet import Fleet, Member, eventually

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

APP = "tests.chaos.stubborn:app"


def start(fleet: Fleet, *words: str) -> Member:
    fleet.start_api("server")
    worker = fleet.start("worker", APP, *words)
    eventually(lambda: bool(fleet.call("GET", "/v1/jobs?name=resumes")["items"]), 30, "the application published its jobs")
    return worker


def run(fleet: Fleet, name: str, payload: Any = None) -> str:
    body = {} if payload is None else {"payload": payload}
    return str(fleet.call("POST", f"/v1/jobs/{fleet.job(name)}/executions", body)["executionId"])


def ended(fleet: Fleet, execution: str, state: str, timeout: float = 60) -> dict[str, Any]:
    eventually(lambda: fleet.call("GET", f"/v1/executions/{execution}")["state"] == state, timeout, f"{execution} is {state}")
    shown: dict[str, Any] = fleet.call("GET", f"/v1/executions/{execution}")
    return shown


def noted(fleet: Fleet, word: str) -> list[int]:
    file: Path = fleet.directory / f"{word}.txt"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def outcomes(fleet: Fleet, execution: str) -> list[str]:
    return [attempt["outcome"] for attempt in fleet.call("GET", f"/v1/executions/{execution}/attempts")["items"]]


def test_a_job_that_kills_its_child_process_is_quarantined(fleet: Fleet) -> None:
    worker = start(fleet)
    poisoned = run(fleet, "poison_child")

    dead = ended(fleet, poisoned, "DEAD")

    assert outcomes(fleet, poisoned) == ["WORKER_LOST"] * 3
    assert (dead["error"]["message"], dead["error"]["reason"]) == ("killed its worker 3 times", "poison")
    assert "exited with status 1" in dead["error"]["detail"]
    assert len(set(noted(fleet, "poison_child"))) == 3
    assert ended(fleet, run(fleet, "healthy"), "SUCCEEDED")["result"] == worker.process.pid


def test_a_job_that_kills_its_worker_is_quarantined_and_the_pool_goes_on(fleet: Fleet) -> None:
    supervisor = start(fleet, "--processes", "2")
    poisoned = run(fleet, "poison")

    dead = ended(fleet, poisoned, "DEAD", timeout=120)

    assert outcomes(fleet, poisoned) == ["WORKER_LOST"] * 3
    assert (dead["error"]["message"], dead["error"]["reason"]) == ("killed its worker 3 times", "poison")
    assert len(set(noted(fleet, "poison"))) == 3
    assert any("exited with status 1; another one starts" in line for line in supervisor.lines)
    healthy = ended(fleet, run(fleet, "healthy"), "SUCCEEDED")["result"]
    assert healthy not in (supervisor.process.pid, *noted(fleet, "poison"))


def test_a_pool_stops_with_its_supervisor(fleet: Fleet) -> None:
    supervisor = start(fleet, "--processes", "2")
    eventually(lambda: len(live(fleet)) == 2, 30, "two workers live")
    first = live(fleet)

    supervisor.kill()
    eventually(lambda: not any(is_running(pid) for pid in first), 10, "the workers died with their supervisor")
    second = fleet.start("worker", APP, "--processes", "2")
    eventually(lambda: len(live(fleet) - first) == 2, 30, "two others live")
    second.signal(signal.SIGTERM)

    assert second.process.wait(timeout=90) == 0
    assert not any(is_running(pid) for pid in live(fleet))


def live(fleet: Fleet) -> set[int]:
    return {int(worker["pid"]) for worker in fleet.call("GET", "/v1/workers")["items"] if worker["state"] == "LIVE"}


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except FileNotFoundError:
        return False


def test_a_cancel_reaches_a_running_handler_at_once(store_url: str, tmp_path: Path) -> None:
    # A heartbeat every two minutes: who is stopped sooner was told by the hint.
    fleet = Fleet(store_url, tmp_path, DULY_WORKER_TTL="360s")
    try:
        start(fleet)
        for name in ("waits", "clean"):
            running = run(fleet, name)
            eventually(lambda name=name: bool(noted(fleet, name)), 30, "it has started")
            fleet.call("POST", f"/v1/executions/{running}/cancel", {})

            shown = ended(fleet, running, "CANCELLED", 60)

            assert (shown["lastOutcome"], shown["error"]["reason"]) == ("CANCELLED", "cancelled")
        # A handler that polls its token came to its own end; what it returned is the stop.
        assert noted(fleet, "clean_end") == noted(fleet, "clean")
    finally:
        fleet.stop()


def test_a_process_that_ignores_its_timeout_is_killed(fleet: Fleet) -> None:
    start(fleet)

    dead = ended(fleet, run(fleet, "deaf"), "DEAD")

    assert (dead["lastOutcome"], dead["error"]["type"]) == ("TIMED_OUT", "TimedOut")
    assert "was ended" in dead["error"]["message"]
    eventually(lambda: not is_running(noted(fleet, "deaf")[0]), 10, "its process is gone")


def test_a_thread_that_will_not_stop_makes_the_worker_start_again_in_place(fleet: Fleet) -> None:
    worker = start(fleet)

    dead = ended(fleet, run(fleet, "stuck"), "DEAD")

    assert (dead["lastOutcome"], "left behind" in dead["error"]["message"]) == ("TIMED_OUT", True)
    worker.wait_for("Starting again")
    healthy = ended(fleet, run(fleet, "healthy"), "SUCCEEDED")
    assert (healthy["result"], healthy["workerId"] != dead["workerId"]) == (worker.process.pid, True)
    assert len(os.listdir(f"/proc/{worker.process.pid}/task")) < 20


def test_a_checkpoint_survives_the_process_that_saved_it(fleet: Fleet) -> None:
    start(fleet)

    done = ended(fleet, run(fleet, "resumes", {"rows": 100}), "SUCCEEDED")

    assert (done["attempt"], done["result"]) == (2, {"begunAt": 50, "endedAt": 100})
    assert (done["progress"], done["checkpoint"]["number"]) == ({"done": 100, "total": 100}, 100)
