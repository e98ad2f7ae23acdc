"""Keys and sessions on every engine: rotation, last use, the last administrator, and links that work once."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import pytest

from duly.domain.access import Actor, Role
from duly.domain.errors import Conflict, DulyError, Forbidden, NotFound
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND
from duly.domain.lifecycle import Outcome
from duly.domain.sessions import IDLE, LONGEST
from duly.ports.store import WorkerAbout
from duly.roles.doorkeeper import Doorkeeper, DoorkeeperSettings
from duly.usecases.access import TRUSTED_FOR, Access, Keyring
from duly.usecases.sessions import Session, Sessions
from duly.usecases.workers import Leased, Report
from tests.conformance.ledger import raw
from tests.conformance.test_races import Opener, worlds
from tests.conformance.test_workers_over_http import Site, WorldClock
from tests.conformance.world import World

ADMIN = Actor(1, "default", Role.ADMIN, "admin")
STRANGER = Actor(2, "tenant-2", Role.ADMIN, "stranger")


class House:
    """What one node has: who recognises keys and sessions, who keeps them, and who writes down their use."""

    def __init__(self, world: World) -> None:
        self.world = world
        clock = WorldClock(world)
        self.access = Access(world.store.keys, clock)
        self.keyring = Keyring(world.store.keys, clock, secrets.randbits)
        self.sessions = Sessions(world.store.sessions, clock, secrets.randbits)
        uses = (self.access.uses, self.sessions.uses)
        self.doorkeeper = Doorkeeper(world.store.keys, world.store.sessions, *uses, DoorkeeperSettings())

    async def key(self, role: Role = Role.ADMIN, **more: Any) -> tuple[str, str]:
        """(id, secret) of a new key."""
        row, secret = await self.keyring.create(ADMIN, role, "some key", **more)
        return row.id, secret

    async def actor(self, secret: str) -> Actor:
        found = await self.access.recognise(secret)
        assert found is not None
        return found

    async def log_in(self, secret: str, role: Role | None = None) -> Session:
        token, _ = await self.sessions.link(await self.actor(secret), role)
        return await self.sessions.log_in(token)

    async def knows(self, session: Session) -> bool:
        return await self.sessions.recognise(session.id) is not None


@pytest.fixture
def house(world: World) -> House:
    return House(world)


def code_of(error: pytest.ExceptionInfo[DulyError]) -> str:
    return error.value.code


# ---------------------------------------------------------------- rotation


async def test_both_keys_work_until_the_overlap_is_over(house: House) -> None:
    id, secret = await house.key(Role.WORKER, pools=("etl", "mail"))

    old, new, fresh = await house.keyring.rotate(ADMIN, id, HOUR)

    assert (new.role, new.name, new.pools, new.replaces) == ("WORKER", "some key", ("etl", "mail"), id)
    assert (old.expires_at, old.replaced_by) == (house.world.now + HOUR, new.id)
    assert await house.access.recognise(secret)
    assert (await house.actor(fresh)).pools == {"etl", "mail"}
    house.world.turn(HOUR)
    assert await house.access.recognise(secret) is None
    assert await house.access.recognise(fresh)


async def test_a_chain_of_rotations_is_one_family_and_can_be_read(house: House) -> None:
    first, _ = await house.key()
    _, second, _ = await house.keyring.rotate(ADMIN, first, HOUR)
    _, third, secret = await house.keyring.rotate(ADMIN, second.id, HOUR)

    chain = {row.id: (row.replaces, row.replaced_by) for row in await house.keyring.all(ADMIN)}

    assert chain == {first: (None, second.id), second.id: (first, third.id), third.id: (second.id, None)}
    assert (await house.actor(secret)).family == first


async def test_a_key_keeps_the_lifetime_it_was_made_for(house: House) -> None:
    id, _ = await house.key(Role.VIEWER, lasts=90 * DAY)
    house.world.turn(80 * DAY)

    old, new, _ = await house.keyring.rotate(ADMIN, id, 30 * DAY)
    _, other, _ = await house.keyring.rotate(ADMIN, id, 0, MINUTE)

    assert old.expires_at == house.world.now + 10 * DAY
    assert new.expires_at == house.world.now + 90 * DAY
    assert other.expires_at == house.world.now + MINUTE


async def test_another_tenants_key_is_not_there(house: House) -> None:
    await house.world.add_tenant(2)
    id, secret = await house.key()

    for ask in (house.keyring.rotate(STRANGER, id, 0), house.keyring.revoke(STRANGER, id)):
        with pytest.raises(NotFound) as refused:
            await ask
        assert code_of(refused) == "DULY-E225"
    assert await house.access.recognise(secret)


async def test_an_ended_key_is_not_rotated(house: House) -> None:
    id, _ = await house.key(Role.VIEWER)
    await house.keyring.revoke(ADMIN, id)

    with pytest.raises(Conflict) as refused:
        await house.keyring.rotate(ADMIN, id, HOUR)

    assert code_of(refused) == "DULY-E307"
    assert len(await house.keyring.all(ADMIN)) == 1


# ---------------------------------------------------------------- the last administrator


async def test_the_last_admin_key_is_not_revoked(house: House) -> None:
    id, secret = await house.key()
    await house.key(Role.OPERATOR)

    with pytest.raises(Conflict) as refused:
        await house.keyring.revoke(ADMIN, id)

    assert code_of(refused) == "DULY-E306"
    house.world.turn(TRUSTED_FOR)
    assert await house.access.recognise(secret)
    await house.key()
    assert (await house.keyring.revoke(ADMIN, id)).revoked_at is not None


async def test_what_a_rotation_leaves_to_expire_is_no_admin_key_to_rely_on(house: House) -> None:
    id, _ = await house.key()
    _, new, _ = await house.keyring.rotate(ADMIN, id, HOUR)

    with pytest.raises(Conflict):
        await house.keyring.revoke(ADMIN, new.id)
    with pytest.raises(Conflict):
        await house.keyring.rotate(ADMIN, new.id, HOUR, MINUTE)

    assert (await house.keyring.revoke(ADMIN, id)).revoked_at is not None


async def test_another_tenants_admin_does_not_count(house: House) -> None:
    await house.world.add_tenant(2)
    id, _ = await house.key()
    await house.keyring.create(STRANGER, Role.ADMIN, "theirs")

    with pytest.raises(Conflict):
        await house.keyring.revoke(ADMIN, id)

    keys = house.world.store.keys
    assert [await keys.any_admin_key(tenant, house.world.now) for tenant in (1, 2, 3)] == [True, True, False]


async def test_of_two_administrators_who_revoke_one_another_one_stays(open_engine: Opener) -> None:
    async with worlds(open_engine, 2) as (here, there):
        one, other = House(here), House(there)
        for _ in range(5):
            ids = [(await one.key())[0] for _ in range(2)]
            for row in await one.keyring.all(ADMIN):
                if row.id not in ids and row.revoked_at is None:
                    await one.keyring.revoke(ADMIN, row.id)

            ended = await asyncio.gather(one.keyring.revoke(ADMIN, ids[0]), other.keyring.revoke(ADMIN, ids[1]), return_exceptions=True)

            assert sorted(type(answer).__name__ for answer in ended) == ["Conflict", "KeyRow"]
            assert await here.store.keys.any_admin_key(1, here.now)


async def test_expired_keys_administer_nothing(house: House) -> None:
    await house.key(lasts=MINUTE)
    keys = house.world.store.keys
    assert await keys.any_admin_key(1, house.world.now)
    assert await keys.any_key(house.world.now)

    house.world.turn(MINUTE)

    assert not await keys.any_admin_key(1, house.world.now)
    assert not await keys.any_key(house.world.now)


# ---------------------------------------------------------------- last use


async def last_use(house: House, id: str) -> int | None:
    row = await house.world.store.keys.key(id)
    assert row is not None
    return row.last_used_at


async def test_use_is_written_down_afterwards_and_at_most_once_a_minute(house: House) -> None:
    id, secret = await house.key()
    began = house.world.now
    await house.access.recognise(secret)
    assert await last_use(house, id) is None

    assert (await house.doorkeeper.step(house.world.now)).did["keys"] == 1
    written = []
    for _ in range(12):
        house.world.turn(10 * SECOND)
        await house.access.recognise(secret)
        await house.doorkeeper.step(house.world.now)
        written.append(await last_use(house, id))

    assert sorted(set(written)) == [began, began + MINUTE, began + 2 * MINUTE]
    assert written == sorted(written)


async def test_an_unused_key_costs_nothing_and_a_refused_one_was_not_used(house: House) -> None:
    id, secret = await house.key(lasts=MINUTE)
    house.world.turn(HOUR)
    assert await house.access.recognise(secret) is None

    assert (await house.doorkeeper.step(house.world.now)).did == {"keys": 0, "sessions": 0}
    assert await last_use(house, id) is None


async def test_an_older_use_does_not_take_a_younger_ones_place(house: House) -> None:
    id, _ = await house.key()
    keys, now = house.world.store.keys, house.world.now

    await keys.touch_keys({id: now})
    await keys.touch_keys({id: now - 1, "0" * 16: now})

    assert await last_use(house, id) == now


async def test_what_could_not_be_written_is_written_later(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    id, secret = await house.key()
    await house.access.recognise(secret)
    keys = type(house.world.store.keys)
    with monkeypatch.context() as patch:

        async def away(self: object, used: object) -> None:
            raise ConnectionError

        patch.setattr(keys, "touch_keys", away)
        with pytest.raises(ConnectionError):
            await house.doorkeeper.step(house.world.now)
    assert await house.access.recognise(secret)

    await house.doorkeeper.step(house.world.now)

    assert await last_use(house, id) == house.world.now


# ---------------------------------------------------------------- workers


async def test_a_key_opens_its_pools_only(world: World, house: House) -> None:
    site = Site(world)
    _, secret = await house.key(Role.WORKER, pools=("default", "mail"))
    actor = await house.actor(secret)
    for pool in ("default", "etl"):
        await world.enqueue(await world.job(pool=pool))

    with pytest.raises(Forbidden) as refused:
        await site.workers.register(actor, "w", WorkerAbout("etl", handlers=["noop"]), None)
    worker = await site.workers.register(actor, "w", WorkerAbout("default", handlers=["noop"]), None)
    leased = await site.workers.lease(actor, worker, 100, ())

    assert code_of(refused) == "DULY-E304"
    assert leased is not None
    assert {version.spec.target.pool for version in leased.versions.values()} == {"default"}
    assert len(leased.claimed.ids) == 1


async def test_only_its_own_keys_and_an_admin_act_as_a_worker(world: World, house: House) -> None:
    site = Site(world)
    id, secret = await house.key(Role.WORKER)
    _, other = await house.key(Role.WORKER)
    _, admin = await house.key(Role.ADMIN)
    _, _, rotated = await house.keyring.rotate(ADMIN, id, HOUR)
    await world.enqueue(await world.job(), 1)
    worker = await site.workers.register(await house.actor(secret), "w", WorkerAbout("default", handlers=["noop"]), None)
    thief = await house.actor(other)

    for ask in (
        site.workers.heartbeat(thief, worker, None),
        site.workers.lease(thief, worker, 1, ()),
        site.workers.report(thief, worker, []),
        site.workers.log(thief, worker, []),
        site.workers.progress(thief, worker, []),
        site.workers.drain(thief, worker, retire=True),
    ):
        with pytest.raises(Forbidden) as refused:
            await ask
        assert code_of(refused) == "DULY-E305"
    leased = await site.workers.lease(await house.actor(rotated), worker, 1, ())
    assert leased is not None
    report = site_report(leased)
    assert (await site.workers.end(await house.actor(admin), worker, report)).outcome is Outcome.SUCCEEDED


def site_report(leased: Leased) -> Report:
    return Report(id=leased.claimed.ids[0], lease=leased.claimed.lease, outcome=Outcome.SUCCEEDED)


# ---------------------------------------------------------------- sessions


async def test_a_link_works_once(house: House) -> None:
    _, secret = await house.key(Role.OPERATOR)
    token, _ = await house.sessions.link(await house.actor(secret))

    session = await house.sessions.log_in(token)

    assert (session.actor.role, session.actor.tenant, session.actor.channel) == (Role.OPERATOR, 1, "dashboard")
    assert await house.knows(session)
    with pytest.raises(Forbidden) as refused:
        await house.sessions.log_in(token)
    assert code_of(refused) == "DULY-E312"


async def test_of_two_browsers_with_one_link_one_gets_in(open_engine: Opener) -> None:
    async with worlds(open_engine, 2) as (here, there):
        one, other = House(here), House(there)
        _, secret = await one.key()
        for _ in range(5):
            token, _ = await one.sessions.link(await one.actor(secret))

            ended = await asyncio.gather(one.sessions.log_in(token), other.sessions.log_in(token), return_exceptions=True)

            assert sorted(type(answer).__name__ for answer in ended) == ["Forbidden", "Session"]


async def test_a_link_is_good_for_five_minutes(house: House) -> None:
    _, secret = await house.key()
    token, link = await house.sessions.link(await house.actor(secret))
    house.world.turn(5 * MINUTE)

    with pytest.raises(Forbidden):
        await house.sessions.log_in(token)

    assert link.expires_at == house.world.now


async def test_a_session_may_do_less_than_its_key_and_never_more(house: House) -> None:
    _, operator = await house.key(Role.OPERATOR)

    assert (await house.log_in(operator, Role.VIEWER)).actor.role is Role.VIEWER
    with pytest.raises(Forbidden) as refused:
        await house.log_in(operator, Role.ADMIN)
    assert code_of(refused) == "DULY-E303"


async def test_a_session_makes_no_further_session(house: House) -> None:
    _, secret = await house.key()
    session = await house.log_in(secret)

    with pytest.raises(Forbidden) as refused:
        await house.sessions.link(session.actor)

    assert code_of(refused) == "DULY-E313"


@pytest.mark.parametrize("how", ["revoked", "expired", "rotated"])
async def test_links_and_sessions_end_with_their_key(house: House, how: str) -> None:
    await house.key()
    id, secret = await house.key(lasts=HOUR if how == "expired" else None)
    session = await house.log_in(secret)
    token, _ = await house.sessions.link(await house.actor(secret))

    if how == "revoked":
        await house.keyring.revoke(ADMIN, id)
    elif how == "rotated":
        await house.keyring.rotate(ADMIN, id, 0)
    house.world.turn(HOUR if how == "expired" else TRUSTED_FOR)

    assert not await house.knows(session)
    with pytest.raises(Forbidden):
        await house.sessions.log_in(token)


async def test_a_session_is_renewed_by_use_for_a_week(house: House) -> None:
    _, secret = await house.key()
    session = await house.log_in(secret)
    began, lived = house.world.now, 0

    while await house.knows(session):
        await house.doorkeeper.step(house.world.now)
        lived = house.world.now - began
        house.world.turn(IDLE - HOUR)

    assert LONGEST - IDLE <= lived < LONGEST


async def test_an_idle_session_ends(house: House) -> None:
    _, secret = await house.key()
    session = await house.log_in(secret)

    house.world.turn(IDLE - SECOND)
    before = await house.sessions.recognise(session.id, is_use=False)
    house.world.turn(SECOND)

    assert before is not None
    assert before.renew
    assert not await house.knows(session)


async def test_logging_out_ends_one_session(house: House) -> None:
    _, secret = await house.key()
    mine, others = await house.log_in(secret), await house.log_in(secret)

    await house.sessions.log_out(mine.actor, mine.id)

    assert not await house.knows(mine)
    assert await house.knows(others)
    assert mine.csrf_token != others.csrf_token


async def test_a_login_ends_the_session_that_the_browser_had_and_takes_no_id_from_it(house: House) -> None:
    _, secret = await house.key()
    before = await house.log_in(secret)
    await house.knows(before)
    token, _ = await house.sessions.link(await house.actor(secret))

    after = await house.sessions.log_in(token, before.id)

    assert after.id != before.id
    assert not await house.knows(before)
    assert await house.knows(after)


async def test_what_has_ended_is_cleared_away_and_the_rest_stays(house: House) -> None:
    id, secret = await house.key()
    _, other = await house.key()
    sessions = house.world.store.sessions
    dead, alive = await house.log_in(secret), await house.log_in(other)
    await house.sessions.link(await house.actor(secret))
    await house.keyring.revoke(ADMIN, id)

    await sessions.drop_ended(house.world.now)
    house.world.turn(TRUSTED_FOR)

    assert not await house.knows(dead)
    assert await house.knows(alive)
    house.world.turn(IDLE)
    await sessions.drop_ended(house.world.now)
    for table in ("sessions", "login_links"):
        assert await raw(house.world.engine, f"SELECT * FROM {table}") == []


async def test_no_secret_is_in_the_store(house: House) -> None:
    _, secret = await house.key()
    token, _ = await house.sessions.link(await house.actor(secret))
    session = await house.log_in(secret)
    rows = [row for table in ("keys", "sessions", "login_links") for row in await raw(house.world.engine, f"SELECT * FROM {table}")]

    assert len(rows) == 3
    text = repr(rows)
    for hidden in (secret, token, session.id, session.csrf_token):
        assert hidden not in text
        assert hidden.removeprefix("duly_")[12:] not in text
