"""Joins while workers and schedulers are killed without warning: each fires once, after the last of its parents, and none is lost."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from typing import Any

import pytest

from tests.chaos.fleet import APP, Fleet, eventually

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

WIDTH = 8
RETRIES = {"maxAttempts": 10}
EFFECT = {"target": {"handler": "effect"}, "retryPolicy": RETRIES}
STEPS: list[dict[str, Any]] = [
    {"name": "list", "target": {"handler": "duly.echo"}, "retryPolicy": RETRIES},
    {"name": "work", "map": "list", **EFFECT},
    {"name": "left", "dependsOn": ["list"], "inputs": {"n": "list.0.n"}, **EFFECT},
    {"name": "right", "dependsOn": ["list"], "inputs": {"n": "list.0.n"}, **EFFECT},
    {"name": "join", "dependsOn": ["work", "left", "right"], "inputs": {"n": "left.n"}, **EFFECT},
    {"name": "last", "dependsOn": ["join"], "inputs": {"n": "join.n"}, **EFFECT},
]


def test_every_join_fires_once_while_workers_and_schedulers_are_killed(fleet: Fleet, long_form: bool) -> None:
    runs, kills = (200, 40) if long_form else (30, 5)
    chance = random.Random(11)
    fleet.start_api("api")
    replaceable = [fleet.start("scheduler"), fleet.start("worker", APP), fleet.start("worker", APP)]
    job = fleet.call("POST", "/v1/jobs", {"name": "joins", "steps": STEPS})["jobId"]
    payloads = [[{"n": run, "seconds": 0.0 if n % 3 else 0.1} for n in range(WIDTH)] for run in range(runs)]
    begun = fleet.call("POST", f"/v1/jobs/{job}/executions:batch", {"executions": [{"payload": payload} for payload in payloads]})["items"]
    eventually(lambda: bool(fleet.effects()), 30, "the first steps have started")

    for _ in range(kills):
        time.sleep(chance.random() * 0.4)
        index = chance.randrange(len(replaceable))
        replaceable[index] = fleet.replace(replaceable[index])
    eventually(lambda: _states(fleet, job) == {"SUCCEEDED": runs}, 120, "every run has succeeded")

    ended: dict[int, dict[str, int]] = defaultdict(dict)
    started: dict[str, int] = {}
    effects = fleet.effects()
    for effect in effects:
        if effect["phase"] == "end":
            ended[effect["n"]][effect["run"]] = min(effect["at"], ended[effect["n"]].get(effect["run"], effect["at"]))
        else:
            started[effect["run"]] = min(effect["at"], started.get(effect["run"], effect["at"]))
    for number, one in enumerate(begun):
        steps = {step["name"]: step for step in fleet.call("GET", f"/v1/executions/{one['executionId']}/steps")["steps"]}
        assert {step["state"] for step in steps.values()} == {"SUCCEEDED"}
        join, last = steps["join"]["executionId"], steps["last"]["executionId"]
        parents = {run: at for run, at in ended[number].items() if run not in (join, last)}
        assert len(parents) == WIDTH + 2, "a parent that did not run, or one that ran as two"
        assert started[join] >= max(parents.values()), "the join did not wait for all"
        assert started[last] >= ended[number][join]
    attempts = Counter((effect["run"], effect["attempt"]) for effect in effects if effect["phase"] == "start")
    assert max(attempts.values()) == 1, "one attempt ran twice"
    assert len(started) == runs * (WIDTH + 4), "a step was made that nobody asked for"


def _states(fleet: Fleet, job: str) -> Counter[str]:
    return Counter(execution["state"] for execution in fleet.executions(f"/v1/jobs/{job}/executions"))
