"""Every route that changes something leaves a record, in the transaction of the change: no change without it, none without a change."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from duly.adapters.sql.engine import Engine
from duly.adapters.sql.migrate import upgrade
from duly.adapters.sql.store import store_on
from duly.domain.access import Role
from duly.domain.instants import SECOND
from duly.domain.lifecycle import State
from duly.http.app import create_api, route_table
from duly.ports.audit import AuditFilter, Listed
from duly.roles.alerter import Alerter, AlerterSettings
from duly.usecases.access import key_id
from tests.api import Silence, services_on
from tests.conformance.ledger import raw
from tests.conformance.test_model import FaultyInline, FaultyPostgres
from tests.http.conftest import ADMIN, OPERATOR, URL, WORKER, Bench, HandClock, NotedHints, key_row

ECHO = {"target": {"handler": "duly.echo"}}
ICS = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20261225\nSUMMARY:Christmas Day\nEND:VEVENT\nEND:VCALENDAR"

Ask = tuple[str, Any]
Given = Callable[[Bench], Awaitable[Ask]]


@pytest.fixture
async def bench(engine: Engine) -> Bench:
    return await bench_on(engine)


async def bench_on(engine: Engine) -> Bench:
    """An API over the engine's store, with keys."""
    store, clock = store_on(engine), HandClock()
    hints = NotedHints(clock)
    numbers = itertools.count(1)
    for secret, role in ((ADMIN, Role.ADMIN), (OPERATOR, Role.OPERATOR), (WORKER, Role.WORKER)):
        await store.keys.add_key(key_row(secret, role, tenant=1))
    services = services_on(store, clock, lambda bits: next(numbers) & ((1 << bits) - 1), hints)
    return Bench(create_api(services), services, store, clock, hints, [], [])


async def nothing(bench: Bench, path: str, body: Any = None) -> Ask:
    return path, body


async def hourly(bench: Bench) -> str:
    return await bench.job(name="hourly", intervalSec=3600, anchorAt="2026-01-01T00:00:00Z")


async def rescheduled(bench: Bench) -> Ask:
    job = await bench.job(name="nightly", schedule="0 0 * * *")
    return "/v1/jobs:reschedule", {"moves": [{"jobId": job, "before": "0 0 * * *", "after": "7 0 * * *"}]}


async def ended(bench: Bench, state: State) -> str:
    run = await bench.enqueue(await bench.job(name=f"ended-{state.name.lower()}"))
    await bench.finish(await bench.claim(), state=state, error='{"type":"E","message":"x"}' if state is State.DEAD else None)
    return run


def on_job(suffix: str = "", body: Any = None, *, before: str | None = None) -> Given:
    async def given(bench: Bench) -> Ask:
        job = await hourly(bench)
        if before is not None:
            assert (await bench.client(ADMIN).post(f"/v1/jobs/{job}/{before}")).status_code == 200
        return f"/v1/jobs/{job}{suffix}", body

    return given


def on_run(suffix: str, *, state: State | None = None) -> Given:
    async def given(bench: Bench) -> Ask:
        run = await bench.enqueue(await bench.job()) if state is None else await ended(bench, state)
        return f"/v1/executions/{run}{suffix}", None

    return given


def plain(path: str, body: Any = None) -> Given:
    return lambda bench: nothing(bench, path, body)


async def a_batch(bench: Bench) -> Ask:
    return f"/v1/batches/{await bench.batch()}/abort", None


async def a_bulk_cancel(bench: Bench) -> Ask:
    job = await bench.job()
    await bench.enqueue(job)
    return "/v1/executions:bulk", {"action": "cancel", "match": {"jobId": job}}


async def a_calendar(bench: Bench) -> Ask:
    assert (await bench.client(ADMIN).put("/v1/calendars/de", json={"businessDays": ["MON"]})).status_code == 200
    return "/v1/calendars/de", None


