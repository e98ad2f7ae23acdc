"""The audit trail's chain: made in order, kept as it is, checked link by link, and let go from its old end."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import asyncpg
import msgspec
import pytest

from duly.adapters.sql.audit import append
from duly.adapters.sql.engine import Engine
from duly.adapters.sql.engine_postgres import SCHEMA, PostgresEngine
from duly.adapters.sql.migrate import upgrade
from duly.domain.access import Actor, Role
from duly.domain.audit import Deed
from duly.domain.errors import NotFound, Unavailable
from duly.domain.instants import DAY, SECOND
from duly.ports.audit import AuditFilter
from duly.roles.notary import Notary, NotarySettings
from duly.usecases.audit import AuditTrail, Checked
from duly.wire.audit import audit_view
from tests.conformance.ledger import raw
from tests.conformance.test_model import FaultyInline
from tests.conformance.world import START, World

ME = Actor(1, "default", Role.ADMIN, "me", channel="cli", request_id="req-1", reason="wegen Überlast")
OTHER = Actor(1, "default", Role.OPERATOR, "other")
THEM = Actor(2, "tenant-2", Role.ADMIN, "them")
TRIGGERS = (
    "audit_no_update",
    "audit_no_delete",
    "audit_links_no_update",
    "audit_links_no_delete",
    "audit_heads_grow",
    "audit_heads_no_delete",
)


async def record(world: World, *subjects: str, actor: Actor = ME) -> None:
    """Deeds on these, each in a transaction of its own."""
    for subject in subjects:
        deed = Deed(actor, world.now, "key.create", "key", subject, before={"n": 1.5}, after={"name": f"Schlüssel {subject}"})
        await world.engine.run(lambda deed=deed: append([deed]))


async def link(world: World) -> int:
    return await world.store.audit.link(1000)


async def check(world: World, actor: Actor = ME, limit: int = 10_000) -> Checked:
    return await AuditTrail(world.store.audit).check(actor, limit=limit)


async def tamper(world: World, sql: str) -> None:
    """What somebody does who has the database and its triggers in his hand."""
    if world.engine.name == "postgres":
        await world.engine.script(f"SET LOCAL session_replication_role = replica; {sql};")
    else:
        lines = [*(f"DROP TRIGGER {name}" for name in TRIGGERS), *sql.split("; ")]
        await world.engine.script("".join(f"{line};\n" for line in lines))


async def chained(world: World, count: int = 5) -> list[int]:
    """A chain of that many links; answers the places of their records."""
    await record(world, *(f"k{n}" for n in range(1, count + 1)))
    assert await link(world) == count
    return [listed.record.place for listed in await world.store.audit.records(AuditFilter(1, oldest_first=True))]


async def test_records_are_linked_in_order_and_the_chain_is_whole(world: World) -> None:
    await chained(world)

    found = await world.store.audit.records(AuditFilter(1, oldest_first=True))
    checked = await check(world)

    assert [listed.seq for listed in found] == [1, 2, 3, 4, 5]
    assert [listed.record.subject for listed in found] == ["k1", "k2", "k3", "k4", "k5"]
    assert (checked.broken, checked.checked, checked.waiting, checked.head.seq, checked.head.hash) == (None, 5, 0, 5, found[-1].hash)
    assert await link(world) == 0


async def test_what_is_exported_can_be_checked_without_us(world: World) -> None:
    await chained(world)
    exported = [
        json.loads(msgspec.json.encode(audit_view(listed.record, listed.seq, listed.hash)))
        for listed in await world.store.audit.records(AuditFilter(1, oldest_first=True))
    ]

    previous = bytes(32)
    for line in exported:
        hash = line.pop("hash")
        text = json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        previous = hashlib.sha256(previous + text.encode()).digest()
        assert previous.hex() == hash


async def test_each_tenant_has_a_chain_of_its_own(world: World) -> None:
    await world.add_tenant(2)
    for _ in range(2):
        await record(world, "mine")
        await record(world, "theirs", actor=THEM)
    await link(world)

    mine, theirs = await check(world), await check(world, THEM)

    assert [listed.record.subject for listed in await world.store.audit.records(AuditFilter(2))] == ["theirs", "theirs"]
    assert (mine.head.seq, theirs.head.seq) == (2, 2)
    assert mine.head.hash != theirs.head.hash
    await tamper(world, "UPDATE audit SET actor = 'nobody' WHERE tenant = 2")
    assert (await check(world)).broken is None
    assert (await check(world, THEM)).broken is not None


async def test_a_walk_in_steps_finds_the_same(world: World) -> None:
    places = await chained(world, 7)
    await tamper(world, f"UPDATE audit SET reason = 'other' WHERE place = {places[5]}")
    trail = AuditTrail(world.store.audit)

    steps = [await trail.check(ME, limit=2)]
    while steps[-1].following is not None:
        steps.append(await trail.check(ME, steps[-1].following, limit=2))

    assert [step.checked for step in steps] == [2, 2, 1]
    assert steps[-1].broken is not None
    assert steps[-1].broken.seq == 6


@pytest.mark.parametrize(
    ("sql", "seq", "what"),
    [
        ("UPDATE audit SET after = '{}' WHERE place = {place}", 3, "was changed"),
        ("UPDATE audit SET actor = 'somebody else' WHERE place = {place}", 3, "was changed"),
        ("UPDATE audit SET at = at + 1 WHERE place = {place}", 3, "was changed"),
        ("UPDATE audit SET tenant = 2 WHERE place = {place}", 3, "the record of link 3 was removed"),
        ("DELETE FROM audit WHERE place = {place}", 3, "the record of link 3 was removed"),
        ("DELETE FROM audit WHERE place = {place}; DELETE FROM audit_links WHERE place = {place}", 3, "link 3 was removed"),
        ("UPDATE audit_links SET hash = (SELECT hash FROM audit_heads WHERE tenant = 1) WHERE place = {place}", 3, "was changed"),
        ("DELETE FROM audit WHERE place >= {place}; DELETE FROM audit_links WHERE place >= {place}", 3, "the chain was cut"),
        ("DELETE FROM audit_links WHERE place >= {place}", 3, "the chain was cut"),
        ("UPDATE audit_heads SET hash = anchor_hash", 5, "is not the one that the head names"),
    ],
)
async def test_tampering_is_found_at_its_place(world: World, sql: str, seq: int, what: str) -> None:
    places = await chained(world)

    await tamper(world, sql.replace("{place}", str(places[2])))

    broken = (await check(world)).broken
    assert broken is not None
    assert broken.seq == seq
    assert what in broken.what


async def test_a_record_that_was_slipped_in_is_found(world: World) -> None:
    place = (await chained(world))[2]
    columns = "tenant, at, actor, role, channel, action, kind, subject"
    if world.engine.name == "postgres":
        values = f"SELECT -{place}, xid, {columns} FROM audit WHERE place = {place}"
        await tamper(world, f"INSERT INTO audit (place, xid, {columns}) OVERRIDING SYSTEM VALUE {values}")
    else:
        await tamper(world, f"INSERT INTO audit (place, {columns}) SELECT -{place}, {columns} FROM audit WHERE place = {place}")

    assert await link(world) == 0
    for limit in (2, 100):
        broken = (await check(world, limit=limit)).broken
        assert broken is not None
        assert broken.record is not None
        assert broken.record.place == -place
        assert "was inserted" in broken.what


async def test_a_record_that_was_slipped_in_between_is_found_on_its_page(world: World) -> None:
    places = await chained(world, 9)
    # A link that never was: its record stands there without one, and the numbers close up behind it.
    back = "UPDATE audit_heads SET seq = 8, hash = (SELECT hash FROM audit_links WHERE seq = 8)"
    await tamper(world, f"DELETE FROM audit_links WHERE place = {places[-1]}; {back}")
    trail = AuditTrail(world.store.audit)

    steps = [await trail.check(ME, limit=3)]
    while steps[-1].following is not None:
        steps.append(await trail.check(ME, steps[-1].following, limit=3))

    assert [step.broken is None for step in steps] == [True, True, False]
    assert steps[-1].broken is not None
    assert steps[-1].broken.record is not None
    assert steps[-1].broken.record.place == places[-1]


async def test_a_head_kept_elsewhere_shows_an_end_that_was_cut_off_with_its_head(world: World) -> None:
    places = await chained(world)
    trail, kept = AuditTrail(world.store.audit), (await check(world)).head
    assert await trail.compare(ME, kept.seq, kept.hash) is None

    cut = f"DELETE FROM audit WHERE place >= {places[3]}; DELETE FROM audit_links WHERE seq >= 4"
    await tamper(world, f"{cut}; UPDATE audit_heads SET seq = 3, hash = (SELECT hash FROM audit_links WHERE seq = 3)")
    assert (await check(world)).broken is None, "nothing in the store itself shows it"
    found = await trail.compare(ME, kept.seq, kept.hash)
    await record(world, "new", "newer")
    await link(world)
    grown = await trail.compare(ME, kept.seq, kept.hash)

    assert found is not None
    assert found.what == "the chain was cut: link 5 was kept elsewhere, and it ends with link 3"
    assert grown is not None
    assert grown.what == "link 5 is not the one that was kept elsewhere"


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE audit SET reason = 'other'",
        "DELETE FROM audit",
        "UPDATE audit_links SET seq = seq + 10",
        "DELETE FROM audit_links WHERE seq = 5",
        "UPDATE audit_heads SET seq = 4",
        "UPDATE audit_heads SET hash = anchor_hash",
        "DELETE FROM audit_heads",
    ],
)
async def test_the_store_refuses_to_change_what_is_written(world: World, sql: str) -> None:
    await chained(world)

    with pytest.raises(Exception, match=r"append-only|only grows"):
        await raw(world.engine, sql)

    assert (await check(world)).broken is None


@pytest.mark.parametrize("table", ["audit", "audit_links", "audit_heads"])
async def test_the_store_refuses_to_empty_a_table(migrated_dsn: str, table: str) -> None:
    connection = await asyncpg.connect(migrated_dsn, server_settings={"search_path": SCHEMA})

    with pytest.raises(asyncpg.RestrictViolationError, match="append-only"):
        await connection.execute(f"TRUNCATE {table}")

    await connection.close()


# ---------------------------------------------------------------- the order


async def test_nothing_is_linked_before_what_may_still_come_first(migrated_dsn: str) -> None:
    engine = PostgresEngine(migrated_dsn)
    world = World(engine)
    slow = await asyncpg.connect(migrated_dsn, server_settings={"search_path": SCHEMA})
    columns = "tenant, at, actor, role, channel, action, kind, subject"
    try:
        transaction = slow.transaction()
        await transaction.start()
        await slow.execute(f"INSERT INTO audit ({columns}) VALUES (1, {START}, 'me', 'ADMIN', 'api', 'key.create', 'key', 'slow')")
        await record(world, "quick")

        while_open = await link(world), (await check(world)).waiting
        await transaction.commit()
        afterwards = await link(world)
    finally:
        await slow.close()

    assert while_open == (0, 1)
    assert afterwards == 2
    found = await world.store.audit.records(AuditFilter(1, oldest_first=True))
    assert [(listed.seq, listed.record.subject) for listed in found] == [(1, "slow"), (2, "quick")]
    assert (await check(world)).broken is None
    await engine.close()


async def test_a_store_that_was_restored_on_another_server_goes_on(migrated_dsn: str) -> None:
    engine = PostgresEngine(migrated_dsn)
    world = World(engine)
    await chained(world, 2)
    # There, transactions had far larger numbers; one record had no link yet.
    await tamper(world, "UPDATE audit SET xid = xid + 1000000000000; UPDATE audit_progress SET xid = xid + 1000000000000")
    await record(world, "unlinked")
    await tamper(world, "UPDATE audit SET xid = 1000000000000 WHERE subject = 'unlinked'")

    await record(world, "new")
    assert await link(world) == 2
    await record(world, "newer")
    assert await link(world) == 1

    assert (await check(world)).broken is None
    assert (await check(world)).head.seq == 5
    await engine.close()


async def test_many_may_write_and_link_at_once(open_engine: Callable[[], AbstractAsyncContextManager[Engine]]) -> None:
    async with contextlib.AsyncExitStack() as stack:
        worlds = [World(await stack.enter_async_context(open_engine())) for _ in range(3)]

        async def write(world: World, nth: int) -> None:
            for n in range(20):
                await record(world, f"{nth}-{n}")

        async def notarise(world: World) -> int:
            linked = 0
            for _ in range(20):
                linked += await world.store.audit.link(7)
            return linked

        answers = await asyncio.gather(*(write(world, nth) for nth, world in enumerate(worlds)), *(notarise(world) for world in worlds))
        linked = sum(answer for answer in answers if answer is not None)
        while more := await link(worlds[0]):
            linked += more

        assert linked == 60
        checked = await check(worlds[0])
        assert (checked.broken, checked.checked) == (None, 60)


@pytest.mark.parametrize("commits", [False, True])
@pytest.mark.parametrize("nth", range(3))
async def test_a_crash_while_linking_leaves_a_whole_chain(nth: int, commits: bool) -> None:
    engine = FaultyInline()
    await upgrade(engine)
    world = World(engine)
    await chained(world, 2)
    await record(world, "a", "b", "c")

    engine.arm(nth, commits)
    for _ in range(3):
        with contextlib.suppress(Unavailable):
            await world.store.audit.link(2)
    engine.disarm()
    while await link(world):
        pass

    checked = await check(world)
    assert (checked.broken, checked.checked) == (None, 5)
    await engine.close()


# ---------------------------------------------------------------- the old end


async def test_what_was_kept_long_enough_goes_and_the_rest_is_still_a_chain(world: World) -> None:
    await chained(world, 3)
    kept = (await check(world)).head
    world.turn(10 * DAY)
    await record(world, "young", "younger")
    await link(world)
    await record(world, "unlinked")
    notary = Notary(world.store.audit, NotarySettings(keep=5 * DAY, batch=2))

    while (step := await notary.step(world.now)).did["forgotten"]:
        assert step.did["forgotten"] <= 2

    found = await world.store.audit.records(AuditFilter(1, oldest_first=True))
    checked = await check(world)
    assert [listed.record.subject for listed in found] == ["young", "younger", "unlinked"]
    assert (checked.broken, checked.checked, checked.head.seq) == (None, 3, 6)
    assert (checked.head.anchor_seq, checked.head.anchor_hash, checked.head.anchor_at) == (3, kept.hash, START)
    trail = AuditTrail(world.store.audit)
    assert await trail.compare(ME, 3, kept.hash) is None
    with pytest.raises(NotFound) as refused:
        await trail.compare(ME, 2, kept.hash)
    assert refused.value.code == "DULY-E274"


async def test_the_old_end_stays_where_a_record_is_missing(world: World) -> None:
    places = await chained(world, 4)
    await tamper(world, f"DELETE FROM audit WHERE place = {places[1]}")

    assert await world.store.audit.forget(world.now + DAY, 100) == 1
    assert await world.store.audit.forget(world.now + DAY, 100) == 0

    broken = (await check(world)).broken
    assert broken is not None
    assert broken.what == "the record of link 2 was removed"


async def test_the_notary_rests_when_there_is_nothing_to_do(world: World) -> None:
    notary = Notary(world.store.audit, NotarySettings(batch=2))
    await record(world, "a", "b", "c")

    steps = [await notary.step(world.now) for _ in range(3)]

    assert [step.did["linked"] for step in steps] == [2, 1, 0]
    assert [step.wait < 1 for step in steps] == [True, False, False]


# ---------------------------------------------------------------- reading


@pytest.fixture
async def trail(world: World) -> World:
    """Some records, a second apart."""
    job = (await world.job()).id
    about: list[dict[str, Any]] = [
        {"action": "job.create", "kind": "job", "subject": "job_1", "job_id": job},
        {"action": "job.pause", "kind": "job", "subject": "job_1", "job_id": job},
        {"action": "jobless", "kind": "job", "subject": "job_2"},
        {"action": "execution.run", "kind": "execution", "subject": "run_1", "job_id": job},
    ]
    for nth, fields in enumerate(about):
        deed = Deed(ME if nth % 2 else OTHER, world.now + nth * SECOND, **fields)
        await world.engine.run(lambda deed=deed: append([deed]))
    return world


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, ["execution.run", "jobless", "job.pause", "job.create"]),
        ({"oldest_first": True}, ["job.create", "job.pause", "jobless", "execution.run"]),
        ({"limit": 2}, ["execution.run", "jobless"]),
        ({"action": "job"}, ["jobless", "job.pause", "job.create"]),
        ({"action": "job."}, ["job.pause", "job.create"]),
        ({"action": "job.pause"}, ["job.pause"]),
        ({"action": "ob"}, []),
        ({"action": "job.%"}, []),
        ({"actor": "me"}, ["execution.run", "job.pause"]),
        ({"channel": "api"}, ["jobless", "job.create"]),
        ({"subject": "job_1"}, ["job.pause", "job.create"]),
        ({"subject": "job_1", "oldest_first": True}, ["job.create", "job.pause"]),
        ({"since": START + SECOND, "until": START + 2 * SECOND}, ["jobless", "job.pause"]),
        ({"tenant": 2}, []),
    ],
)
async def test_records_are_found_by_their_fields(trail: World, wanted: dict[str, Any], found: list[str]) -> None:
    records = await trail.store.audit.records(AuditFilter(**{"tenant": 1} | wanted))

    assert [listed.record.action for listed in records] == found


@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize("narrowed", [{}, {"subject": "job_1"}, {"job": True}])
async def test_pages_follow_one_another(trail: World, oldest_first: bool, narrowed: dict[str, Any]) -> None:
    job = (await raw(trail.engine, "SELECT id FROM jobs"))[0]["id"]
    fields = {"job_id": job} if "job" in narrowed else narrowed
    whole = await trail.store.audit.records(AuditFilter(1, oldest_first=oldest_first, **fields))
    paged, past = [], None
    while page := await trail.store.audit.records(AuditFilter(1, oldest_first=oldest_first, past=past, limit=1, **fields)):
        paged += page
        past = page[-1].record.place

    assert paged == whole
    assert len(whole) == {"job_id": 3, "subject": 2}.get(next(iter(fields), ""), 4)
