"""The rules that a worker keeps, seen from what it makes of jobs with the handlers duly.echo, duly.sleep and duly.fail."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from duly.cli.conformance.probe import Book, Broken, Probe, Stage, expect

BUILT_IN = ("duly.echo", "duly.fail", "duly.sleep")
FINAL = ("SUCCEEDED", "DEAD", "CANCELLED")

BOOK = Book()
rule = BOOK.rule


class WorkerStage(Stage):
    """A stage on the pool of the worker under test."""

    def __init__(self, probe: Probe, pool: str, name: str) -> None:
        super().__init__(probe, pool)
        self.name = name

    def job(self, handler: str = "duly.echo", **more: Any) -> str:
        target = {"pool": self.about()["pool"], **more.pop("target", {})}
        return super().job(handler, target=target, **more)

    def is_live(self) -> bool:
        """Whether the server knows it yet."""
        return any(worker["name"] == self.name and worker["state"] == "LIVE" for worker in self.probe.get("/v1/workers")["items"])

    def about(self) -> Any:
        """The worker as the server sees it."""
        for worker in self.probe.get("/v1/workers")["items"]:
            if worker["name"] == self.name and worker["state"] == "LIVE":
                return worker
        raise Broken(f"no live worker is named {self.name!r}")

    def final(self, run: str, seconds: float = 60.0) -> Any:
        """The execution, once it is final."""
        self.until(lambda: self.execution(run)["state"] in FINAL, f"{run} is final", seconds)
        return self.execution(run)


def _stage(stage: Stage) -> WorkerStage:
    assert isinstance(stage, WorkerStage)
    return stage


@rule("the worker is live, alone in its pool, and offers duly.echo, duly.sleep and duly.fail")
def _(stage: Stage) -> str:
    mine = _stage(stage)
    mine.until(mine.is_live, f"a worker named {mine.name!r} is live")
    about = mine.about()
    others = [
        worker["name"]
        for worker in mine.probe.get("/v1/workers")["items"]
        if worker["state"] == "LIVE" and worker["pool"] == about["pool"] and worker["workerId"] != about["workerId"]
    ]
    holds = not others and set(BUILT_IN) <= set(about["handlers"])
    return expect(holds, f"worker {about['workerId']} in pool {about['pool']}, {len(others)} others, {', '.join(about['handlers'][:8])}")


@rule("duly.echo returns its payload as it was sent")
def _(stage: Stage) -> str:
    mine = _stage(stage)
    job = mine.job()
    payloads = [{"text": "Grüße, 世界", "n": 2**53 - 1}, [1, 2.5, None, True], "text", 0, {"deep": {"er": [{}]}}]
    for payload in payloads:
        execution = mine.final(mine.enqueue(job, payload))
        if (execution["state"], execution["result"]) != ("SUCCEEDED", payload):
            raise Broken(f"{execution['state']} with {execution['result']!r} for {payload!r}")
    return f"{len(payloads)} payloads came back"


@rule("what it runs is recorded as its own")
def _(stage: Stage) -> str:
    mine = _stage(stage)
    execution = mine.final(mine.run({}))
    worker = mine.about()["workerId"]
    return expect(execution["workerId"] == worker, f"{execution['workerId']} (the worker is {worker})")


@rule("a failure is reported with type and message, and what is retried is run again")
def _(stage: Stage) -> str:
    mine = _stage(stage)
    run = mine.run({"times": 2}, handler="duly.fail")
    mine.final(run)
    attempts = mine.probe.get(f"/v1/executions/{run}/attempts")["items"]
    outcomes = [attempt["outcome"] for attempt in attempts]
    told = all(attempt["error"]["type"] and "message" in attempt["error"] for attempt in attempts if attempt["outcome"] == "FAILED")
    return expect(outcomes == ["FAILED", "FAILED", "SUCCEEDED"] and told, ", ".join(str(outcome) for outcome in outcomes))


@rule("what fails as often as its job allows is DEAD")
def _(stage: Stage) -> str:
    mine = _stage(stage)
    execution = mine.final(mine.run({"times": 99}, handler="duly.fail", retryPolicy={"maxAttempts": 2}))
    return expect((execution["state"], execution["attempt"]) == ("DEAD", 2), f"{execution['state']} after {execution['attempt']} attempts")


@rule("duly.sleep sleeps as long as it was told")
def _(stage: Stage) -> str:
    mine = _stage(stage)
    execution = mine.final(mine.run({"seconds": 1}, handler="duly.sleep"))
    took = _seconds(execution["startedAt"], execution["finishedAt"])
    return expect(execution["state"] == "SUCCEEDED" and 0.9 <= took < 10, f"{execution['state']} after {took:.2f} s")


@rule("it runs as many at once as it has slots for")
def _(stage: Stage) -> str:
    mine = _stage(stage)
    slots = min(mine.about()["slots"], 4)
    job = mine.job("duly.sleep")
    runs = [mine.enqueue(job, {"seconds": 2}) for _ in range(slots)]
    spans = [(found["startedAt"], found["finishedAt"]) for found in (mine.final(run) for run in runs)]
    together = min(finished for _, finished in spans) > max(started for started, _ in spans)
    return expect(slots == 1 or together, f"{slots} slots, {'together' if together else 'one after the other'}")


@rule("it keeps its heartbeat while it works: what runs longer than its life is not lost")
def _(stage: Stage) -> str:
    mine = _stage(stage)
    now = datetime.fromisoformat(mine.execution(mine.run({}))["createdAt"])
    life = (datetime.fromisoformat(mine.about()["expiresAt"]) - now).total_seconds()
    seconds = min(max(life, 1.0), 60.0) + 2
    run = mine.run({"seconds": seconds}, handler="duly.sleep")
    mine.final(run, seconds + 60)
    outcomes = mine.attempts(run)
    return expect(outcomes == ["SUCCEEDED"], f"{seconds:.0f} s: {outcomes}")


@rule("a cancel is honoured: the handler stops and it is CANCELLED")
def _(stage: Stage) -> str:
    mine = _stage(stage)
    run = mine.run({"seconds": 300}, handler="duly.sleep")
    mine.until(lambda: mine.execution(run)["state"] == "RUNNING", "it runs")
    began = time.monotonic()
    asked = mine.probe.post(f"/v1/executions/{run}/cancel")
    asked.need(200 if asked.status == 200 else 202)  # 200: the worker had stopped before the answer was written
    execution = mine.final(run, 90)
    return expect(execution["state"] == "CANCELLED", f"{execution['state']} after {time.monotonic() - began:.1f} s")


@rule("a timeout is honoured: the attempt is TIMED_OUT")
def _(stage: Stage) -> str:
    mine = _stage(stage)
    run = mine.run({"seconds": 300}, handler="duly.sleep", timeoutSec=1, retryPolicy={"maxAttempts": 1})
    execution = mine.final(run, 60)
    outcomes = mine.attempts(run)
    return expect(execution["state"] == "DEAD" and outcomes == ["TIMED_OUT"], f"{execution['state']}, {outcomes}")


@rule("of many executions each is run once and completed once")
def _(stage: Stage) -> str:
    mine = _stage(stage)
    job = mine.job()
    runs = [mine.enqueue(job, n) for n in range(50)]
    ended = [mine.final(run) for run in runs]
    good = [execution for execution in ended if execution["state"] == "SUCCEEDED" and execution["attempt"] == 1]
    results = [execution["result"] for execution in ended]
    return expect(len(good) == len(runs) and results == list(range(50)), f"{len(good)} of {len(runs)} at the first attempt")


@rule("what it does not offer it does not take")
def _(stage: Stage) -> str:
    mine = _stage(stage)
    run = mine.run({}, handler="conformance.nobody-offers-this")
    mine.final(mine.run({}))
    state = mine.execution(run)["state"]
    return expect(state == "PENDING", state)


@rule("at the end it lives, under the same number, and holds nothing")
def _(stage: Stage) -> str:
    mine = _stage(stage)
    mine.until(lambda: mine.about()["running"] == 0, "it holds nothing")
    lost = [worker for worker in mine.probe.get("/v1/workers")["items"] if worker["name"] == mine.name and worker["state"] == "LOST"]
    return expect(not lost, f"0 running, {len(lost)} lives lost")


def _seconds(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