def on_flow(suffix: str, body: Any = None, *, before: str | None = None, ended: bool = False) -> Given:
    """A run of a workflow that waits for somebody's yes, and for a signal."""

    async def given(bench: Bench) -> Ask:
        steps = [{"name": "work", "target": {"handler": "duly.echo"}}]
        waits = [{"name": "release", "approval": {}}, {"name": "paid", "signal": {"name": "payment"}}]
        job = await bench.client(ADMIN).post("/v1/jobs", json={"name": "flow", "steps": steps if ended else [*steps, *waits]})
        assert job.status_code == 201, job.text
        run = await bench.enqueue(job.json()["jobId"])
        await bench.services.workflows._conductor.begin(bench.clock.now(), 10)
        if ended:
            await bench.client(ADMIN).post(f"/v1/executions/{run}/cancel")
        if before is not None:
            assert (await bench.client(ADMIN).post(f"/v1/executions/{run}{before}")).status_code == 200
        return f"/v1/executions/{run}{suffix}", body

    return given


HOOK = {"kind": "webhook", "url": "https://ops.example.com/canary"}


def set_before(path: str, body: Any, suffix: str = "", asks: Any = None) -> Given:
    """On something that was set."""

    async def given(bench: Bench) -> Ask:
        assert (await bench.client(ADMIN).put(path, json=body)).status_code == 200
        return f"{path}{suffix}", asks

    return given


async def an_incident(bench: Bench) -> Ask:
    assert (await bench.client(ADMIN).put("/v1/alert-rules/x", json={"kind": "final_failure"})).status_code == 200
    bench.clock.turn(SECOND)
    await ended(bench, State.DEAD)
    store = bench.store
    await Alerter("a", store.alerts, store.figures, store.calendars, Silence(), lambda bits: 7, AlerterSettings()).step(bench.clock.now())
    (found,) = (await bench.client(ADMIN).get("/v1/alerts")).json()["items"]
    return f"/v1/alerts/{found['incidentId']}/snooze", {"forSec": 3600}


async def a_link(bench: Bench) -> Ask:
    made = await bench.client(ADMIN).post("/v1/links", json={"kind": "calendar"})
    assert made.status_code == 201, made.text
    return f"/v1/links/{made.json()['linkId']}", None


