"""Payloads encrypted at rest: the store holds envelopes, whoever may read gets clear text, and nothing can be swapped."""

from __future__ import annotations

import base64
import inspect
import json
import os
import re
from dataclasses import fields
from typing import Any, get_type_hints
from uuid import UUID

import pytest

from duly import config
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.domain.bulk import Match
from duly.domain.errors import Invalid
from duly.domain.fairness import Ask
from duly.domain.job import Job
from duly.domain.lifecycle import State
from duly.domain.limits import Limits, Unique
from duly.ports.letters import Batch
from duly.ports.search import ExecutionSearch, PayloadMatch
from duly.ports.store import ExecutionFilter, Idempotency, JobFilter, Store, WorkerAbout
from duly.usecases.executions import Wanted, headers
from tests.conformance.ledger import raw
from tests.conformance.world import TTL, World

if not os.environ.get("CI"):
    pytest.importorskip("cryptography", reason="pip install 'duly[encryption]'")

from duly.adapters.sealed.cipher import Cipher
from duly.adapters.sealed.store import sealed_store

OLD, NEW = ("old", bytes(range(32))), ("new", bytes(range(32, 64)))
CANARY = "canary-4f1d0a7be3"
PAYLOAD = json.dumps({"card": CANARY, "n": 1})


@pytest.fixture
def clear(world: World) -> Store:
    """The store as it is below the encryption."""
    return world.store


@pytest.fixture
def sealed(world: World, clear: Store) -> World:
    world.store = sealed_store(clear, [OLD])
    return world


async def enqueued(world: World, job: Job, payload: str | None = PAYLOAD, **wanted: Any) -> UUID:
    (new,) = headers(job, [Wanted(payload=payload, **wanted)], world.now, world.chance.getrandbits)
    await world.store.intake.enqueue([new], world.now)
    return new.id


async def claimed(world: World, store: Store, job: Job) -> list[Any]:
    worker = await store.liveness.register("w", WorkerAbout("default"), world.now, TTL)
    found = await store.ready.claim(worker, [Ask(job.version.route, job.version.tenant, 10)], world.now)
    assert found is not None
    (held,) = await store.ready.held_by(worker)
    assert sorted(map(str, held.payloads)) == sorted(map(str, found.payloads))
    return found.payloads


async def test_the_store_holds_envelopes_and_readers_get_clear_text(sealed: World, clear: Store) -> None:
    job = await sealed.job(payload=PAYLOAD)
    own = await enqueued(sealed, job)
    plain = await enqueued(sealed, job, None)

    below = [await clear.insights.execution(1, own), await clear.insights.execution(1, plain), await clear.definitions.job(1, job.id)]
    assert CANARY not in repr(below)
    assert repr(below).count("$sealed") == 3
    assert job.version.spec.payload == PAYLOAD
    for id in (own, plain):
        shown = await sealed.store.insights.execution(1, id)
        assert shown is not None
        assert shown.payload == PAYLOAD
    assert [item.payload for item in await sealed.store.insights.executions(ExecutionFilter(1))] == [PAYLOAD] * 2
    assert [item.version.spec.payload for item in await sealed.store.definitions.jobs(JobFilter(1))] == [PAYLOAD]
    named = await sealed.store.definitions.job_named(1, job.version.spec.name)
    assert named is not None
    assert named.version.spec.payload == PAYLOAD
    versions = await sealed.store.definitions.versions([job.version.number])
    assert versions[job.version.number].spec.payload == PAYLOAD
    assert sorted(map(str, await claimed(sealed, sealed.store, job))) == sorted(map(str, [json.loads(PAYLOAD), None]))


async def test_no_table_has_a_word_of_it(sealed: World) -> None:
    job = await sealed.job(payload=PAYLOAD, limits=Limits(unique=Unique()))
    await enqueued(sealed, job)
    await sealed.change(job, payload=json.dumps({"other": CANARY}))
    await sealed.store.letters.add_batch(Batch(sealed.ids(1)[0], 1, "replay", sealed.now, "me", 1, {"payload": PAYLOAD}))
    await sealed.store.intake.enqueue_once(
        1,
        headers(job, [Wanted(payload=PAYLOAD)], sealed.now, sealed.chance.getrandbits),
        Idempotency("k", b"h", sealed.now + TTL),
        sealed.now,
    )

    listed = (
        "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'duly'"
        if isinstance(sealed.engine, PostgresEngine)
        else "SELECT name FROM sqlite_master WHERE type = 'table'"
    )
    tables = [row["name"] for row in await raw(sealed.engine, listed)]
    found = {table: repr([list(row.values()) for row in await raw(sealed.engine, f"SELECT * FROM {table}")]) for table in tables}
    assert "$sealed" in found["executions"]
    assert [table for table, rows in found.items() if CANARY in rows] == []


