"""The rules of the worker protocol that a server keeps, each seen from a worker's side."""

from __future__ import annotations

import threading
import time
from datetime import datetime
from typing import Any

from duly.cli.conformance.probe import HANDLER, Book, Broken, Seen, Stage, expect

BOOK = Book()
rule = BOOK.rule


# ---------------------------------------------------------------- registering


@rule("registering answers 201 with a workerId, ttlSec, and a heartbeatSec and trustedForSec that are shorter")
def _(stage: Stage) -> str:
    seen = stage.probe.post("/v1/workers", {"name": "w", "pool": stage.pool, "handlers": [HANDLER], "ttlSec": 12})
    body = seen.need(201)
    stage.workers.append(body["workerId"])
    datetime.fromisoformat(body["storeNow"])
    holds = body["ttlSec"] == 12 and 0 < body["heartbeatSec"] < 12 and 0 < body["trustedForSec"] < 12 and isinstance(body["workerId"], str)
    return expect(holds, f"201, {body['ttlSec']} s, heartbeat {body['heartbeatSec']} s, trust {body['trustedForSec']} s")


@rule("every registration is a new worker")
def _(stage: Stage) -> str:
    one, other = stage.register(), stage.register()
    return expect(one != other, f"{one} and {other}")


@rule("a key that nobody knows is refused with 401 and a problem document")
def _(stage: Stage) -> str:
    seen = stage.probe.ask("POST", "/v1/workers", {"name": "w", "handlers": [HANDLER]}, key="duly_nobody_knows_this_key")
    seen.need(401, "DULY-E302")
    return str(seen)


@rule("a field that is not known is refused: 422, DULY-E106, and the problem names it")
def _(stage: Stage) -> str:
    seen = stage.probe.post("/v1/workers", {"name": "w", "handlers": [HANDLER], "colour": "red"})
    return expect(seen.need(422, "DULY-E106")["field"] == "colour", f"{seen} naming {seen.body['field']}")


@rule("a body that is not JSON is refused: 400, DULY-E107")
def _(stage: Stage) -> str:
    seen = stage.probe.ask("POST", "/v1/workers", raw=b'{"name": ')
    seen.need(400, "DULY-E107")
    return str(seen)


@rule("malformed bodies get problem documents with a code on every route of the protocol")
def _(stage: Stage) -> str:
    worker, run = stage.register(), stage.run()
    paths = [f"/v1/workers/{worker}/{verb}" for verb in ("lease", "heartbeat", "drain", "report")]
    paths += [f"/v1/executions/{run}/{verb}" for verb in ("complete", "fail", "release", "log", "checkpoint", "progress")]
    for path in paths:
        for raw in (b"[]", b"{", b'"text"', b'{"colour": "red"}', b'{"max": "many"}', b"\xff"):
            seen = stage.probe.ask("POST", path, raw=raw)
            if seen.status not in (400, 422):
                raise Broken(f"{seen} for {raw!r} to {path}")
            seen.need(seen.status)
    return f"{len(paths) * 6} refusals, all with codes"


@rule("text that cannot be stored is refused: 422, DULY-E110")
def _(stage: Stage) -> str:
    stage.run()
    turn = stage.one(stage.register())
    seen = turn.say("complete", result="\x00")
    seen.need(422, "DULY-E110")
    return str(seen)


@rule("a worker that was never registered is not there: 404, DULY-E221")
def _(stage: Stage) -> str:
    seen = [stage.probe.post(f"/v1/workers/999999999999/{verb}") for verb in ("lease", "heartbeat", "drain", "report")]
    for answer in seen:
        answer.need(404, "DULY-E221")
    return ", ".join(str(answer) for answer in seen)


# ---------------------------------------------------------------- leasing


@rule("with nothing ready and no wait, a poll answers 204 at once and without a body")
def _(stage: Stage) -> str:
    seen = stage.poll(stage.register())
    seen.need(204)
    return expect(seen.body is None and seen.took < 5, f"{seen} after {seen.took:.1f} s")


@rule("with nothing ready, a poll waits for waitSec and answers 204")
def _(stage: Stage) -> str:
    seen = stage.poll(stage.register(), waitSec=1.5)
    seen.need(204)
    return expect(1.4 <= seen.took < 10, f"{seen} after {seen.took:.1f} s")