# By method and path: what stands there, what is sent, and the actions that are recorded of it.
DEEDS: dict[tuple[str, str], tuple[Given, list[str]]] = {
    ("POST", "/v1/jobs"): (plain("/v1/jobs", {"name": "new", "payload": {"token": "canary"}, **ECHO}), ["job.create"]),
    ("POST", "/v1/jobs:batch"): (
        plain("/v1/jobs:batch", {"jobs": [{"name": "one", **ECHO}, {"name": "two", **ECHO}]}),
        ["job.create", "job.create"],
    ),
    ("POST", "/v1/jobs:reschedule"): (rescheduled, ["job.change"]),
    ("PUT", "/v1/jobs/{jobId}"): (
        on_job("", {"name": "hourly", "intervalSec": 60, "payload": {"token": "canary"}, **ECHO}),
        ["job.change"],
    ),
    ("DELETE", "/v1/jobs/{jobId}"): (on_job(), ["job.cancel"]),
    ("POST", "/v1/jobs/{jobId}/pause"): (on_job("/pause", {"reason": "full"}), ["job.pause"]),
    ("POST", "/v1/jobs/{jobId}/resume"): (on_job("/resume", before="pause"), ["job.resume"]),
    ("POST", "/v1/jobs/{jobId}/skip"): (on_job("/skip"), ["job.skip"]),
    ("POST", "/v1/jobs/{jobId}/unskip"): (on_job("/unskip", before="skip"), ["job.unskip"]),
    ("POST", "/v1/jobs/{jobId}/run"): (on_job("/run"), ["execution.run"]),
    ("POST", "/v1/jobs/{jobId}/executions"): (on_job("/executions", {"payload": {"token": "canary"}}), ["execution.enqueue"]),
    ("POST", "/v1/jobs/{jobId}/executions:batch"): (on_job("/executions:batch", {"executions": [{}] * 7}), ["execution.enqueue"]),
    ("POST", "/v1/jobs/{jobId}/backfill"): (
        on_job("/backfill", {"from": "2026-01-02T00:00:00Z", "to": "2026-01-02T05:00:00Z"}),
        ["batch.create", "execution.backfill"],
    ),
    ("POST", "/v1/executions/{executionId}/cancel"): (on_run("/cancel"), ["execution.cancel"]),
    ("POST", "/v1/executions/{executionId}/replay"): (on_run("/replay", state=State.SUCCEEDED), ["execution.replay"]),
    ("POST", "/v1/executions/{executionId}/discard"): (on_run("/discard", state=State.DEAD), ["execution.discard"]),
    ("POST", "/v1/executions/{executionId}/retry"): (on_run("/retry", state=State.DEAD), ["execution.replay"]),
    ("POST", "/v1/executions/{executionId}/approve"): (on_flow("/approve", {"step": "release"}), ["execution.approve"]),
    ("POST", "/v1/executions/{executionId}/reject"): (on_flow("/reject", {"step": "release"}), ["execution.reject"]),
    ("POST", "/v1/executions/{executionId}/signal"): (on_flow("/signal", {"name": "payment"}), ["execution.signal"]),
    ("POST", "/v1/executions/{executionId}/pause"): (on_flow("/pause"), ["execution.pause"]),
    ("POST", "/v1/executions/{executionId}/resume"): (on_flow("/resume", before="/pause"), ["execution.resume"]),
    ("POST", "/v1/executions/{executionId}/rerun"): (on_flow("/rerun", {}, ended=True), ["execution.rerun"]),
    ("POST", "/v1/executions:bulk"): (a_bulk_cancel, ["batch.create", "execution.cancel"]),
    ("POST", "/v1/batches/{batchId}/abort"): (a_batch, ["batch.abort"]),
    ("POST", "/v1/keys"): (plain("/v1/keys", {"role": "VIEWER", "name": "eyes"}), ["key.create"]),
    ("DELETE", "/v1/keys/{keyId}"): (plain(f"/v1/keys/{key_id(OPERATOR)}"), ["key.revoke"]),
    ("POST", "/v1/keys/{keyId}/rotate"): (plain(f"/v1/keys/{key_id(OPERATOR)}/rotate", {"overlapSec": 60}), ["key.rotate"]),
    ("POST", "/v1/sessions/link"): (plain("/v1/sessions/link", {"role": "VIEWER"}), ["session.link"]),
    ("POST", "/v1/tenants"): (plain("/v1/tenants", {"name": "acme", "weight": 200}), ["tenant.create"]),
    ("PUT", "/v1/tenants/{tenant}"): (plain("/v1/tenants/default", {"weight": 7, "quotas": {"maxJobs": 50}}), ["tenant.change"]),
    ("POST", "/v1/tenants/{tenant}/keys"): (plain("/v1/tenants/default/keys", {"role": "VIEWER", "name": "eyes"}), ["key.create"]),
    ("PUT", "/v1/calendars/{name}"): (plain("/v1/calendars/de", {"businessDays": ["MON"]}), ["calendar.set"]),
    ("DELETE", "/v1/calendars/{name}"): (a_calendar, ["calendar.delete"]),
    ("POST", "/v1/calendars/{name}/import"): (plain("/v1/calendars/de/import", {"ics": ICS}), ["calendar.set"]),
    ("PUT", "/v1/alert-channels/{name}"): (plain("/v1/alert-channels/ops", HOOK), ["alert_channel.set"]),
    ("DELETE", "/v1/alert-channels/{name}"): (set_before("/v1/alert-channels/ops", HOOK), ["alert_channel.delete"]),
    ("PUT", "/v1/alert-rules/{name}"): (plain("/v1/alert-rules/x", {"kind": "final_failure"}), ["alert_rule.set"]),
    ("DELETE", "/v1/alert-rules/{name}"): (set_before("/v1/alert-rules/x", {"kind": "final_failure"}), ["alert_rule.delete"]),
    ("POST", "/v1/alert-rules/{name}/snooze"): (
        set_before("/v1/alert-rules/x", {"kind": "final_failure"}, "/snooze", {"forSec": 3600}),
        ["alert_rule.snooze"],
    ),
    ("POST", "/v1/alerts/{incidentId}/snooze"): (an_incident, ["alert.snooze"]),
    ("POST", "/v1/links"): (plain("/v1/links", {"kind": "calendar"}), ["link.create"]),
    ("DELETE", "/v1/links/{linkId}"): (a_link, ["link.revoke"]),
}
# What changes nothing: a question with a body, and a word to somebody's channel, whose record tests/http/test_audit.py looks for.
QUESTIONS = {("POST", "/v1/schedules/preview"), ("POST", "/v1/alert-rules/preview"), ("POST", "/v1/alert-channels/{name}/test")}
# Without a key: a test of their own.
OF_BROWSERS = {("POST", "/login"), ("POST", "/logout")}
# A second time they do nothing, whoever asks.
HARMLESS_TWICE = [
    ("DELETE", "/v1/jobs/{jobId}"),
    ("POST", "/v1/jobs/{jobId}/pause"),
    ("POST", "/v1/jobs/{jobId}/resume"),
    ("POST", "/v1/jobs/{jobId}/unskip"),
    ("POST", "/v1/executions/{executionId}/cancel"),
    ("POST", "/v1/executions/{executionId}/discard"),
    ("POST", "/v1/batches/{batchId}/abort"),
    ("DELETE", "/v1/keys/{keyId}"),
    ("PUT", "/v1/calendars/{name}"),
    ("POST", "/v1/calendars/{name}/import"),
    ("PUT", "/v1/alert-channels/{name}"),
    ("PUT", "/v1/alert-rules/{name}"),
]
# What they made has a secret that is kept nowhere.
SHOWN_ONCE = [
    ("POST", "/v1/keys"),
    ("POST", "/v1/keys/{keyId}/rotate"),
    ("POST", "/v1/tenants"),
    ("POST", "/v1/tenants/{tenant}/keys"),
    ("POST", "/v1/links"),
    ("POST", "/v1/sessions/link"),
]
IDEMPOTENT = [
    (declared.method, declared.path) for declared in route_table().routes if declared.idempotent and declared.role is not Role.WORKER
]


