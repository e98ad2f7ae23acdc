"""Dead letters and bulk actions, through the API on every engine."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from duly.domain.execution import NewExecution
from duly.domain.ids import ExecutionId, execution_text, job_text, parse_batch_id, parse_execution_id
from duly.domain.instants import DAY, MINUTE, SECOND, to_rfc3339
from duly.domain.job import Job
from duly.domain.lifecycle import Outcome, State, Trigger
from duly.usecases import bulk as usecase
from tests.conformance.asking import Asking, asking, codes
from tests.conformance.ledger import raw
from tests.conformance.test_races import Opener, worlds
from tests.conformance.world import START, World


@pytest.fixture
async def ask(world: World) -> AsyncIterator[Asking]:
    async with asking(world) as found:
        yield found


async def killed(world: World, job: Job, *messages: str, kind: str = "ValueError") -> list[ExecutionId]:
    """One dead letter for each message, oldest first."""
    made: list[ExecutionId] = []
    for message in messages:
        made += await world.enqueue(job, payload=f'{{"for":"{message}"}}')
        worker = await world.worker()
        claimed = await world.claimed(worker, of=[job])
        told = f'{{"type":"{kind}","message":"{message}"}}'
        assert not await world.finish(worker, claimed, Outcome.FAILED, state=State.DEAD, retry_at=None, error=told)
        world.turn(SECOND)
    return made


async def bulk(ask: Asking, **body: Any) -> dict[str, Any]:
    return await ask.post("/v1/executions:bulk", body)


async def refused(ask: Asking, path: str, **body: Any) -> tuple[int, str]:
    answer = await ask.client.post(path, json=body)
    return answer.status_code, answer.json()["code"]


async def shown(ask: Asking, run_id: ExecutionId) -> dict[str, Any]:
    found: dict[str, Any] = (await ask.client.get(f"/v1/executions/{execution_text(run_id)}")).json()
    return found


async def groups(ask: Asking, **query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await ask.client.get("/v1/dead-letters", params=query)).json()["items"]
    return found


# ---------------------------------------------------------------- dead letters


async def test_letters_are_grouped_by_what_they_died_of(ask: Asking, world: World) -> None:
    mail, report = await world.job("mail"), await world.job("report")
    ids = await killed(world, mail, "no user 17 in 'eu'", "no user 4711 in 'us'", "disk full")
    await killed(world, report, "no user 1 in 'eu'")

    found = await groups(ask)
    of_mail = await groups(ask, jobId=job_text(mail.id))
    one = await groups(ask, cause=found[0]["cause"])

    assert [(group["jobName"], group["message"], group["count"]) for group in found] == [
        ("mail", "no user # in '…'", 2),
        ("report", "no user # in '…'", 1),
        ("mail", "disk full", 1),
    ]
    assert found[0] == {
        "cause": found[0]["cause"],
        "jobId": job_text(mail.id),
        "jobName": "mail",
        "type": "ValueError",
        "message": "no user # in '…'",
        "count": 2,
        "first": to_rfc3339(START),
        "last": to_rfc3339(START + SECOND),
        "sample": execution_text(ids[1]),
    }
    assert {group["jobName"] for group in of_mail} == {"mail"}
    assert one == found[:1]


async def test_single_letters_come_in_pages(ask: Asking, world: World) -> None:
    job = await world.job()
    ids = await killed(world, job, *(f"no user {n}" for n in range(5)), "disk full")
    cause = (await groups(ask))[0]["cause"]

    first = (await ask.client.get("/v1/dead-letters/open", params={"cause": cause, "limit": 3})).json()
    query = {"cause": cause, "limit": 3, "cursor": first["nextCursor"]}
    second = (await ask.client.get("/v1/dead-letters/open", params=query)).json()

    assert [item["executionId"] for item in first["items"] + second["items"]] == [execution_text(run_id) for run_id in ids[4::-1]]
    assert second["nextCursor"] is None
    assert first["items"][0]["error"] == {"type": "ValueError", "message": "no user 4"}


async def test_a_replay_settles_the_letter_and_is_named_by_it(ask: Asking, world: World) -> None:
    letter = (await killed(world, await world.job(), "disk full"))[0]

    made = await ask.post(f"/v1/executions/{execution_text(letter)}/replay", {"payload": {"n": 2}})

    assert (await shown(ask, letter))["replayedAs"] == made["executionId"]
    new = await world.execution(parse_execution_id(made["executionId"]))
    assert (new.state, new.trigger, new.payload) == (State.PENDING, Trigger.REPLAY, '{"n":2}')
    assert await groups(ask) == []
    why = await ask.run(letter)
    assert codes(why) == ["REPLAYED", "GAVE_UP"]
    assert why["summary"] == f"It died, and anna replayed it at 2024-10-04T12:00:01Z as {made['executionId']}."


async def test_a_letter_can_be_replayed_once_more_and_keeps_its_first_replay(ask: Asking, world: World) -> None:
    letter = (await killed(world, await world.job(), "disk full"))[0]

    first = await ask.post(f"/v1/executions/{execution_text(letter)}/replay")
    second = await ask.post(f"/v1/executions/{execution_text(letter)}/replay")

    assert first["executionId"] != second["executionId"]
    assert (await shown(ask, letter))["replayedAs"] == first["executionId"]


async def test_a_replay_under_an_idempotency_key_is_one_replay(ask: Asking, world: World) -> None:
    letter = (await killed(world, await world.job(), "disk full"))[0]

    answers = [
        (await ask.client.post(f"/v1/executions/{execution_text(letter)}/replay", headers={"idempotency-key": "k"})).json()
        for _ in range(2)
    ]

    assert answers[0]["executionId"] == answers[1]["executionId"]
    assert (await shown(ask, letter))["replayedAs"] == answers[0]["executionId"]


async def test_a_letter_is_discarded_once(ask: Asking, world: World) -> None:
    letter = (await killed(world, await world.job(), "disk full"))[0]
    pending = (await world.enqueue(await world.job()))[0]

    first = await ask.post(f"/v1/executions/{execution_text(letter)}/discard")
    world.turn(MINUTE)
    second = await ask.post(f"/v1/executions/{execution_text(letter)}/discard")

    assert first["discardedAt"] == second["discardedAt"] == to_rfc3339(START + SECOND)
    assert await groups(ask) == []
    assert codes(await ask.run(letter)) == ["DISMISSED", "GAVE_UP"]
    assert await refused(ask, f"/v1/executions/{execution_text(pending)}/discard") == (409, "DULY-E232")


async def test_a_retry_that_waits_runs_now(ask: Asking, world: World) -> None:
    run_id, other = await world.enqueue(await world.job(), 2)
    await world.run(Outcome.FAILED)
    world.turn(SECOND)

    hastened = await ask.post(f"/v1/executions/{execution_text(run_id)}/retry")
    await world.promote()
    ready = await world.execution(run_id)
    worker = await world.worker()
    claimed = await world.claimed(worker)
    await world.finish(worker, claimed)

    assert hastened["nextAttemptAt"] == to_rfc3339(START + SECOND)
    assert (ready.state, ready.attempt) == (State.PENDING, 2)
    assert claimed.ids == [run_id]
    assert (await shown(ask, run_id))["latenessMs"] == 0
    assert (await shown(ask, other))["nextAttemptAt"] == to_rfc3339(START + 10 * SECOND)


async def test_a_retry_of_what_is_not_waiting_for_one(ask: Asking, world: World) -> None:
    job = await world.job()
    letter = (await killed(world, job, "disk full"))[0]
    delayed, pending = (await world.enqueue(job, due_in=MINUTE))[0], (await world.enqueue(job))[0]

    replayed = await ask.post(f"/v1/executions/{execution_text(letter)}/retry")

    assert replayed["trigger"] == "replay"
    assert (await shown(ask, letter))["replayedAs"] == replayed["executionId"]
    for run_id in (delayed, pending):
        assert await refused(ask, f"/v1/executions/{execution_text(run_id)}/retry") == (409, "DULY-E231")


# ---------------------------------------------------------------- bulk


async def test_a_dry_run_counts_and_changes_nothing(ask: Asking, world: World) -> None:
    ids = await killed(world, await world.job(), *"abc")

    answer = await bulk(ask, action="replay", match={"state": "DEAD"}, dryRun=True)

    assert answer == {
        "batchId": None,
        "action": "replay",
        "matched": 3,
        "done": 0,
        "skipped": 0,
        "remaining": 3,
        "sample": [execution_text(run_id) for run_id in ids],
    }
    assert sum(group["count"] for group in await groups(ask)) == 3
    assert await raw(world.engine, "SELECT * FROM batches") == []


async def test_all_letters_of_a_cause_are_replayed_once(ask: Asking, world: World) -> None:
    job = await world.job()
    ids = await killed(world, job, "no user 1", "no user 2", "disk full")
    cause = next(group["cause"] for group in await groups(ask) if group["count"] == 2)

    first = await bulk(ask, action="replay", match={"cause": cause})
    again = await bulk(ask, action="replay", match={"cause": cause})

    assert (first["matched"], first["done"], first["skipped"], first["remaining"]) == (2, 2, 0, 0)
    assert (again["matched"], again["done"]) == (0, 0)
    batch = parse_batch_id(first["batchId"])
    replays = [execution for execution in await world.of_job(job) if execution.batch == batch]
    assert [execution.payload for execution in replays] == ['{"for":"no user 1"}', '{"for":"no user 2"}']
    assert {execution.trigger for execution in replays} == {Trigger.REPLAY}
    assert [(await shown(ask, run_id))["replayedAs"] for run_id in ids[:2]] == [execution_text(execution.id) for execution in replays]
    report = (await ask.client.get(f"/v1/batches/{first['batchId']}")).json()
    assert (report["kind"], report["total"], report["executions"]) == ("replay", 2, {"PENDING": 2})


async def test_a_rate_spaces_due_times_and_goes_on_where_it_stopped(ask: Asking, world: World) -> None:
    job = await world.job()
    await killed(world, job, *"abcdef")
    now = world.now

    first = await bulk(ask, action="replay", match={"jobId": job_text(job.id)}, ratePerSec=2, limit=4)
    second = await bulk(ask, batchId=first["batchId"], **{"continue": True})

    assert (first["done"], first["remaining"], second["done"], second["remaining"]) == (4, 2, 2, 0)
    batch = parse_batch_id(first["batchId"])
    due = sorted(execution.due_at - now for execution in await world.of_job(job) if execution.batch == batch)
    assert due == [nth * SECOND // 2 for nth in range(6)]


async def test_after_good_canaries_the_rest_follows(ask: Asking, world: World) -> None:
    job = await world.job()
    await killed(world, job, *"abcd")

    first = await bulk(ask, action="replay", match={"jobId": job_text(job.id)}, canary=2)
    too_early = await refused(ask, "/v1/executions:bulk", batchId=first["batchId"], **{"continue": True})
    await world.run()
    rest = await bulk(ask, batchId=first["batchId"], **{"continue": True})

    assert (first["matched"], first["done"], first["remaining"]) == (4, 2, 2)
    assert too_early == (409, "DULY-E235")
    assert (rest["done"], rest["remaining"]) == (2, 0)
    assert await groups(ask) == []


async def test_after_bad_canaries_somebody_has_to_insist(ask: Asking, world: World) -> None:
    job = await world.job(retry=world.spec().retry)
    await killed(world, job, *"abcd")
    first = await bulk(ask, action="replay", match={"jobId": job_text(job.id)}, canary=2)
    worker = await world.worker()
    claimed = await world.claimed(worker)
    await world.finish(worker, claimed, Outcome.FAILED, only=claimed.ids[:1], state=State.DEAD, retry_at=None)
    await world.finish(worker, claimed, only=claimed.ids[1:])

    answer = await ask.client.post("/v1/executions:bulk", json={"batchId": first["batchId"], "continue": True})
    rest = await bulk(ask, batchId=first["batchId"], **{"continue": "anyway"})

    assert (answer.status_code, answer.json()["code"]) == (409, "DULY-E234")
    assert answer.json()["detail"].startswith("1 of 2 canaries")
    assert (rest["done"], rest["remaining"]) == (2, 0)


async def test_an_abort_cancels_what_has_not_started(ask: Asking, world: World) -> None:
    job = await world.job()
    await killed(world, job, *"abcd")
    made = await bulk(ask, action="replay", match={"jobId": job_text(job.id)}, ratePerSec=1)
    await world.claimed(await world.worker())

    report = await ask.post(f"/v1/batches/{made['batchId']}/abort")
    again = await ask.post(f"/v1/batches/{made['batchId']}/abort")

    assert report["executions"] == {"RUNNING": 1, "CANCELLED": 3}
    assert report == again
    assert report["abortedAt"] is not None
    assert await refused(ask, "/v1/executions:bulk", batchId=made["batchId"], **{"continue": True}) == (409, "DULY-E236")


async def test_an_abort_in_the_middle_of_a_call_leaves_nothing_behind(ask: Asking, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    job = await world.job()
    await killed(world, job, *"abcde")
    monkeypatch.setattr(usecase, "PAGE", 2)
    replay, batches = world.store.letters.replay, []

    async def aborted_before_the_second_page(pairs: Any, *args: Any, **more: Any) -> set[ExecutionId]:
        batches.append(f"batch_{pairs[0][1].batch.hex}")
        if len(batches) == 2:
            # All of it, up to its end, while these are on their way.
            await ask.post(f"/v1/batches/{batches[0]}/abort")
        return await replay(pairs, *args, **more)

    monkeypatch.setattr(world.store.letters, "replay", aborted_before_the_second_page)
    made = await bulk(ask, action="replay", match={"jobId": job_text(job.id)})
    stands = (await ask.client.get(f"/v1/batches/{made['batchId']}")).json()

    assert len(batches) == 2
    assert stands["executions"] == {"CANCELLED": 4}
    assert (made["done"], made["remaining"]) == (4, 1)


async def test_whoever_goes_on_does_not_take_an_abort_back(ask: Asking, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    job = await world.job()
    await killed(world, job, *"abc")
    made = await bulk(ask, action="replay", match={"jobId": job_text(job.id)}, canary=1)
    read = world.store.letters.batch_counts

    async def aborted_meanwhile(id: Any) -> dict[State, int]:
        counts = await read(id)
        monkeypatch.undo()
        await ask.post(f"/v1/batches/{made['batchId']}/abort")
        return {State.SUCCEEDED: sum(counts.values())}

    monkeypatch.setattr(world.store.letters, "batch_counts", aborted_meanwhile)
    answer = await refused(ask, "/v1/executions:bulk", batchId=made["batchId"], **{"continue": True})
    stands = (await ask.client.get(f"/v1/batches/{made['batchId']}")).json()

    assert answer == (409, "DULY-E236")
    assert stands["abortedAt"] is not None
    assert stands["executions"] == {"CANCELLED": 1}


async def test_everything_that_waits_or_runs_is_cancelled(ask: Asking, world: World) -> None:
    job, other = await world.job(), await world.job()
    running = (await world.enqueue(job))[0]
    await world.claimed(await world.worker())
    waiting = [*(await world.enqueue(job, 2)), *(await world.enqueue(job, due_in=MINUTE))]
    spared = (await world.enqueue(other))[0]

    answer = await bulk(ask, action="cancel", match={"jobId": job_text(job.id)})

    assert (answer["matched"], answer["done"], answer["skipped"]) == (4, 4, 0)
    assert await world.states(waiting) == [State.CANCELLED] * 3
    assert (await world.execution(running)).cancel_asked_at is not None
    assert await world.state(spared) is State.PENDING


async def test_retries_and_letters_are_retried_together(ask: Asking, world: World) -> None:
    job = await world.job()
    letter = (await killed(world, job, "disk full"))[0]
    waiting = (await world.enqueue(job))[0]
    await world.run(Outcome.FAILED)
    delayed = (await world.enqueue(job, due_in=MINUTE))[0]

    answer = await bulk(ask, action="retry", match={"jobId": job_text(job.id)})

    assert (answer["matched"], answer["done"], answer["skipped"]) == (3, 2, 1)
    assert (await world.execution(waiting)).next_attempt_at == world.now
    assert (await world.execution(letter)).replayed_as is not None
    assert (await world.execution(delayed)).next_attempt_at == world.now + MINUTE


async def test_letters_are_discarded_by_age_and_by_id(ask: Asking, world: World) -> None:
    ids = await killed(world, await world.job(), *"abcd")

    by_age = await bulk(ask, action="discard", match={"createdBefore": to_rfc3339(START + 2 * SECOND)})
    by_id = await bulk(ask, action="discard", match={"ids": [execution_text(ids[3]), execution_text(ids[0])]})
    after = await bulk(ask, action="discard", match={"createdAfter": to_rfc3339(START + 3 * SECOND)}, dryRun=True)

    assert (by_age["done"], by_id["matched"], by_id["done"], after["matched"]) == (2, 1, 1, 0)
    assert [(await world.execution(run_id)).discarded_at is not None for run_id in ids] == [True, True, False, True]


async def test_a_cancelled_job_is_not_replayed(ask: Asking, world: World) -> None:
    job = await world.job()
    await killed(world, job, *"ab")
    await world.cancel_job(job)

    answer = await bulk(ask, action="replay", match={"jobId": job_text(job.id)})

    assert (answer["matched"], answer["done"], answer["skipped"]) == (2, 0, 2)
    assert len(await groups(ask)) == 2


async def test_successes_of_a_batch_can_be_replayed(ask: Asking, world: World) -> None:
    job = await world.job()
    await killed(world, job, *"ab")
    made = await bulk(ask, action="replay", match={"state": "DEAD"}, payload={"n": 1})
    await world.run()

    again = await bulk(ask, action="replay", match={"batchId": made["batchId"], "state": "SUCCEEDED"})
    of_job = await bulk(ask, action="replay", match={"jobId": job_text(job.id), "state": "SUCCEEDED"}, dryRun=True)

    assert again["done"] == 2
    assert of_job["matched"] == 0
    payloads = Counter(execution.payload for execution in await world.of_job(job) if execution.state is State.PENDING)
    assert payloads == {'{"n":1}': 2}


async def test_what_means_everything_or_nothing_is_refused(ask: Asking, world: World) -> None:
    await killed(world, await world.job(), *"ab")
    path = "/v1/executions:bulk"

    assert await refused(ask, path, action="discard") == (422, "DULY-E133")
    assert await refused(ask, path, action="discard", match={}) == (422, "DULY-E133")
    assert await refused(ask, path, match={"state": "DEAD"}) == (422, "DULY-E106")
    assert await refused(ask, path, action="discard", match={"state": "DEAD"}, canary=1) == (422, "DULY-E106")
    assert await refused(ask, path, action="cancel", match={"state": "DEAD"}, ratePerSec=1) == (422, "DULY-E106")
    assert await refused(ask, path, **{"continue": True}) == (422, "DULY-E106")
    assert await refused(ask, path, batchId=f"batch_{'0' * 32}", **{"continue": True}) == (404, "DULY-E233")
    assert (await bulk(ask, action="discard", everything=True))["done"] == 2


async def test_more_than_a_page_is_done_page_by_page(ask: Asking, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usecase, "PAGE", 3)
    monkeypatch.setattr(usecase, "MOST_PER_CALL", 7)
    job = await world.job()
    run_ids = await world.enqueue(job, 10)
    worker = await world.worker()
    claimed = await world.claimed(worker)
    await world.finish(worker, claimed, Outcome.FAILED, state=State.DEAD, retry_at=None)

    first = await bulk(ask, action="replay", match={"state": "DEAD"}, ratePerSec=1)
    rest = await bulk(ask, batchId=first["batchId"], **{"continue": True})

    assert (first["matched"], first["done"], first["remaining"]) == (10, 7, 3)
    assert (rest["done"], rest["remaining"]) == (3, 0)
    due = sorted(execution.due_at - world.now for execution in await world.of_job(job) if execution.batch is not None)
    assert due == [nth * SECOND for nth in range(10)]
    assert first["sample"] == [execution_text(run_id) for run_id in sorted(run_ids)[:5]]


async def test_nobody_replays_the_letters_of_another_tenant(ask: Asking, world: World) -> None:
    await world.add_tenant(2)
    job = await world.job(tenant=2)
    letter = (await killed(world, job, "a"))[0]

    by_id = await bulk(ask, action="replay", match={"ids": [execution_text(letter)]})
    by_job = await bulk(ask, action="discard", match={"jobId": job_text(job.id)})
    everything = await bulk(ask, action="discard", everything=True)

    assert [answer["matched"] for answer in (by_id, by_job, everything)] == [0, 0, 0]
    assert await refused(ask, f"/v1/executions/{execution_text(letter)}/discard") == (404, "DULY-E205")
    assert await groups(ask) == []


async def test_what_is_settled_goes_with_its_history(ask: Asking, world: World) -> None:
    await killed(world, await world.job(), *"ab")
    await bulk(ask, action="discard", everything=True)
    world.turn(40 * DAY)

    while await world.store.retention.prune(world.now - 30 * DAY, world.now, 1000):
        pass

    assert await raw(world.engine, "SELECT id FROM settled") == []
    assert await raw(world.engine, "SELECT batch FROM batches") == []


# ---------------------------------------------------------------- races


async def test_of_two_who_replay_a_letter_one_does(open_engine: Opener) -> None:
    async with worlds(open_engine, 2) as (here, there):
        job = await here.job()
        letters = await killed(here, job, *(str(n) for n in range(20)))

        def replays(world: World) -> Sequence[tuple[ExecutionId, NewExecution]]:
            return list(zip(letters, world.new_executions(job, len(letters)), strict=True))

        ours, theirs = await asyncio.gather(*(world.store.letters.replay(replays(world), "somebody", here.now) for world in (here, there)))

        assert ours | theirs == set(letters)
        assert ours & theirs == set()
        settled = {(await here.execution(letter)).replayed_as for letter in letters}
        live = {execution.id for execution in await here.of_job(job) if execution.state is State.PENDING}
        assert settled == live


async def test_a_retry_is_hastened_or_promoted_and_runs_once(open_engine: Opener) -> None:
    async with worlds(open_engine, 2) as (here, there):
        ids = await here.enqueue(await here.job(), 20)
        await here.run(Outcome.FAILED)
        await there.own_shards()
        here.turn(10 * SECOND - 1)
        early, due = here.now, here.now + 1

        async def promote() -> None:
            await there.store.schedules.promote(there.epochs, due, 1000)

        await asyncio.gather(here.store.letters.hasten(1, ids, early), promote())
        here.turn(SECOND)
        await there.promote()

        assert await here.states(ids) == [State.PENDING] * 20
