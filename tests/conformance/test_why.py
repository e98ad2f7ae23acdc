"""Why, asked through the API on every engine: each situation is staged for real, then explained."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from duly.adapters.sql.engine import Engine
from duly.domain.decide import after_failure, execution_timeout
from duly.domain.ids import ExecutionId, execution_text, fire_id, job_text
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND, from_rfc3339, to_rfc3339
from duly.domain.lifecycle import Outcome, State
from duly.domain.limits import Concurrency, Limits, Rate, gates_of
from duly.domain.overlap import OverlapPolicy
from duly.domain.retry import RetryPolicy, RetryRule
from duly.usecases import access as keys
from tests.conformance.asking import KEEP, SECRET, Asking, asking, codes
from tests.conformance.ledger import raw
from tests.conformance.world import START, TTL, World


@pytest.fixture
async def ask(world: World) -> AsyncIterator[Asking]:
    async with asking(world) as found:
        yield found


# ---------------------------------------------------------------- waits for a time


async def test_a_delay_that_has_not_passed(ask: Asking, world: World) -> None:
    run_id = await ask.enqueue(await world.job(), delaySec=300)
    world.turn(MINUTE)

    answer = await ask.run(run_id)

    assert codes(answer) == ["NOT_DUE"]
    assert answer["summary"] == "It is not due yet: it is due in 4m, at 2024-10-04T12:05:00Z."
    assert answer["reasons"][0]["until"] == to_rfc3339(START + 5 * MINUTE)


async def test_due_and_no_dispatcher_has_come(ask: Asking, world: World) -> None:
    run_id = await ask.enqueue(await world.job(), delaySec=60)
    world.turn(2 * MINUTE)

    nobody = await ask.run(run_id)
    await world.own_shards("d1")
    busy = await ask.run(run_id)

    assert codes(nobody) == codes(busy) == ["DISPATCHER_BEHIND", "NOT_DUE"]
    assert "no dispatcher is there" in nobody["summary"]
    assert "dispatcher d1 has not come to it yet" in busy["summary"]


async def test_a_retry_that_waits(ask: Asking, world: World) -> None:
    job = await world.job()
    run_id = (await world.enqueue(job))[0]
    worker = await world.worker()
    claimed = await world.claimed(worker)
    await world.finish(worker, claimed, Outcome.FAILED, error='{"type":"ValueError","message":"no such table\\nmore"}')
    world.turn(4 * SECOND)

    answer = await ask.run(run_id)

    assert codes(answer) == ["RETRY_WAIT"]
    assert answer["summary"] == "Attempt 1 of 3 failed (ValueError: no such table); the next one runs in 6s, at 2024-10-04T12:00:10Z."
    assert answer["reasons"][0]["facts"]["nextAttempt"] == 2
    assert "duly run retry run_" in answer["reasons"][0]["hint"]


async def test_a_wait_after_a_lost_worker(ask: Asking, world: World) -> None:
    run_id = (await world.enqueue(await world.job()))[0]
    await world.claimed(await world.worker())
    world.turn(TTL + SECOND)
    await world.lose()

    answer = await ask.run(run_id)

    assert codes(answer) == ["LOSS_WAIT"]
    assert answer["summary"].startswith("The worker that ran attempt 1 is gone; it starts again in 1s")


async def test_a_release_at_a_drain_and_a_snooze(ask: Asking, world: World) -> None:
    first, second = await world.enqueue(await world.job(), 2)
    worker = await world.worker()
    claimed = await world.claimed(worker)
    await world.finish(worker, claimed, Outcome.RELEASED, only=[first])
    await world.finish(worker, claimed, Outcome.RELEASED, only=[second], retry_at=world.now + 5 * MINUTE)

    released, snoozed = await ask.run(first), await ask.run(second)
    await world.promote()
    ready = await ask.run(first)

    assert codes(released) == ["RELEASED"]
    assert "gave it back" in released["summary"]
    assert codes(snoozed) == ["SNOOZED"]
    assert snoozed["summary"] == "Its handler put it off: attempt 2 runs in 5m, at 2024-10-04T12:05:00Z."
    assert codes(ready)[-1] == "RELEASED"


# ---------------------------------------------------------------- waits for others


async def test_the_queue_behind_a_run(ask: Asking, world: World) -> None:
    job = await ask.create(name="one-at-a-time", intervalSec=60, overlap="queue_all", anchorAt=to_rfc3339(START + MINUTE))
    for _ in range(3):
        world.turn(MINUTE)
        await world.fire()
    await world.claimed(await world.worker())
    holder, second, third = (execution.id for execution in await world.of_job(job))

    one, two = await ask.run(second), await ask.run(third)

    assert codes(one) == codes(two) == ["OVERLAP_QUEUE"]
    assert one["reasons"][0]["facts"] == {
        "overlap": "queue_all",
        "holder": execution_text(holder),
        "holderState": "RUNNING",
        "holderStartedAt": to_rfc3339(world.now),
        "position": 1,
        "waiting": 2,
    }
    assert f"{execution_text(holder)} has its place, running since 2024-10-04T12:03:00Z" in two["summary"]
    assert two["reasons"][0]["facts"]["position"] == 2
    assert two["summary"].endswith("behind 1 other that waits.")


def literal(engine: Engine, id: UUID) -> str:
    return f"'{id}'" if engine.name == "postgres" else f"x'{id.hex}'"


async def limited(world: World, count: int, limits: Limits) -> list[ExecutionId]:
    """Executions of a job with limits."""
    job = await world.job("limited")
    payload = '{"user":7}'
    gates = gates_of(limits, 1, job.id, "limited", payload)
    made = [execution._replace(gates=gates) for execution in world.new_executions(job, count, payload=payload)]
    await world.store.intake.enqueue(made, world.now)
    return [execution.id for execution in made]


async def test_a_limit_of_how_many_run(ask: Asking, world: World) -> None:
    running = Concurrency(max=1, name="mail", key=("user",))
    holder, first, second = await limited(world, 3, Limits(concurrency=running))

    through, one, two = await ask.run(holder), await ask.run(first), await ask.run(second)
    await world.cancel(second, first, holder)

    assert codes(through) == ["NO_WORKER"]
    assert codes(one) == codes(two) == ["CONCURRENCY_LIMIT"]
    assert one["summary"] == "The limit 'mail' for user=7 lets 1 run at a time, and 1 do; it is number 1 in line."
    assert two["reasons"][0]["facts"] == {
        "limit": "mail",
        "capacity": 1,
        "taken": 1,
        "position": 2,
        "holders": [execution_text(holder)],
        "about": {"limit": "concurrency", "name": "mail", "key": {"user": 7}},
    }


async def test_a_rate_limit(ask: Asking, world: World) -> None:
    holder, other = await limited(world, 2, Limits(rate=Rate(count=1, per=MINUTE)))
    worker = await world.worker()
    await world.finish(worker, await world.claimed(worker))
    world.turn(10 * SECOND)

    answer = await ask.run(other)
    await world.cancel(other)

    assert await world.state(holder) is State.SUCCEEDED
    assert codes(answer) == ["RATE_LIMIT"]
    assert answer["summary"].startswith("A limit of the job lets 1 start in 1m, and they have; the next may start at 2024-10-04T12:0")


# ---------------------------------------------------------------- waits for a worker


async def test_no_worker_at_all(ask: Asking, world: World) -> None:
    run_id = (await world.enqueue(await world.job()))[0]

    answer = await ask.run(run_id)

    assert codes(answer) == ["NO_WORKER"]
    assert answer["reasons"][0]["hint"] == "Start one: duly worker APP --pool default"


async def test_no_worker_in_the_pool(ask: Asking, world: World) -> None:
    run_id = (await world.enqueue(await world.job(pool="gpu")))[0]
    await world.worker("w1", handlers=["noop"], slots=1)

    answer = await ask.run(run_id)

    assert codes(answer) == ["NO_WORKER_IN_POOL"]
    assert answer["summary"] == "No live worker is in pool gpu; 1 worker in default."


async def test_labels_that_nobody_has(ask: Asking, world: World) -> None:
    run_id = (await world.enqueue(await world.job(requires={"region": "eu", "gpu": ""})))[0]
    await world.worker("w1", handlers=["noop"], slots=1, labels={"region": "us"})
    await world.worker("w2", handlers=["noop"], slots=1, labels={"region": "eu"})

    answer = await ask.run(run_id)

    assert codes(answer) == ["LABELS_MISSING"]
    assert "w2 lacks gpu" in answer["summary"]
    assert answer["reasons"][0]["facts"]["missing"] == ["gpu"]


async def test_a_handler_that_nobody_offers(ask: Asking, world: World) -> None:
    run_id = (await world.enqueue(await world.job(handler="send_mail")))[0]
    await world.worker("w1", handlers=["noop", "send_mails"], slots=1)

    answer = await ask.run(run_id)

    assert codes(answer) == ["HANDLER_NOT_OFFERED"]
    assert answer["summary"] == "No live worker of pool default offers send_mail."
    assert answer["reasons"][0]["hint"] == "Did you mean send_mails?"


async def test_the_handler_here_and_the_labels_there(ask: Asking, world: World) -> None:
    run_id = (await world.enqueue(await world.job(handler="send", requires={"gpu": ""})))[0]
    await world.worker("w1", handlers=["send"], slots=1)
    await world.worker("w2", handlers=["noop"], slots=1, labels={"gpu": ""})

    answer = await ask.run(run_id)

    assert codes(answer) == ["LABELS_MISSING"]
    assert "No live worker of pool default that offers send has the labels gpu: w1 lacks gpu." in answer["summary"]


async def test_a_full_worker_and_the_position_in_the_queue(ask: Asking, world: World) -> None:
    job = await world.job()
    *ahead, run_id = await world.enqueue(job, 4)
    worker = await world.worker("w1", handlers=["noop"], slots=1)
    await world.claimed(worker, 1)

    answer = await ask.run(run_id)

    assert len(ahead) == 3
    assert codes(answer) == ["WORKERS_FULL", "QUEUED"]
    assert answer["summary"] == "Every worker that could run it is full: w1 (1/1)."
    queued = answer["reasons"][1]
    assert queued["message"] == "It waits for a worker: 2 are ahead of it in its queue."
    assert (queued["facts"]["position"], queued["facts"]["running"], queued["facts"]["slots"]) == (3, 1, 1)


async def test_slots_that_are_kept_for_other_tenants(ask: Asking, world: World) -> None:
    job = await world.job()
    *_, run_id = await world.enqueue(job, 20)
    worker = await world.worker("w1", handlers=["noop"], slots=20, ttl=HOUR)
    await world.claimed(worker, 18)
    await world.cancel((await world.claimed(worker, 1)).ids[0])
    world.turn(MINUTE)
    alone = await ask.run(run_id)
    await world.add_tenant(2)

    beside = await ask.run(run_id)

    assert codes(alone) == ["STARTS_SOON"]
    assert codes(beside) == ["SLOTS_KEPT_OPEN", "QUEUED"]
    assert beside["summary"] == "The tenant has its share of the slots; the last 1 of 20 are kept for tenants that have less."


async def test_the_estimate_follows_the_recent_rate(ask: Asking, world: World) -> None:
    job = await world.job()
    await world.enqueue(job, 10)
    await world.run()
    world.turn(10 * SECOND)
    *_, last = await world.enqueue(job, 5)
    await world.worker("w1", handlers=["noop"], slots=1)

    answer = await ask.run(last)

    assert codes(answer) == ["QUEUED"]
    assert answer["summary"] == "It waits for a worker: 4 are ahead of it in its queue; about 5s at the recent rate."
    assert answer["reasons"][0]["facts"]["perSecond"] == 1.0
    assert answer["reasons"][0]["until"] == to_rfc3339(world.now + 5 * SECOND)


async def test_a_share_among_tenants(ask: Asking, world: World) -> None:
    await world.add_tenant(2, weight=300)
    mine, theirs = await world.job(), await world.job(tenant=2)
    first, second = await world.enqueue(mine, 2)
    await world.enqueue(theirs, 3)
    await world.worker("w1", handlers=["noop"], slots=1)

    answer = await ask.run(second)

    assert first
    assert answer["reasons"][0]["facts"]["sharePercent"] == 25
    assert answer["reasons"][0]["facts"]["position"] == 2


async def test_a_worker_that_drains(ask: Asking, world: World) -> None:
    run_id = (await world.enqueue(await world.job()))[0]
    worker = await world.worker("w1", handlers=["noop"], slots=1)
    soon = await ask.run(run_id)
    await world.store.liveness.drain(worker)

    answer = await ask.run(run_id)

    assert codes(soon) == ["STARTS_SOON"]
    assert codes(answer) == ["WORKERS_DRAINING", "QUEUED"]
    assert answer["summary"] == "Every worker that could run it is stopping and takes no more: w1."


async def test_a_worker_of_another_tenant_does_not_count(ask: Asking, world: World) -> None:
    run_id = (await world.enqueue(await world.job()))[0]
    worker = await world.worker("w1", handlers=["noop"], slots=1)
    await raw(world.engine, f"UPDATE workers SET tenant = 2 WHERE id = {worker}")

    assert codes(await ask.run(run_id)) == ["NO_WORKER"]


# ---------------------------------------------------------------- runs


async def test_it_runs(ask: Asking, world: World) -> None:
    run_id = (await world.enqueue(await world.job(timeout=MINUTE)))[0]
    worker = await world.worker("w1", handlers=["noop"], slots=1)
    claimed = await world.claimed(worker)
    await raw(
        world.engine,
        f"INSERT INTO checkpoints (id, number, attempt, progress, progress_at) "
        f"VALUES ({literal(world.engine, run_id)}, 3, 1, '{{\"done\": 4}}', {world.now})",
    )
    world.turn(10 * SECOND)
    await world.store.liveness.renew(worker, world.now, TTL)
    world.turn(2 * SECOND)

    answer = await ask.run(run_id)

    assert codes(answer) == ["RUNNING"]
    assert answer["summary"] == "It has been running for 12s on w1."
    facts = answer["reasons"][0]["facts"]
    assert facts["lastHeartbeatAt"] == to_rfc3339(START + 10 * SECOND)
    assert (facts["progress"], facts["checkpoint"], facts["fence"]) == ({"done": 4}, 3, claimed.lease)
    assert answer["reasons"][0]["until"] == to_rfc3339(START + MINUTE)


async def test_it_runs_and_was_asked_to_stop(ask: Asking, world: World) -> None:
    run_id = (await world.enqueue(await world.job()))[0]
    await world.claimed(await world.worker("w1"))
    await ask.post(f"/v1/executions/{execution_text(run_id)}/cancel")

    answer = await ask.run(run_id)

    assert codes(answer) == ["STOP_ASKED", "RUNNING"]
    assert answer["summary"].startswith("It was asked to stop by anna at 2024-10-04T12:00:00Z; it is ended at 2024-10-04T12:00:10Z if")


async def test_it_runs_and_the_next_fire_wants_it_to_stop(ask: Asking, world: World) -> None:
    job = await world.job(every=MINUTE, overlap=OverlapPolicy.CANCEL_PREVIOUS)
    await world.fire()
    worker = await world.worker(ttl=HOUR)
    claimed = await world.claimed(worker)
    world.turn(MINUTE)
    await world.fire()
    running, waiting = await world.of_job(job)

    asked, waits = await ask.run(running.id), await ask.run(waiting.id)
    await world.finish(worker, claimed, Outcome.CANCELLED)

    assert codes(asked) == ["STOP_ASKED", "RUNNING"]
    assert asked["summary"].startswith("It was asked to stop by the next fire (overlap) at 2024-10-04T12:01:00Z")
    assert codes(waits) == ["OVERLAP_QUEUE"]
    assert "the next fire (overlap)" in (await ask.run(running.id))["summary"]


async def test_it_runs_on_a_worker_that_is_silent(ask: Asking, world: World) -> None:
    run_id = (await world.enqueue(await world.job()))[0]
    await world.claimed(await world.worker("w1"))
    world.turn(TTL + 5 * SECOND)

    answer = await ask.run(run_id)
    again = answer["reasons"][0]["until"]
    await world.lose()

    assert codes(answer) == ["WORKER_SILENT", "RUNNING"]
    assert answer["summary"].startswith("Worker w1 has not been heard of for 20s; the sweeper takes it away")
    assert again == to_rfc3339((await world.execution(run_id)).next_attempt_at)


async def test_a_silent_worker_is_the_last_straw(ask: Asking, world: World) -> None:
    run_id = (await world.enqueue(await world.job(retry=RetryPolicy(max_losses=1))))[0]
    await world.claimed(await world.worker("w1"))
    world.turn(TTL + SECOND)

    answer = await ask.run(run_id)
    await world.lose()

    assert "ends as dead" in answer["summary"]
    assert await world.state(run_id) is State.DEAD


# ---------------------------------------------------------------- has ended


async def test_it_succeeded_after_a_failure(ask: Asking, world: World) -> None:
    run_id = (await world.enqueue(await world.job()))[0]
    await world.run(Outcome.FAILED)
    world.turn(10 * SECOND)
    await world.promote()
    await world.run()

    answer = await ask.run(run_id)

    assert codes(answer) == ["SUCCEEDED"]
    assert answer["summary"].startswith("It succeeded on attempt 2, after an attempt that did not succeed (failed)")
    assert [failure["outcome"] for failure in answer["reasons"][0]["facts"]["failures"]] == ["FAILED"]


async def test_its_attempts_are_used_up(ask: Asking, world: World) -> None:
    run_id = (await world.enqueue(await world.job()))[0]
    for _ in range(3):
        await world.promote()
        await world.run(Outcome.FAILED)
        world.turn(10 * SECOND)

    answer = await ask.run(run_id)

    assert codes(answer) == ["ATTEMPTS_USED_UP"]
    assert answer["summary"] == "It is dead: all 3 attempts failed, at last with failed."
    assert answer["reasons"][0]["facts"]["failures"] == 3


async def test_it_gave_up_by_a_rule(ask: Asking, world: World) -> None:
    run_id = (await world.enqueue(await world.job()))[0]
    worker = await world.worker()
    claimed = await world.claimed(worker)
    told = '{"type":"KeyError","message":"id"}'
    await world.finish(worker, claimed, Outcome.FAILED, state=State.DEAD, retry_at=None, error=told)

    answer = await ask.run(run_id)

    assert codes(answer) == ["GAVE_UP"]
    assert answer["summary"] == "It is dead after 1 attempt: it ended in a way that is not tried again: KeyError: id."


async def test_the_budget_of_a_rule_is_used_up(ask: Asking, world: World) -> None:
    policy = RetryPolicy(max_attempts=5, rules=(RetryRule(error="KeyError", max_attempts=2), RetryRule(error="ValueError", retry=False)))
    job = await world.job(retry=policy)
    ids = await world.enqueue(job, 2)
    worker = await world.worker(ttl=HOUR)
    for _ in range(2):
        claimed = await world.claimed(worker)
        for run_id in claimed.ids:
            nth = claimed.ids.index(run_id)
            kind = "KeyError" if run_id == ids[0] else "ValueError"
            verdict = after_failure(policy, claimed.failures[nth], world.now, 0.5, error=f'{{"type":"{kind}"}}', kinds=[kind])
            changes = {"state": verdict.state, "retry_at": verdict.retry_at, "error": verdict.error}
            await world.finish(worker, claimed, Outcome.FAILED, only=[run_id], **changes)
        world.turn(MINUTE)
        await world.promote()

    used_up, gave_up = await ask.run(ids[0]), await ask.run(ids[1])

    assert (codes(used_up), codes(gave_up)) == (["ATTEMPTS_USED_UP"], ["GAVE_UP"])
    assert used_up["summary"] == "It is dead: all 2 attempts failed, at last with KeyError."


async def test_it_ran_out_of_all_its_time(ask: Asking, world: World) -> None:
    run_id = (await world.enqueue(await world.job()))[0]
    worker = await world.worker()
    claimed = await world.claimed(worker)
    told = execution_timeout("60 s in all")
    await world.finish(worker, claimed, Outcome.TIMED_OUT, state=State.DEAD, retry_at=None, error=told)

    assert codes(await ask.run(run_id)) == ["EXECUTION_TIMEOUT"]


async def test_it_killed_its_workers(ask: Asking, world: World) -> None:
    run_id = (await world.enqueue(await world.job()))[0]
    for _ in range(3):
        await world.promote()
        await world.claimed(await world.worker())
        world.turn(TTL + SECOND)
        await world.lose()
        world.turn(2 * SECOND)

    answer = await ask.run(run_id)

    assert codes(answer) == ["POISON"]
    assert answer["summary"] == "It is quarantined: it killed its worker 3 times."


@pytest.mark.parametrize("where", ["waiting", "timer", "running", "running and failing"])
async def test_it_was_cancelled_by_somebody(ask: Asking, world: World, where: str) -> None:
    job = await world.job()
    run_id = (await world.enqueue(job, due_in=MINUTE if where == "timer" else 0))[0]
    worker = await world.worker()
    claimed = await world.claimed(worker) if "running" in where else None
    await ask.post(f"/v1/executions/{execution_text(run_id)}/cancel")
    world.turn(SECOND)
    if claimed is not None:
        await world.finish(worker, claimed, Outcome.FAILED if "failing" in where else Outcome.CANCELLED)
    await world.store.losses.reconcile(world.now)

    answer = await ask.run(run_id)

    assert codes(answer) == ["CANCELLED"]
    how = "in attempt 1" if "running" in where else "before it had started"
    at = "12:00:01" if "running" in where else "12:00:00"
    assert answer["summary"] == f"It was cancelled by anna at 2024-10-04T{at}Z, {how}."


async def test_its_handler_discarded_it(ask: Asking, world: World) -> None:
    run_id = (await world.enqueue(await world.job()))[0]
    worker = await world.worker()
    claimed = await world.claimed(worker)
    await world.finish(worker, claimed, Outcome.CANCELLED, error='{"reason":"discarded","message":"no such customer"}')

    answer = await ask.run(run_id)

    assert codes(answer) == ["DISCARDED"]
    assert answer["summary"].endswith("discarded it at 2024-10-04T12:00:00Z: no such customer.")


async def test_a_misfire_says_what_ran_instead(ask: Asking, world: World) -> None:
    job = await ask.create(intervalSec=3600, anchorAt=to_rfc3339(START + HOUR))
    world.turn(HOUR)
    await world.fire()
    world.turn(4 * HOUR)
    await world.fire()
    ran, *skipped, instead = await world.of_job(job)

    answer = await ask.run(skipped[-1].id)

    assert [execution.state for execution in skipped] == [State.SKIPPED] * 3
    assert codes(answer) == ["SKIPPED_MISFIRE"]
    facts = answer["reasons"][0]["facts"]
    assert (facts["outageFrom"], facts["outageTo"]) == (to_rfc3339(START + 2 * HOUR), to_rfc3339(START + 5 * HOUR))
    assert facts["ranInstead"] == execution_text(instead.id)
    assert facts["catchUp"] == "latest"
    assert ran.state is State.PENDING


async def test_a_misfire_that_nothing_made_up_for(ask: Asking, world: World) -> None:
    job = await ask.create(intervalSec=3600, anchorAt=to_rfc3339(START + HOUR), catchUp="none")
    world.turn(90 * MINUTE)
    await world.fire()

    answer = await ask.run((await world.of_job(job))[0].id)

    assert codes(answer) == ["SKIPPED_MISFIRE"]
    assert answer["summary"].endswith("by catch-up 'none' nothing ran instead.")


@pytest.mark.parametrize("has_ended", [True, False])
async def test_an_overlap_names_the_run_that_was_live(ask: Asking, world: World, has_ended: bool) -> None:
    job = await ask.create(intervalSec=60, anchorAt=to_rfc3339(START + MINUTE), overlap="skip")
    world.turn(MINUTE)
    await world.fire()
    worker = await world.worker(ttl=HOUR)
    claimed = await world.claimed(worker)
    world.turn(MINUTE)
    await world.fire()
    world.turn(SECOND)
    if has_ended:
        await world.finish(worker, claimed)
    holder, skipped = await world.of_job(job)

    answer = await ask.run(skipped.id)

    assert codes(answer) == ["SKIPPED_OVERLAP"]
    assert answer["reasons"][0]["facts"]["liveRun"] == execution_text(holder.id)
    until = "until 2024-10-04T12:02:01Z" if has_ended else "and still is"
    assert answer["summary"] == f"{execution_text(holder.id)} was live then, {until}, and overlap is 'skip'."


async def test_somebody_asked_to_skip_a_fire(ask: Asking, world: World) -> None:
    job = await ask.create(intervalSec=60, anchorAt=to_rfc3339(START + MINUTE))
    here = literal(world.engine, job.id)
    await raw(world.engine, f"UPDATE schedules SET skip_at = {START + MINUTE}, skip_by = '{keys.key_id(SECRET)}' WHERE job_id = {here}")

    answer = await ask.job(job.id, START + MINUTE)

    assert codes(answer) == ["SKIPPED_ASKED"]
    assert answer["summary"] == "anna asked to skip the fire at 2024-10-04T12:01:00Z."


# ---------------------------------------------------------------- a job now


async def test_a_job_waits_for_its_next_fire(ask: Asking, world: World) -> None:
    job = await ask.create(schedule="30 2 * * *", timezone="Europe/Berlin")

    answer = await ask.job(job.id)

    assert codes(answer) == ["WAITS_FOR_FIRE"]
    assert answer["summary"] == "It fires in 12h30m, at 2024-10-05T00:30:00Z."


async def test_a_paused_job(ask: Asking, world: World) -> None:
    job = await ask.create(name="nightly", schedule="30 2 * * *")
    await ask.post(f"/v1/jobs/{job_text(job.id)}/pause", {"reason": "db move"})
    await raw(world.engine, f"UPDATE jobs SET paused_by = '{keys.key_id(SECRET)}', paused_until = {START + 2 * DAY} WHERE name = 'nightly'")

    now, then, later = await ask.job(job.id), await ask.job(job.id, "2024-10-05T02:30:00Z"), await ask.job(job.id, "2024-10-07T02:30:00Z")

    assert codes(now) == codes(then) == ["JOB_PAUSED"]
    assert now["summary"] == "The job is paused by anna since 2024-10-04T12:00:00Z until 2024-10-06T12:00:00Z: db move."
    assert now["reasons"][0]["hint"] == "To let it fire again: duly job resume nightly"
    assert codes(later) != ["JOB_PAUSED"]


async def test_a_cancelled_a_completed_and_an_unscheduled_job(ask: Asking, world: World) -> None:
    cancelled = await ask.create(intervalSec=60)
    await world.cancel_job(cancelled)
    completed = await ask.create(runAt=to_rfc3339(START + MINUTE))
    on_demand = await ask.create()
    world.turn(MINUTE)
    await world.fire()
    await world.run()

    assert codes(await ask.job(cancelled.id)) == ["JOB_CANCELLED"]
    assert codes(await ask.job(completed.id)) == ["JOB_COMPLETED"]
    assert codes(await ask.job(on_demand.id)) == ["NO_SCHEDULE"]
    assert codes(await ask.job(on_demand.id, START)) == ["NO_SCHEDULE"]


async def test_a_live_run_comes_before_the_next_fire(ask: Asking, world: World) -> None:
    job = await ask.create(intervalSec=3600)
    await world.enqueue(job)

    assert codes(await ask.job(job.id)) == ["NO_WORKER", "WAITS_FOR_FIRE"]


# ---------------------------------------------------------------- a job at a time


async def test_a_fire_is_explained_by_its_execution(ask: Asking, world: World) -> None:
    job = await ask.create(intervalSec=3600, anchorAt=to_rfc3339(START + HOUR))
    world.turn(HOUR)
    await world.fire()
    await world.run()

    answer = await ask.job(job.id, START + HOUR)

    assert codes(answer) == ["SUCCEEDED"]
    assert answer == await ask.run(fire_id(job.id, START + HOUR))


async def test_a_time_that_the_schedule_does_not_name(ask: Asking, world: World) -> None:
    job = await ask.create(schedule="30 2 * * *")
    world.turn(2 * DAY)

    answer = await ask.job(job.id, "2024-10-05T03:00:00Z")

    assert codes(answer) == ["NOT_A_FIRE"]
    assert answer["reasons"][0]["facts"]["nearest"] == ["2024-10-05T02:30:00Z", "2024-10-06T02:30:00Z"]


async def test_before_the_job_existed(ask: Asking, world: World) -> None:
    job = await ask.create(schedule="30 2 * * *")

    answer = await ask.job(job.id, START - DAY)

    assert codes(answer) == ["BEFORE_JOB"]
    assert answer["summary"] == "The job did not exist at 2024-10-03T12:00:00Z: it was created at 2024-10-04T12:00:00Z."


async def test_another_version_was_current_then(ask: Asking, world: World) -> None:
    job = await ask.create(name="changed", schedule="30 2 * * *")
    world.turn(2 * DAY)
    body = {"name": "changed", "schedule": "45 4 * * *", "target": {"handler": "noop"}}
    assert (await ask.client.put(f"/v1/jobs/{job_text(job.id)}", json=body)).status_code == 200

    answer = await ask.job(job.id, "2024-10-05T04:45:00Z")

    assert codes(answer) == ["NOT_A_FIRE", "OTHER_VERSION"]
    assert answer["reasons"][1]["facts"]["version"] == 1
    assert "Every day at 02:30" in answer["reasons"][1]["message"]


async def test_outside_start_and_end(ask: Asking, world: World) -> None:
    bounds = {"startAt": "2024-10-06T00:00:00Z", "endAt": "2024-10-08T00:00:00Z"}
    job = await ask.create(schedule="30 2 * * *", **bounds)

    before, after = await ask.job(job.id, "2024-10-05T02:30:00Z"), await ask.job(job.id, "2024-10-09T02:30:00Z")

    assert codes(before) == ["BEFORE_START", "NOT_A_FIRE"]
    assert codes(after) == ["AFTER_END", "NOT_A_FIRE"]


async def test_the_clocks_moved_or_dropped_it(ask: Asking, world: World) -> None:
    world.clock.now = from_rfc3339("2026-03-01T00:00:00Z")
    moved = await ask.create(schedule="30 2 * * *", timezone="America/New_York")
    dropped = await ask.create(schedule="30 2 * * *", timezone="America/New_York", dstGap="skip")
    twice = await ask.create(schedule="30 1 * * *", timezone="America/New_York")

    asked, ran = await ask.job(moved.id, "2026-03-08T07:30:00Z"), await ask.job(moved.id, "2026-03-08T07:00:00Z")
    gone, second = await ask.job(dropped.id, "2026-03-08T07:30:00Z"), await ask.job(twice.id, "2026-11-01T06:30:00Z")

    assert codes(asked) == ["CLOCKS_CHANGED", "NOT_A_FIRE"]
    assert "02:30 did not exist on 2026-03-08" in asked["summary"]
    assert "it runs at 2026-03-08T07:00:00Z instead" in asked["summary"]
    assert codes(ran) == ["WAITS_FOR_FIRE", "CLOCKS_CHANGED"]
    assert ran["reasons"][1]["message"] == "02:30 does not exist on this day; runs at 03:00."
    assert "it does not run that day (dstGap skip)" in gone["summary"]
    assert "01:30 happened twice on this day in America/New_York, and it runs the first time only" in second["summary"]


async def test_a_calendar_excludes_or_moves_it(ask: Asking, world: World) -> None:
    days = {"holidays": [{"date": "2024-10-10", "name": "harvest"}]}
    assert (await ask.client.put("/v1/calendars/feasts", json=days)).status_code < 300
    zone = {"timezone": "Europe/Berlin", "calendars": ["feasts"]}
    skipped = await ask.create(schedule="30 2 * * *", **zone)
    moved = await ask.create(schedule="30 2 10 * *", onExcluded="next_business_day", **zone)

    left_out, away = await ask.job(skipped.id, "2024-10-10T00:30:00Z"), await ask.job(moved.id, "2024-10-10T00:30:00Z")
    here = await ask.job(moved.id, "2024-10-11T00:30:00Z")

    assert codes(left_out) == codes(away) == ["EXCLUDED", "NOT_A_FIRE"]
    assert "feasts" in left_out["summary"]
    assert "2024-10-11T00:30:00Z" in away["reasons"][1]["facts"]["nearest"]
    assert codes(here) == ["WAITS_FOR_FIRE", "EXCLUDED"]
    assert "moved from" in here["reasons"][1]["message"]


async def test_a_pause_with_an_end_and_a_fire_to_be_skipped(ask: Asking, world: World) -> None:
    job = await ask.create(name="resting", intervalSec=3600, anchorAt=to_rfc3339(START + HOUR))
    at = to_rfc3339(START + 5 * HOUR)
    await ask.post(f"/v1/jobs/{job_text(job.id)}/skip", {"at": at})
    await ask.post(f"/v1/jobs/{job_text(job.id)}/pause", {"reason": "db move", "until": to_rfc3339(START + 3 * HOUR)})

    now, then, after = await ask.job(job.id), await ask.job(job.id, START + HOUR), await ask.job(job.id, START + 4 * HOUR)
    skipped = await ask.job(job.id, at)
    world.turn(5 * HOUR)
    await world.fire()

    assert codes(now) == codes(then) == ["JOB_PAUSED"]
    assert now["summary"] == "The job is paused by anna since 2024-10-04T12:00:00Z until 2024-10-04T15:00:00Z: db move."
    assert codes(after) == ["WAITS_FOR_FIRE"]
    assert codes(skipped) == ["SKIPPED_ASKED"]
    assert codes(await ask.run(fire_id(job.id, START + 5 * HOUR))) == ["SKIPPED_ASKED"]


async def test_the_dispatcher_has_not_come_to_it(ask: Asking, world: World) -> None:
    job = await ask.create(intervalSec=3600, anchorAt=to_rfc3339(START + HOUR))
    world.turn(HOUR + 5 * MINUTE)

    then, now = await ask.job(job.id, START + HOUR), await ask.job(job.id)

    assert codes(then) == codes(now) == ["FIRE_LATE"]
    assert then["summary"] == "It is late by 5m: no dispatcher is there to fire it."


async def test_history_that_is_gone(ask: Asking, world: World) -> None:
    job = await ask.create(intervalSec=3600, anchorAt=to_rfc3339(START + HOUR), catchUp="none")
    world.turn(HOUR)
    await world.fire()
    await world.run()
    world.turn(KEEP + DAY)
    await world.fire()
    while await world.store.retention.prune(world.now - KEEP, world.now, 1000):
        pass

    answer = await ask.job(job.id, START + HOUR)

    assert codes(answer) == ["REMOVED"]


async def test_a_fire_that_a_pause_swallowed(ask: Asking, world: World) -> None:
    job = await ask.create(intervalSec=3600, anchorAt=to_rfc3339(START + HOUR))
    await ask.post(f"/v1/jobs/{job_text(job.id)}/pause")
    world.turn(90 * MINUTE)
    await ask.post(f"/v1/jobs/{job_text(job.id)}/resume")

    answer = await ask.job(job.id, START + HOUR)

    assert codes(answer) == ["NOT_RECORDED"]


# ---------------------------------------------------------------- whose


async def test_a_stranger_learns_nothing(ask: Asking, world: World) -> None:
    await world.add_tenant(2)
    job = await world.job(tenant=2)
    run_id = (await world.enqueue(job))[0]

    of_run = await ask.client.get(f"/v1/executions/{execution_text(run_id)}/why")
    of_job = await ask.client.get(f"/v1/jobs/{job_text(job.id)}/why")
    at = await ask.client.get(f"/v1/jobs/{job_text(job.id)}/why", params={"at": to_rfc3339(START)})

    assert [answer.status_code for answer in (of_run, of_job, at)] == [404, 404, 404]