async def records(bench: Bench, tenant: int = 1) -> list[Listed]:
    """Oldest first."""
    return await bench.store.audit.records(AuditFilter(tenant, oldest_first=True, limit=10_000))


async def send(bench: Bench, method: str, path: str, body: Any, **headers: str) -> httpx.Response:
    about = {"x-request-id": "req-of-the-test", **headers}
    return await bench.client(ADMIN).request(method, path, headers=about, **({} if body is None else {"json": body}))


def test_every_route_that_changes_something_is_tried_here() -> None:
    changing = {(declared.method, declared.path) for declared in route_table().routes if declared.method != "GET"}
    protocol = {(declared.method, declared.path) for declared in route_table().routes if declared.role is Role.WORKER}

    assert changing - protocol - QUESTIONS - OF_BROWSERS == DEEDS.keys()


async def test_a_browser_leaves_records_of_its_way_in_and_out(bench: Bench, engine: Engine) -> None:
    link = (await bench.client(ADMIN).post("/v1/sessions/link", json={"role": "VIEWER"})).json()["url"]
    token, browser = {"token": link.partition("=")[2]}, bench.client(None)
    before = len(await records(bench))
    async with refusing(engine, ["audit"]):
        assert (await browser.post("/login", data=token)).status_code == 500

    assert (await browser.post("/login", data=token, headers={"x-request-id": "req-in"})).status_code == 303
    assert (await browser.post("/login", data=token)).status_code == 403
    own = {"origin": URL, "x-csrf-token": (await browser.get("/v1/session")).json()["csrfToken"]}
    about = {"x-request-id": "req-out", "duly-channel": "cli", "duly-reason": "lunch"}
    assert (await browser.post("/logout", headers=own | about)).status_code == 204
    assert (await bench.client(ADMIN).post("/logout")).status_code == 204

    left = [listed.record for listed in (await records(bench))[before:]]
    assert [(record.action, record.request_id, record.reason) for record in left] == [
        ("session.begin", "req-in", None),
        ("session.end", "req-out", "lunch"),
    ]
    # Whoever holds a session is known to come by it, whatever its header says.
    assert {(record.actor, record.role, record.channel) for record in left} == {(key_id(ADMIN), "VIEWER", "dashboard")}
    assert token["token"] not in str(left)