@rule("a waiting poll is answered as soon as there is work")
def _(stage: Stage) -> str:
    worker, job = stage.register(), stage.job()
    found: list[Seen] = []
    poll = threading.Thread(target=lambda: found.append(stage.poll(worker, waitSec=25)))
    poll.start()
    time.sleep(0.5)
    stage.enqueue(job)
    poll.join()
    found[0].need(200)
    return expect(found[0].took < 10, f"{found[0]} after {found[0].took:.1f} s")


@rule("a lease says what to run: ids, handler, attempt 1, the payload as it was sent, an idempotency key, a fence")
def _(stage: Stage) -> str:
    payload = {"text": "Grüße, 世界", "big": 2**53 - 1, "deep": [[1.5], None, {"a": True}]}
    run = stage.run(payload)
    lease = stage.lease(stage.register())
    [one] = lease["executions"]
    holds = (
        one["executionId"] == run
        and one["handler"] == HANDLER
        and (one["attempt"], one["maxAttempts"]) == (1, 3)
        and one["payload"] == payload
        and one["idempotencyKey"]
        and one["jobName"]
        and one["tenant"]
        and isinstance(lease["leaseId"], int)
    )
    return expect(holds, f"lease {lease['leaseId']}: {', '.join(sorted(one))}")


@rule("a lease never has more than max")
def _(stage: Stage) -> str:
    job, worker = stage.job(), stage.register()
    for n in range(5):
        stage.enqueue(job, n)
    sizes: list[int] = []
    known: list[int] = []
    while sum(sizes) < 5:
        lease = stage.lease(worker, max=2, known=known)
        sizes.append(len(lease["executions"]))
        known.append(lease["leaseId"])
    return expect(max(sizes) <= 2, f"5 executions in leases of {sizes}")


@rule("what is more urgent comes first, and what is older before what is younger")
def _(stage: Stage) -> str:
    job, worker = stage.job(), stage.register()
    runs = [stage.enqueue(job, n) for n in range(2)]
    urgent = stage.enqueue(job, "urgent", priority="CRITICAL")
    order: list[str] = []
    known: list[int] = []
    for _ in range(3):
        turn = stage.one(worker, known=known)
        order.append(turn.id)
        known.append(turn.fence)
    return expect(order == [urgent, *runs], " ".join(["urgent", "older", "younger"][[urgent, *runs].index(id)] for id in order))


@rule("fences only ever grow")
def _(stage: Stage) -> str:
    job, worker = stage.job(), stage.register()
    fences: list[int] = []
    for n in range(4):
        stage.enqueue(job, n)
        turn = stage.one(worker)
        fences.append(turn.fence)
        turn.say("complete").need(200)
    return expect(fences == sorted(set(fences)), str(fences))


@rule("a lease that the worker does not name as known is answered again: its first answer may have been lost")
def _(stage: Stage) -> str:
    stage.run()
    worker = stage.register()
    first, again = stage.lease(worker), stage.lease(worker)
    holds = first["leaseId"] == again["leaseId"] and first["executions"] == again["executions"]
    return expect(holds, f"lease {first['leaseId']}, then {again['leaseId']}")


@rule("a lease that is known is not answered again")
def _(stage: Stage) -> str:
    stage.run()
    worker = stage.register()
    seen = stage.poll(worker, known=[stage.lease(worker)["leaseId"]])
    seen.need(204)
    return str(seen)


