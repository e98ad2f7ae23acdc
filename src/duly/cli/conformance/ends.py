"""The rules about how an attempt ends, once."""

from __future__ import annotations

from datetime import datetime

from duly.cli.conformance.probe import Book, Stage, expect

BOOK = Book()
rule = BOOK.rule


@rule("complete makes it SUCCEEDED with the result as it was sent")
def _(stage: Stage) -> str:
    stage.run()
    turn = stage.one(stage.register())
    result = {"rows": 12, "note": "ü"}
    state = turn.say("complete", result=result, tookSec=0.25).need(200)["state"]
    kept = stage.execution(turn.id)
    return expect(state == kept["state"] == "SUCCEEDED" and kept["result"] == result, f"{kept['state']}, {kept['result']}")


@rule("complete may be repeated: the same answer, one attempt")
def _(stage: Stage) -> str:
    stage.run()
    turn = stage.one(stage.register())
    first, again = (turn.say("complete", result=n).need(200) for n in (1, 2))
    kept = stage.execution(turn.id)["result"]
    return expect(first == again and kept == 1 and stage.attempts(turn.id) == ["SUCCEEDED"], f"{again['state']} twice, result {kept}")


@rule("fail leaves the retry to the job's policy: SCHEDULED with nextAttemptAt, then attempt 2")
def _(stage: Stage) -> str:
    stage.run()
    worker = stage.register()
    answer = stage.one(worker).say("fail", error={"type": "Oops", "message": "no"}).need(200)
    second = stage.one(worker)
    holds = answer["state"] == "SCHEDULED" and answer["nextAttemptAt"] and second.run["attempt"] == 2
    return expect(holds, f"{answer['state']}, then attempt {second.run['attempt']}")


@rule("fail may be repeated: the same answer, one attempt")
def _(stage: Stage) -> str:
    stage.run(retryPolicy={"initialDelayMs": 60_000})
    turn = stage.one(stage.register())
    first, again = (turn.say("fail", error={"type": "Oops", "message": "no"}).need(200) for _ in range(2))
    return expect(first == again and stage.attempts(turn.id) == ["FAILED"], f"{again['state']} at {again['nextAttemptAt']}")


@rule("the last attempt that the policy allows ends in DEAD, with the error kept")
def _(stage: Stage) -> str:
    run = stage.run(retryPolicy={"maxAttempts": 2})
    worker = stage.register()
    states = [stage.one(worker).say("fail", error={"type": "Oops", "message": f"try {n}"}).need(200)["state"] for n in (1, 2)]
    error = stage.execution(run)["error"]
    return expect(states == ["SCHEDULED", "DEAD"] and error["message"] == "try 2", f"{states}, {error.get('message')}")


@rule("fail with retry false is DEAD at once")
def _(stage: Stage) -> str:
    stage.run()
    state = stage.one(stage.register()).say("fail", retry=False, error={"type": "Oops", "message": "no"}).need(200)["state"]
    return expect(state == "DEAD", state)


@rule("retryAfterSec takes the place of the policy's wait")
def _(stage: Stage) -> str:
    stage.run()
    turn = stage.one(stage.register())
    answer = turn.say("fail", retryAfterSec=3600, error={"type": "Busy", "message": "later"}).need(200)
    now = stage.probe.post(f"/v1/workers/{turn.worker}/heartbeat").need(200)["storeNow"]
    ahead = (datetime.fromisoformat(answer["nextAttemptAt"]) - datetime.fromisoformat(now)).total_seconds()
    return expect(3500 < ahead <= 3600, f"in {ahead:.0f} s")


@rule("an attempt ends once: complete after fail is 409, DULY-E224, and the failure stands")
def _(stage: Stage) -> str:
    stage.run(retryPolicy={"initialDelayMs": 60_000})
    turn = stage.one(stage.register())
    turn.say("fail").need(200)
    seen = turn.say("complete", result=1)
    seen.need(409, "DULY-E224")
    state = stage.execution(turn.id)["state"]
    return expect(state == "SCHEDULED", f"{seen}, {state}")


@rule("an attempt ends once: fail after complete is 409, DULY-E224, and the success stands")
def _(stage: Stage) -> str:
    stage.run()
    turn = stage.one(stage.register())
    turn.say("complete").need(200)
    seen = turn.say("fail")
    seen.need(409, "DULY-E224")
    state = stage.execution(turn.id)["state"]
    return expect(state == "SUCCEEDED", f"{seen}, {state}")


@rule("release gives it back at no cost: with one attempt allowed, it still runs")
def _(stage: Stage) -> str:
    stage.run(retryPolicy={"maxAttempts": 1})
    worker = stage.register()
    stage.one(worker).say("release").need(200)
    second = stage.one(worker)
    state = second.say("complete").need(200)["state"]
    return expect(state == "SUCCEEDED" and second.run["failures"] == 0, f"{state}, {second.run['failures']} failures")


@rule("a batch is taken item by item: what is good is written, what is refused says why")
def _(stage: Stage) -> str:
    job, worker = stage.job(), stage.register()
    for n in range(2):
        stage.enqueue(job, n)
    lease = stage.lease(worker)
    ids = [one["executionId"] for one in lease["executions"]] + ["run_" + "0" * 32]
    outcomes = ("SUCCEEDED", "FAILED", "SUCCEEDED")
    results = [{"executionId": id, "fence": lease["leaseId"], "outcome": outcome} for id, outcome in zip(ids, outcomes, strict=True)]
    answers = stage.probe.post(f"/v1/workers/{worker}/report", {"results": results}).need(200)["results"]
    states = [(answer["state"], answer["code"]) for answer in answers]
    return expect(states == [("SUCCEEDED", None), ("SCHEDULED", None), (None, "DULY-E205")], str(states))