@pytest.mark.parametrize("route", DEEDS, ids=" ".join)
async def test_a_change_leaves_its_record(bench: Bench, route: tuple[str, str]) -> None:
    given, actions = DEEDS[route]
    path, body = await given(bench)
    before = len(await records(bench))

    answer = await send(bench, route[0], path, body, **{"duly-channel": "cli", "duly-reason": "caf%C3%A9"})

    assert answer.status_code < 300, answer.text
    left = [listed.record for listed in (await records(bench))[before:]]
    assert [record.action for record in left] == actions
    for record in left:
        assert (record.actor, record.role, record.channel, record.request_id) == (key_id(ADMIN), "ADMIN", "cli", "req-of-the-test")
        assert record.reason == "café"
        assert record.at == bench.clock.now()
        assert "canary" not in f"{record.before}{record.after}"


@pytest.mark.parametrize("route", DEEDS, ids=" ".join)
async def test_without_a_record_there_is_no_change(bench: Bench, engine: Engine, route: tuple[str, str]) -> None:
    path, body = await DEEDS[route][0](bench)
    before = await everything(engine)

    async with refusing(engine, ["audit"]):
        answer = await send(bench, route[0], path, body)

    assert answer.status_code == 500
    assert await everything(engine) == before


@pytest.mark.parametrize("route", DEEDS, ids=" ".join)
async def test_without_a_change_there_is_no_record(bench: Bench, engine: Engine, route: tuple[str, str]) -> None:
    path, body = await DEEDS[route][0](bench)
    before = await everything(engine)

    async with refusing(engine, [name for name in before if not name.startswith("audit")]):
        answer = await send(bench, route[0], path, body)

    assert answer.status_code == 500
    assert await everything(engine) == before


@pytest.mark.parametrize("route", IDEMPOTENT, ids=" ".join)
async def test_a_repeat_under_the_same_key_leaves_none(bench: Bench, route: tuple[str, str]) -> None:
    path, body = await DEEDS[route][0](bench)
    first = await send(bench, route[0], path, body, **{"idempotency-key": "once"})
    before = len(await records(bench))

    again = await send(bench, route[0], path, body, **{"idempotency-key": "once"})

    assert first.status_code in (200, 201)
    assert again.status_code == (409 if route in SHOWN_ONCE else first.status_code), again.text
    assert len(await records(bench)) == before


@pytest.fixture(params=["sqlite", "postgres"])
async def faulty(request: pytest.FixtureRequest) -> AsyncIterator[FaultyInline | FaultyPostgres]:
    """A store whose answers get lost."""
    engine = FaultyInline() if request.param == "sqlite" else FaultyPostgres(request.getfixturevalue("migrated_dsn"))
    await upgrade(engine)
    yield engine
    await engine.close()