async def test_a_new_key_writes_and_the_old_one_still_reads(sealed: World, clear: Store) -> None:
    job = await sealed.job(payload=PAYLOAD)
    before = await enqueued(sealed, job)

    sealed.store = sealed_store(clear, [NEW, OLD])
    after = await enqueued(sealed, job)

    for id in (before, after):
        shown = await sealed.store.insights.execution(1, id)
        assert shown is not None
        assert shown.payload == PAYLOAD
    below = [await clear.insights.execution(1, id) for id in (before, after)]
    assert [json.loads(item.payload or "")["$sealed"]["key"] for item in below if item is not None] == ["old", "new"]

    # Without the old key, what it wrote stays closed and everything else goes on.
    sealed.store = sealed_store(clear, [NEW])
    closed = await sealed.store.insights.execution(1, before)
    assert closed is not None
    assert "$sealed" in (closed.payload or "")
    payloads = await claimed(sealed, sealed.store, job)
    assert [("$sealed" in payload) for payload in payloads].count(True) == 1


async def test_what_was_there_before_encryption_is_read_as_it_is(sealed: World, clear: Store) -> None:
    shut, sealed.store = sealed.store, clear
    job = await sealed.job(payload=PAYLOAD)
    id = await enqueued(sealed, job, '{"n": 2}')

    sealed.store = shut
    shown = await sealed.store.insights.execution(1, id)

    assert shown is not None
    assert shown.payload == '{"n": 2}'
    assert await claimed(sealed, sealed.store, job) == [{"n": 2}]
    assert (await sealed.read(job.id)).version.spec.payload == PAYLOAD


async def test_a_payload_that_was_moved_does_not_open(sealed: World, clear: Store) -> None:
    job = await sealed.job()
    mine, other = await enqueued(sealed, job), await enqueued(sealed, job, '{"n": 2}')
    below = await clear.insights.execution(1, mine)
    assert below is not None
    stolen, cipher = below.payload, Cipher([OLD])

    for tenant, ids in ((1, {"execution": other, "job": job.id}), (2, {"execution": mine}), (1, {"job": mine}), (1, {})):
        assert cipher.open_text(stolen, tenant, ids) == stolen
    assert cipher.open_text(stolen, 1, {"execution": mine}) == PAYLOAD


@pytest.mark.parametrize("change", ["data", "key", "of", "v", "flip", "short"])
def test_a_tampered_envelope_does_not_open(change: str) -> None:
    cipher, id = Cipher([OLD, NEW]), UUID(int=7)
    envelope = json.loads(cipher.seal(PAYLOAD, 1, "execution", id))
    about = envelope["$sealed"]
    data = bytearray(base64.b64decode(about["data"]))
    match change:
        case "flip":
            data[20] ^= 1
            about["data"] = base64.b64encode(data).decode()
        case "short":
            about["data"] = base64.b64encode(data[:10]).decode()
        case "data":
            about["data"] = 7
        case _:
            about[change] = {"key": "new", "of": "job", "v": 2}[change]

    assert cipher.open(envelope, 1, {"execution": id, "job": id}) is None
    assert cipher.open({"$sealed": None}, 1, {"execution": id}) is None


def test_the_same_text_is_never_sealed_the_same_way() -> None:
    cipher = Cipher([OLD])

    assert len({cipher.seal(PAYLOAD, 1, "execution", UUID(int=7)) for _ in range(100)}) == 100


async def test_keys_of_the_payload_count_as_before(sealed: World) -> None:
    job = await sealed.job(limits=Limits(unique=Unique(key=("n",))))

    first = await enqueued(sealed, job, '{"n": 1, "x": "a"}')
    (again,) = headers(job, [Wanted(payload='{"n": 1, "x": "b"}')], sealed.now, sealed.chance.getrandbits)
    report = await sealed.store.intake.enqueue([again], sealed.now)

    assert report.instead == {again.id: first}


async def test_what_is_replayed_is_opened_and_sealed_anew(sealed: World, clear: Store) -> None:
    job = await sealed.job(payload=PAYLOAD)
    own, plain = await enqueued(sealed, job, '{"n": 3}'), await enqueued(sealed, job, None)
    await sealed.store.cancels.cancel(1, [own, plain], "me", sealed.now)

    found, _ = await sealed.store.letters.candidates(1, Match(job_id=job.id), frozenset({State.CANCELLED}), None, 10)
    assert {candidate.id: candidate.payload for candidate in found} == {own: '{"n": 3}', plain: PAYLOAD}

    (new,) = headers(job, [Wanted(payload='{"n": 3}')], sealed.now, sealed.chance.getrandbits)
    assert await sealed.store.letters.replay([(own, new)], "me", sealed.now) == {own}
    below, shown = await clear.insights.execution(1, new.id), await sealed.store.insights.execution(1, new.id)
    assert below is not None
    assert shown is not None
    assert ("$sealed" in (below.payload or ""), shown.payload) == (True, '{"n": 3}')


