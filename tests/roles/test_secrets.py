"""Secrets in a worker: in their places while the handler runs, and nowhere afterwards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from duly.adapters.system.vault import Vault
from duly.domain.execution import Execution
from duly.domain.lifecycle import State
from duly.domain.redaction import Veil
from duly.domain.secrets import MASK
from duly.ports.endings import Discard, Failure
from duly.ports.handlers import Attempt, Handler
from duly.usecases.executions import Wanted, headers
from tests.roles.conftest import ACTOR, World, run_until_idle

TOKEN = "canary-5b0c7e1f9a"
PASSWORD = "canary-pass/word+7"
REFERENCES = {"token": {"$secret": "env:DULY_SECRET_TOKEN"}, "deep": [{"password": {"$secret": "file:db/password"}}], "region": "eu"}


@pytest.fixture(autouse=True)
def vault(world: World, tmp_path: Path) -> Veil:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "password").write_text(PASSWORD + "\n")
    veil = Veil()
    world.secrets = Vault({"DULY_SECRET_TOKEN": TOKEN}, str(tmp_path), veil)
    return veil


async def run(world: World, handler: Any, payload: Any = REFERENCES, own: Any = None) -> Execution:
    world.handle("work", handler)
    made = await world.create(payload=own)
    (id,) = await world.enqueue(made, payload=None if payload is None else json.dumps(payload))
    await run_until_idle(await world.worker(), world.clock)
    return await world.show(id)


async def kept(world: World, execution: Execution) -> str:
    """Everything the store has of it."""
    attempts = await world.store.insights.attempts(execution.id)
    logs = await world.store.insights.logs(execution.id, None, 0, 1000)
    return "\n".join(map(repr, (execution, attempts, logs, await world.all(), await world.jobs.named(ACTOR, "job"))))


async def test_the_handler_gets_values_and_the_store_keeps_references(world: World, vault: Veil) -> None:
    seen: list[Any] = []

    async def work(attempt: Attempt) -> Any:
        seen.append(attempt.payload)
        return {"region": "eu"}

    execution = await run(world, work)

    assert seen == [{"token": TOKEN, "deep": [{"password": PASSWORD}], "region": "eu"}]
    assert (execution.state, json.loads(execution.payload or "")) == (State.SUCCEEDED, REFERENCES)
    assert TOKEN not in await kept(world, execution)
    assert vault.over(f"{TOKEN} {PASSWORD}") == f"{MASK} {MASK}", "the process's own log hides them from now on"


async def test_the_payload_of_the_job_is_resolved_for_every_run(world: World) -> None:
    async def work(attempt: Attempt) -> Any:
        return [attempt.payload["token"] == TOKEN, attempt.payload["token"]]

    execution = await run(world, work, None, own=REFERENCES)

    assert json.loads(execution.result or "") == [True, MASK]
    assert TOKEN not in await kept(world, execution)


async def test_whatever_a_handler_says_is_hidden(world: World) -> None:
    async def work(attempt: Attempt) -> Any:
        token = attempt.payload["token"]
        attempt.log("info", f"calling with {token}", {"header": f"Bearer {token}", token: [token]})
        attempt.tell(json.dumps({"at": token}))
        raise ValueError(f"bad token {token}")

    execution = await run(world, work)
    everything = await kept(world, execution)

    assert execution.state is State.SCHEDULED, "it is tried again"
    assert TOKEN not in everything
    assert everything.count(MASK) >= 5


@pytest.mark.parametrize("error", [Failure(f"no {TOKEN}", detail=f"tail {PASSWORD}"), Discard(TOKEN), SystemExit(TOKEN), KeyError(TOKEN)])
async def test_no_end_tells_it(world: World, error: BaseException) -> None:
    async def work(attempt: Attempt) -> Any:
        raise error

    everything = await kept(world, await run(world, work))

    assert TOKEN not in everything
    assert PASSWORD not in everything
    assert MASK in everything


async def test_a_checkpoint_keeps_no_secret(world: World) -> None:
    data: list[str] = []

    async def work(attempt: Attempt) -> Any:
        attempt.keeper = lambda attempt, text: data.append(text)  # type: ignore[assignment,return-value]
        attempt.keep(json.dumps({"token": attempt.payload["token"]}))

    await run(world, work)

    assert json.loads(data[0]) == {"token": MASK}


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("env:DULY_SECRET_OTHER", "not set in this worker's environment"),
        ("env:PATH", "DULY_SECRETS_ENV does not list it"),
        ("file:missing", "No such file"),
        ("file:db", "not a regular file"),
    ],
)
async def test_what_cannot_be_resolved_fails_the_attempt_for_good_and_is_named(world: World, reference: str, why: str) -> None:
    async def work(attempt: Attempt) -> Any:
        raise AssertionError("it must not run")

    execution = await run(world, work, {"token": {"$secret": "env:DULY_SECRET_TOKEN"}, "x": {"$secret": reference}})

    error = json.loads(execution.error or "")
    assert (execution.state, execution.attempt, error["type"]) == (State.DEAD, 1, "SecretNotResolved")
    assert reference in error["message"]
    assert why in error["message"]
    assert TOKEN not in await kept(world, execution)


async def test_a_worker_without_secrets_says_so(world: World) -> None:
    world.secrets = None

    async def work(attempt: Attempt) -> Any:
        return None

    execution = await run(world, work)

    assert "this worker has none" in (execution.error or "")


async def test_a_sealed_payload_is_not_handed_to_a_handler(world: World) -> None:
    ran: list[Any] = []

    async def work(attempt: Attempt) -> Any:
        ran.append(attempt.payload)

    job = await world.create()
    made = headers(job, [Wanted(payload='{"$sealed":{"v":1}}')], world.clock.now(), world.entropy)
    await world.store.intake.enqueue(made, world.clock.now())
    world.handle("work", work)
    await run_until_idle(await world.worker(), world.clock)

    execution = await world.show(made[0].id)
    assert (ran, json.loads(execution.error or "")["type"]) == ([], "PayloadSealed")


async def test_one_of_a_batch_fails_alone(world: World) -> None:
    seen: list[Any] = []

    async def work(attempts: Sequence[Attempt]) -> Any:
        seen.extend(attempt.payload for attempt in attempts)
        return [attempt.payload for attempt in attempts]

    async def one(attempt: Attempt) -> Any:
        return (await work([attempt]))[0]

    world.registry.add(Handler("work", one, run_many=work, batch=4))
    job = await world.create(batch=4)
    ids = [
        (await world.enqueue(job, payload=json.dumps(payload)))[0]
        for payload in ({"$secret": "env:DULY_SECRET_TOKEN"}, {"$secret": "env:MISSING"}, "plain", {"$secret": "file:missing"})
    ]
    worker = await world.worker()
    await run_until_idle(worker, world.clock)

    found = [await world.show(id) for id in ids]
    assert sorted(seen) == [TOKEN, "plain"]
    assert [execution.state for execution in found] == [State.SUCCEEDED, State.DEAD, State.SUCCEEDED, State.DEAD]
    assert [execution.result for execution in found] == [f'"{MASK}"', None, '"plain"', None]
    assert (worker._runners.calls, worker._runners.free) == (0, worker.settings.slots)


async def test_a_batch_of_which_none_can_run_is_not_called(world: World) -> None:
    async def work(attempts: Sequence[Attempt]) -> Any:
        raise AssertionError("it must not run")

    world.registry.add(Handler("work", work, run_many=work, batch=4))  # type: ignore[arg-type]
    job = await world.create(batch=4)
    ids = await world.enqueue(job, 3, payload='{"$secret": "env:MISSING"}')
    worker = await world.worker()
    await run_until_idle(worker, world.clock)

    assert [(await world.show(id)).state for id in ids] == [State.DEAD] * 3
    assert (worker._runners.calls, worker._runners.free) == (0, worker.settings.slots)


async def test_a_default_that_is_a_secret_is_filled_in(world: World) -> None:
    async def work(attempt: Attempt) -> Any:
        return attempt.payload["token"] == TOKEN

    world.registry.add(Handler("work", work, secret_defaults={"token": "env:DULY_SECRET_TOKEN"}))
    job = await world.create()
    without, other = (await world.enqueue(job))[0], (await world.enqueue(job, payload='{"token": "given"}'))[0]
    await run_until_idle(await world.worker(), world.clock)

    assert [(await world.show(id)).result for id in (without, other)] == ["true", "false"]


async def test_what_a_webhook_and_a_command_call_is_resolved_and_the_definition_is_not(world: World) -> None:
    seen: list[Any] = []

    async def call(attempt: Attempt) -> Any:
        seen.append((attempt.target.http, attempt.target.env))

    world.registry.add(Handler("duly.http", call))
    world.registry.add(Handler("duly.shell", call))
    http = {
        "url": "https://example.com/${secret:env:DULY_SECRET_TOKEN}",
        "headers": {"Authorization": "Bearer ${secret:env:DULY_SECRET_TOKEN}"},
        "body": {"password": {"$secret": "file:db/password"}, "text": "${secret:env:DULY_SECRET_TOKEN}"},
    }
    hook = await world.create(name="hook", target={"http": http})
    command = await world.create(name="command", target={"shell": ["true"], "env": {"TOKEN": "${secret:file:db/password}", "A": "b"}})
    for job in (hook, command):
        await world.enqueue(job)
    await run_until_idle(await world.worker(), world.clock)

    called = next(http for http, _ in seen if http is not None)
    env = next(env for http, env in seen if http is None)
    assert called.url == f"https://example.com/{TOKEN}"
    assert called.headers == {"Authorization": f"Bearer {TOKEN}"}
    assert json.loads(called.body) == {"password": PASSWORD, "text": "${secret:env:DULY_SECRET_TOKEN}"}
    assert env == {"TOKEN": PASSWORD, "A": "b"}
    assert hook.version.spec.target.http is not None
    assert TOKEN not in repr(await world.store.definitions.versions([hook.version.number, command.version.number]))


async def test_what_came_in_unchecked_fails_with_words(world: World) -> None:
    async def work(attempt: Attempt) -> Any:
        raise AssertionError("it must not run")

    world.handle("work", work)
    job = await world.create()
    made = headers(job, [Wanted(payload='{"a": {"$secret": 7}}')], world.clock.now(), world.entropy)
    await world.store.intake.enqueue(made, world.clock.now())
    await run_until_idle(await world.worker(), world.clock)

    execution = await world.show(made[0].id)
    assert (execution.state, json.loads(execution.error or "")["type"]) == (State.DEAD, "SecretNotResolved")
