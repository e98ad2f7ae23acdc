"""The life of a key: rotation keeps what it was, and a tenant never loses its last administrator."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.access import Actor, Role
from duly.domain.errors import Conflict, Invalid
from duly.domain.instants import DAY, HOUR, MINUTE
from duly.domain.keys import KeyRow, Minted, check_pools, check_revocation, check_rotation, rotated, shown_prefix
from duly.domain.sessions import IDLE, LONGEST, SessionRow

NOW = 20_000 * DAY
KEY = KeyRow("a" * 16, 1, "default", "ADMIN", "laptop", b"hash", NOW - DAY)
MINTED = Minted("b" * 16, b"other", "duly_0123456")

lifetimes = st.none() | st.integers(1, 1000 * DAY)
overlaps = st.integers(0, 30 * DAY)


@st.composite
def tenants(draw: st.DrawFn) -> list[KeyRow]:
    """Keys as they come to be: made, rotated, revoked."""
    rows = []
    for nth in range(draw(st.integers(1, 6))):
        lasts = draw(lifetimes)
        row = replace(
            KEY,
            id=f"{nth:016x}",
            role=draw(st.sampled_from(["ADMIN", "ADMIN", "VIEWER", "WORKER"])),
            expires_at=None if lasts is None else KEY.created_at + lasts,
            lasts=lasts,
            revoked_at=draw(st.none() | st.just(NOW - HOUR)),
        )
        rows.append(row)
        if row.is_alive(NOW) and draw(st.booleans()):
            ends, new = rotated(row, replace(MINTED, id=f"{nth:016x}"[::-1] + "f"), draw(overlaps), None, NOW)
            rows[-1] = replace(row, expires_at=ends, replaced_by=new.id)
            rows.append(new)
    return rows


@given(overlaps, lifetimes, lifetimes)
def test_the_new_key_is_what_the_old_one_was_and_the_old_one_never_lives_longer_for_it(
    overlap: int, lasts: int | None, other: int | None
) -> None:
    old = replace(KEY, role="WORKER", pools=("etl",), lasts=lasts, expires_at=None if lasts is None else NOW + lasts)

    ends, new = rotated(old, MINTED, overlap, other, NOW)

    assert (new.role, new.name, new.pools, new.tenant) == (old.role, old.name, old.pools, old.tenant)
    assert (new.replaces, new.family, new.hash) == (old.id, old.id, MINTED.hash)
    assert ends <= NOW + overlap
    assert old.expires_at is None or ends <= old.expires_at
    wanted = lasts if other is None else other
    assert new.expires_at == (None if wanted is None else NOW + wanted)


def test_a_second_rotation_forgets_nothing_of_the_first() -> None:
    """The answer to the first was lost: the second key must not end with the overlap."""
    ends, first = rotated(KEY, MINTED, MINUTE, None, NOW)

    _, second = rotated(replace(KEY, expires_at=ends, replaced_by=first.id), replace(MINTED, id="c" * 16), MINUTE, None, NOW + 1)

    assert second.expires_at is None
    assert second.family == first.family == KEY.id


@pytest.mark.parametrize("ended", [{"revoked_at": NOW - 1}, {"expires_at": NOW}])
def test_what_has_ended_is_not_rotated(ended: dict[str, int]) -> None:
    with pytest.raises(Conflict) as refused:
        rotated(replace(KEY, **ended), MINTED, HOUR, None, NOW)

    assert refused.value.code == "DULY-E307"


@given(tenants(), st.data())
def test_after_a_revocation_somebody_administers_the_tenant_if_somebody_did(keys: list[KeyRow], data: st.DataObject) -> None:
    going = data.draw(st.sampled_from(keys))
    lasting = [key for key in keys if key.role == "ADMIN" and key.is_alive(NOW) and key.replaced_by is None]

    if going.role == "ADMIN" and going.is_alive(NOW) and {key.id for key in lasting} <= {going.id}:
        with pytest.raises(Conflict, match="last ADMIN key"):
            check_revocation(going, keys, NOW)
    else:
        check_revocation(going, keys, NOW)


def test_a_key_on_its_way_out_does_not_stand_in_for_the_last_one() -> None:
    ends, new = rotated(KEY, MINTED, HOUR, None, NOW)
    old = replace(KEY, expires_at=ends, replaced_by=new.id)

    with pytest.raises(Conflict):
        check_revocation(new, [old, new], NOW)
    check_revocation(old, [old, new], NOW)


def test_the_last_admin_key_is_not_rotated_into_one_that_ends_before_it() -> None:
    _, short = rotated(KEY, MINTED, HOUR, MINUTE, NOW)

    with pytest.raises(Conflict):
        check_rotation(KEY, short, [KEY], NOW)
    check_rotation(KEY, short, [KEY, replace(KEY, id="c" * 16)], NOW)
    check_rotation(replace(KEY, role="VIEWER"), replace(short, role="VIEWER"), [KEY], NOW)


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=200))
def test_of_a_short_secret_hardly_anything_is_shown(secret: str) -> None:
    prefix = shown_prefix(secret)

    assert secret.startswith(prefix)
    assert len(prefix) <= min(12, len(secret) // 4)


def test_only_workers_have_pools_and_pools_have_names() -> None:
    check_pools(Role.WORKER, ("etl", "mail.eu"))
    check_pools(Role.ADMIN, None)
    for role, pools in ((Role.ADMIN, ("etl",)), (Role.WORKER, ("no pool",)), (Role.WORKER, ("x\n",))):
        with pytest.raises(Invalid):
            check_pools(role, pools)


def test_a_key_without_pools_serves_all_of_them() -> None:
    actor = Actor(1, "default", Role.WORKER, "k")

    assert actor.may_serve("anything")
    assert replace(actor, pools=frozenset({"etl"})).may_serve("etl")
    assert not replace(actor, pools=frozenset({"etl"})).may_serve("mail")
    assert not replace(actor, pools=frozenset()).may_serve("etl")


@given(st.integers(0, 2 * LONGEST))
def test_a_session_ends_when_it_is_idle_or_too_old_whichever_is_first(used: int) -> None:
    session = SessionRow(b"", 1, "default", "k", "ADMIN", NOW, NOW)

    assert session.ends_at() == NOW + IDLE
    assert session.ends_at(NOW + used) == NOW + min(used + IDLE, LONGEST)