@rule("no execution is leased to two workers")
def _(stage: Stage) -> str:
    job = stage.job()
    runs = {stage.enqueue(job, n) for n in range(20)}
    workers = [stage.register() for _ in range(4)]
    taken: list[str] = []

    def take(worker: str) -> None:
        known: list[int] = []
        while (seen := stage.poll(worker, max=2, known=known)).status == 200:
            known.append(seen.body["leaseId"])
            taken.extend(one["executionId"] for one in seen.body["executions"])

    threads = [threading.Thread(target=take, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return expect(sorted(taken) == sorted(runs), f"{len(taken)} leased, {len(set(taken))} different, of {len(runs)}")


@rule("a worker gets only what its pool, its handlers and its labels allow")
def _(stage: Stage) -> str:
    stage.run(target={"requires": {"gpu": "a100"}})
    others: list[dict[str, Any]] = [{"pool": f"{stage.pool}-x"}, {"handlers": ["other"]}, {"labels": {"gpu": "t4"}}, {}]
    for about in others:
        stage.poll(stage.register(labels=about.pop("labels", {}), **about)).need(204)
    stage.lease(stage.register(labels={"gpu": "a100", "region": "eu"}))
    return "204 for four that do not fit, 200 for the one that does"


# ---------------------------------------------------------------- fences


@rule("another worker's execution is not there: 404, DULY-E205, whatever is said about it")
def _(stage: Stage) -> str:
    stage.run()
    turn, other = stage.one(stage.register()), stage.register()
    more: dict[str, dict[str, Any]] = {
        "log": {"lines": [{"message": "x"}]},
        "checkpoint": {"number": 1, "data": 1},
        "progress": {"progress": 1},
    }
    for verb in ("complete", "fail", "release", "log", "checkpoint", "progress"):
        turn.say(verb, by=other, **more.get(verb, {})).need(404, "DULY-E205")
    state = stage.execution(turn.id)["state"]
    return expect(state == "RUNNING", f"six times 404, still {state}")


@rule("a fence that is not the lease's is refused: 409, DULY-E223")
def _(stage: Stage) -> str:
    stage.run()
    turn = stage.one(stage.register())
    seen = turn.say("complete", fence=turn.fence + 1_000_000)
    seen.need(409, "DULY-E223")
    return str(seen)


@rule("a worker without a heartbeat is lost: its work goes to another, its own reports are refused: 409, DULY-E223")
def _(stage: Stage) -> str:
    run = stage.run()
    stale = stage.one(stage.register(ttlSec=1))
    other = stage.register()
    polls = (stage.poll(other, max=1, waitSec=20) for _ in range(3))
    current = next((seen for seen in polls if seen.status == 200), None)
    if current is None:
        raise Broken("nobody else was given its work within a minute")
    refused = stale.say("complete", result="stale")
    refused.need(409, "DULY-E223")
    outcomes = stage.attempts(run)
    lease = current.body
    holds = lease["executions"][0]["attempt"] == 2 and lease["leaseId"] > stale.fence and outcomes == ["WORKER_LOST", None]
    return expect(holds, f"{refused}, attempts {outcomes}")


@rule("a worker that is lost learns it: 410, DULY-E222, from its heartbeat and from its polls")
def _(stage: Stage) -> str:
    worker = stage.register(ttlSec=1)
    time.sleep(1.3)
    seen = [stage.probe.post(f"/v1/workers/{worker}/{verb}") for verb in ("heartbeat", "lease")]
    for answer in seen:
        answer.need(410, "DULY-E222")
    return ", ".join(str(answer) for answer in seen)


@rule("heartbeats keep a worker and its leases alive past its first time")
def _(stage: Stage) -> str:
    stage.run()
    turn = stage.one(stage.register(ttlSec=2))
    for _ in range(6):
        time.sleep(0.7)
        stage.probe.post(f"/v1/workers/{turn.worker}/heartbeat", {"ttlSec": 2}).need(200)
    state = turn.say("complete").need(200)["state"]
    return expect(state == "SUCCEEDED", f"{state} after 4 s with a life of 2 s")


# ---------------------------------------------------------------- stops


@rule("a cancel is told by the next heartbeat, and by none before it")
def _(stage: Stage) -> str:
    stage.run()
    turn = stage.one(stage.register())
    before = stage.probe.post(f"/v1/workers/{turn.worker}/heartbeat").need(200)["stop"]
    stage.probe.post(f"/v1/executions/{turn.id}/cancel").need(202)
    after = [stop["executionId"] for stop in stage.probe.post(f"/v1/workers/{turn.worker}/heartbeat").need(200)["stop"]]
    return expect(before == [] and after == [turn.id], f"{len(before)} before, {len(after)} after")


@rule("what was asked to stop and has stopped is CANCELLED")
def _(stage: Stage) -> str:
    stage.run()
    turn = stage.one(stage.register())
    stage.probe.post(f"/v1/executions/{turn.id}/cancel").need(202)
    state = turn.say("fail", outcome="CANCELLED").need(200)["state"]
    return expect(state == "CANCELLED" and stage.attempts(turn.id) == ["CANCELLED"], state)


@rule("what was asked to stop is not tried again when it fails")
def _(stage: Stage) -> str:
    stage.run()
    turn = stage.one(stage.register())
    stage.probe.post(f"/v1/executions/{turn.id}/cancel").need(202)
    state = turn.say("fail").need(200)["state"]
    return expect(state == "CANCELLED", state)


@rule("what was asked to stop and succeeds first has succeeded")
def _(stage: Stage) -> str:
    stage.run()
    turn = stage.one(stage.register())
    stage.probe.post(f"/v1/executions/{turn.id}/cancel").need(202)
    state = turn.say("complete").need(200)["state"]
    return expect(state == "SUCCEEDED", state)


@rule("what is cancelled before it is leased is leased to nobody")
def _(stage: Stage) -> str:
    run, worker = stage.run(), stage.register()
    stage.probe.post(f"/v1/executions/{run}/cancel").need(200)
    seen = stage.poll(worker)
    seen.need(204)
    return str(seen)


# ---------------------------------------------------------------- what is kept


@rule("lines are kept in the order in which they were sent")
def _(stage: Stage) -> str:
    stage.run()
    turn = stage.one(stage.register())
    turn.say("log", lines=[{"message": f"line {n}", "fields": {"n": n}} for n in range(3)]).need(200)
    turn.say("log", lines=[{"message": "line 3", "level": "warning"}]).need(200)
    kept = [line["message"] for line in stage.probe.get(f"/v1/executions/{turn.id}/logs")["items"]]
    return expect(kept == [f"line {n}" for n in range(4)], str(kept))


@rule("checkpoints only go forward; the last one may be sent again; an older one is 409, DULY-E226")
def _(stage: Stage) -> str:
    stage.run()
    turn = stage.one(stage.register())
    for number in (1, 3, 3):
        turn.say("checkpoint", number=number, data={"at": number}).need(200)
    seen = turn.say("checkpoint", number=2, data={"at": 2})
    seen.need(409, "DULY-E226")
    return str(seen)


@rule("the next attempt starts with the last checkpoint")
def _(stage: Stage) -> str:
    stage.run()
    worker = stage.register()
    turn = stage.one(worker)
    turn.say("checkpoint", number=7, data={"page": 7}).need(200)
    turn.say("fail").need(200)
    kept = stage.one(worker).run["checkpoint"]
    return expect(kept == {"number": 7, "data": {"page": 7}}, str(kept))


@rule("progress may be told while it runs, and not after: 409, DULY-E223")
def _(stage: Stage) -> str:
    stage.run()
    turn = stage.one(stage.register())
    turn.say("progress", progress={"done": 1, "total": 3}).need(200)
    turn.say("complete").need(200)
    seen = turn.say("progress", progress={"done": 2})
    seen.need(409, "DULY-E223")
    return f"200, then {seen}"


# ---------------------------------------------------------------- leaving


@rule("who drains is given nothing new and may end what it has")
def _(stage: Stage) -> str:
    job, worker = stage.job(), stage.register()
    stage.enqueue(job)
    turn = stage.one(worker)
    stage.enqueue(job)
    stage.probe.post(f"/v1/workers/{worker}/drain").need(200)
    stage.poll(worker, known=[turn.fence]).need(204)
    state = turn.say("complete").need(200)["state"]
    return expect(state == "SUCCEEDED", f"204, {state}")


@rule("who retires gives back what it has, at no cost, and is gone: 410, DULY-E222")
def _(stage: Stage) -> str:
    run = stage.run(retryPolicy={"maxAttempts": 1})
    worker = stage.register()
    stage.one(worker)
    released = stage.probe.post(f"/v1/workers/{worker}/drain", {"retire": True}).need(200)["released"]
    gone = stage.probe.post(f"/v1/workers/{worker}/heartbeat")
    gone.need(410, "DULY-E222")
    outcomes = stage.attempts(run)
    stage.one(stage.register())
    return expect(released == 1 and outcomes == ["RELEASED"], f"{released} released, {gone}, leased by another")