@pytest.mark.parametrize("commits", [False, True], ids=["before the commit", "after the commit"])
@pytest.mark.parametrize(
    "route",
    [
        ("POST", "/v1/jobs"),
        ("POST", "/v1/jobs/{jobId}/pause"),
        ("POST", "/v1/jobs/{jobId}/executions"),
        ("POST", "/v1/executions/{executionId}/cancel"),
        ("POST", "/v1/executions/{executionId}/discard"),
        ("PUT", "/v1/calendars/{name}"),
    ],
    ids=" ".join,
)
async def test_a_call_that_is_repeated_after_a_crash_leaves_one_record(
    faulty: FaultyInline | FaultyPostgres, route: tuple[str, str], commits: bool
) -> None:
    bench = await bench_on(faulty)
    given, actions = DEEDS[route]
    path, body = await given(bench)
    before = len(await records(bench))

    lost = 0
    for nth in range(6):
        faulty.arm(nth, commits)
        answer = await send(bench, route[0], path, body, **{"idempotency-key": "once"})
        faulty.disarm()
        lost += answer.status_code == 503
    answer = await send(bench, route[0], path, body, **{"idempotency-key": "once"})

    assert lost > 0
    assert answer.status_code < 300, answer.text
    assert [listed.record.action for listed in (await records(bench))[before:]] == actions


@pytest.mark.parametrize("route", HARMLESS_TWICE, ids=" ".join)
async def test_what_is_so_already_leaves_none(bench: Bench, route: tuple[str, str]) -> None:
    given, actions = DEEDS[route]
    path, body = await given(bench)
    before = len(await records(bench))

    answers = [await send(bench, route[0], path, body) for _ in range(2)]

    assert [answer.status_code < 300 for answer in answers] == [True, True]
    assert [listed.record.action for listed in (await records(bench))[before:]] == actions


@pytest.mark.parametrize(
    ("route", "more"),
    [
        (("POST", "/v1/executions:bulk"), {"dryRun": True}),
        (("POST", "/v1/jobs/{jobId}/backfill"), {"dryRun": True}),
        (("POST", "/v1/calendars/{name}/import"), {"dryRun": True}),
        (("POST", "/v1/jobs"), {"name": "§"}),
        (("PUT", "/v1/jobs/{jobId}"), {"intervalSec": -1}),
        (("POST", "/v1/keys"), {"role": "KING"}),
    ],
)
async def test_a_dry_run_or_a_refusal_leaves_none(bench: Bench, route: tuple[str, str], more: dict[str, Any]) -> None:
    path, body = await DEEDS[route][0](bench)
    before = len(await records(bench))

    await send(bench, route[0], path, body | more)

    assert len(await records(bench)) == before


async def test_a_worker_drained_by_somebody_else_is_recorded_and_its_own_word_is_not(bench: Bench) -> None:
    def ask(secret: str, path: str) -> Awaitable[httpx.Response]:
        return bench.client(secret).post(path, json={"name": "w", "handlers": ["noop"]} if path == "/v1/workers" else {})

    own, other = [(await ask(WORKER, "/v1/workers")).json()["workerId"] for _ in range(2)]
    before = len(await records(bench))
    for secret, worker in ((WORKER, own), (ADMIN, other), (ADMIN, other)):
        assert (await ask(secret, f"/v1/workers/{worker}/drain")).status_code == 200

    left = [listed.record for listed in (await records(bench))[before:]]
    assert [(record.action, record.subject) for record in left] == [("worker.drain", other)]