async def test_a_bulk_action_keeps_its_payload_closed(sealed: World, clear: Store) -> None:
    id = sealed.ids(1)[0]
    await sealed.store.letters.add_batch(Batch(id, 1, "replay", sealed.now, "me", 1, {"payload": PAYLOAD, "match": {}}))

    below, shown = await clear.letters.batch(1, id), await sealed.store.letters.batch(1, id)
    assert below is not None
    assert shown is not None
    assert (CANARY in repr(below), shown.about["payload"]) == (False, PAYLOAD)

    assert await sealed.store.letters.abort_batch(id, sealed.now)
    again = await sealed.store.letters.batch(1, id)
    assert again is not None
    assert again.about == shown.about | {"abortedAt": sealed.now}


@pytest.mark.parametrize(
    "keys", ["a", "a:", ":" + base64.b64encode(bytes(32)).decode(), "a:AAAA", "a:*", "a b:" + base64.b64encode(bytes(32)).decode()]
)
def test_a_malformed_key_is_refused_and_not_shown(keys: str) -> None:
    with pytest.raises(Invalid) as refused:
        config.load({"DULY_PAYLOAD_KEYS": keys})

    assert (refused.value.code, refused.value.field) == ("DULY-E601", "DULY_PAYLOAD_KEYS")
    assert keys.partition(":")[2] == "" or keys.partition(":")[2] not in str(refused.value)


def test_keys_come_in_order_and_are_shown_nowhere() -> None:
    first, second = (base64.b64encode(bytes([n] * 32)).decode() for n in (1, 2))
    settings = config.load({"DULY_PAYLOAD_KEYS": f"b:{first}, a:{second}"})

    assert [name for name, _ in settings.payload_keys] == ["b", "a"]
    assert first not in repr(settings)
    assert settings.veil.over(f"x {first}") != f"x {first}"


# What has a payload in it; and those who are shown one and have no use for it.
CARRIERS = re.compile(r"\b(NewExecution|NewJob|JobSpec|Job|JobVersion|Execution|Candidate|Claimed|Batch|Step)\b")
# A calendar that changes gives its jobs new versions: their payloads go along as they are, closed, and stay where they belong.
IDLE = {("losses", "lose"), ("calendars", "put_calendar")}


def test_no_way_of_a_payload_is_left_open(world: World) -> None:
    """A port that gets a new method for payloads needs it sealed, too."""
    shut = sealed_store(world.store, [OLD])
    open_ways = [
        (port.name, name)
        for port in fields(Store)
        for name, method in inspect.getmembers(get_type_hints(Store)[port.name], inspect.isfunction)
        if not name.startswith("_")
        and any(CARRIERS.search(str(hint)) for hint in method.__annotations__.values())
        and (type(getattr(shut, port.name)).__module__ != sealed_store.__module__ or name not in vars(type(getattr(shut, port.name))))
    ]

    assert set(open_ways) - IDLE == set()


def test_what_is_sealed_takes_what_the_port_takes(world: World) -> None:
    """They are joined by a cast, so no type checker sees it."""
    shut = sealed_store(world.store, [OLD])
    differ = [
        (port.name, name)
        for port in fields(Store)
        for name, method in vars(type(getattr(shut, port.name))).items()
        if type(getattr(shut, port.name)).__module__ == sealed_store.__module__
        and not name.startswith("_")
        and list(inspect.signature(method).parameters)
        != list(inspect.signature(getattr(get_type_hints(Store)[port.name], name)).parameters)
    ]

    assert differ == []


async def test_a_search_opens_what_it_finds_and_looks_into_no_payload(sealed: World) -> None:
    job = await sealed.job(payload=PAYLOAD)
    own = await enqueued(sealed, job)

    step = await sealed.store.search.step(ExecutionSearch(tenant=1, job_id=job.id), None, 10)
    by_ids = await sealed.store.search.by_ids(1, [own])
    waiting = await sealed.store.definitions.changed_jobs(1, 0, 10)

    assert [found.payload for found in (*step.found, *by_ids)] == [PAYLOAD] * 2
    assert [found.version.spec.payload for found in waiting] == [PAYLOAD]
    with pytest.raises(Invalid) as refused:
        await sealed.store.search.step(ExecutionSearch(tenant=1, payload=(PayloadMatch(("n",), "1"),)), None, 10)
    assert refused.value.code == "DULY-E145"