async def test_a_record_says_what_changed(bench: Bench) -> None:
    client = bench.client(ADMIN)
    job = await bench.job(name="mail", intervalSec=60, payload={"token": "old"})
    changed = {"name": "mail", "intervalSec": 90, "payload": {"token": "new"}, "timeoutSec": 5, **ECHO}
    assert (await client.put(f"/v1/jobs/{job}", json=changed)).status_code == 200
    assert (await client.post(f"/v1/jobs/{job}/pause", json={"reason": "the disks are full"})).status_code == 200
    many = await client.post(f"/v1/jobs/{job}/executions:batch", json={"executions": [{}] * 7})

    made, change, pause, enqueue = [listed.record for listed in await records(bench)]

    hidden = "(withheld)"
    assert json.loads(made.after or "")["target"] == {"pool": "default", "handler": "duly.echo"}
    assert json.loads(change.before or "") == {"version": 1, "intervalSec": 60.0, "timeoutSec": None, "payload": hidden}
    assert json.loads(change.after or "") == {"version": 2, "intervalSec": 90.0, "timeoutSec": 5.0, "payload": hidden}
    assert (pause.reason, json.loads(pause.before or ""), json.loads(pause.after or "")) == (
        "the disks are full",
        {"state": "ACTIVE"},
        {"state": "PAUSED", "pauseReason": "the disks are full"},
    )
    first = [item["executionId"] for item in many.json()["items"]][:5]
    assert (enqueue.kind, enqueue.subject, json.loads(enqueue.after or "")) == ("job", job, {"count": 7, "first": first})


async def test_a_target_is_recorded_without_what_it_carries(bench: Bench) -> None:
    url = "https://user:canary@example.com/hooks/canary?token=canary"
    hook = {"http": {"url": url, "headers": {"X-Token": "canary"}, "body": {"key": "canary"}}}
    job = await bench.job(name="hook", target=hook)
    shell = {"name": "hook", "target": {"shell": ["curl", "-H", "canary"]}}
    assert (await bench.client(ADMIN).put(f"/v1/jobs/{job}", json=shell)).status_code == 200

    made, change = [listed.record for listed in await records(bench)]

    told = {"pool": "default", "http": {"method": "POST", "host": "example.com", "headers": ["X-Token"]}}
    assert json.loads(made.after or "")["target"] == json.loads(change.before or "")["target"] == told
    assert json.loads(change.after or "")["target"] == {"pool": "default", "shell": ["curl", "(withheld)"]}
    assert "canary" not in f"{made} {change}"


async def test_what_a_unique_key_turns_away_is_not_recorded(bench: Bench) -> None:
    job = await bench.job(name="once", unique={"key": ["user"]})
    path = f"/v1/jobs/{job}/executions"
    one, two = {"payload": {"user": 1}}, {"payload": {"user": 2}}
    for body in (one, one):
        assert (await bench.client(ADMIN).post(path, json=body)).status_code == 201
    both = await bench.client(ADMIN).post(f"{path}:batch", json={"executions": [one, two]})
    assert both.status_code == 201

    left = [listed.record for listed in (await records(bench))[1:]]

    assert [record.action for record in left] == ["execution.enqueue"] * 2
    assert json.loads(left[1].after or "") == {"executionId": both.json()["items"][1]["executionId"]}


# ---------------------------------------------------------------- the store beside the ports

_TABLES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
    "postgres": "SELECT c.relname AS name FROM pg_class c WHERE c.relnamespace = 'duly'::regnamespace AND c.relkind = 'r' ORDER BY 1",
}


async def everything(engine: Engine) -> dict[str, list[str]]:
    """Every row of every table, but for the routes: they are names, and stay."""
    names = [row["name"] for row in await raw(engine, _TABLES[engine.name])]
    return {name: sorted(map(str, await raw(engine, f"SELECT * FROM {name}"))) for name in names if name != "routes"}


@asynccontextmanager
async def refusing(engine: Engine, tables: Sequence[str]) -> AsyncIterator[None]:
    """For as long as the block lasts, the store changes nothing in these tables."""
    if engine.name == "sqlite":
        names = [(f"refused_{table}_{word}", word, table) for table in tables for word in ("INSERT", "UPDATE", "DELETE")]
        for name, word, table in names:
            await raw(engine, f"CREATE TRIGGER {name} BEFORE {word} ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END")
        yield
        for name, _, _ in names:
            await raw(engine, f"DROP TRIGGER {name}")
        return
    await raw(engine, "CREATE FUNCTION refused() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$")
    for table in tables:
        await raw(engine, f"CREATE TRIGGER refused BEFORE INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION refused()")
    yield
    await raw(engine, "DROP FUNCTION refused CASCADE")
