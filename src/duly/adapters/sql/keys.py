"""Keys, sessions and one-time links. The same text on both engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json import dumps

from duly.adapters.sql.audit import append
from duly.adapters.sql.definitions import use_key_for_secret
from duly.adapters.sql.engine import Action, Call, Engine, Many, one
from duly.adapters.sql.rows import key_of, session_of
from duly.domain.audit import Deed
from duly.domain.homes import Standing
from duly.domain.instants import Instant, Micros, to_rfc3339
from duly.domain.keys import KeyRow, Minted, check_revocation, check_rotation, rotated
from duly.domain.sessions import IDLE, LONGEST, LinkRow, SessionRow
from duly.ports.dispatch import Idempotency

_PLAIN = ("id", "tenant", "role", "name", "hash", "created_at", "expires_at", "revoked_at", "prefix", "lasts", "replaces", "family")


class SqlKeys:
    """API keys."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def key(self, id: str) -> KeyRow | None:
        row = one(await self._engine.fetch("key", {"id": id}))
        return None if row is None else key_of(row)

    async def add_key(self, row: KeyRow, *, deed: Deed | None = None, idempotency: Idempotency | None = None) -> bool:
        def action() -> Action[bool]:
            yield from use_key_for_secret(row.tenant, idempotency, row.id, row.created_at)
            if not (yield Call("add_key", _params(row))):
                return False
            yield from append([deed])
            return True

        return await self._engine.run(action)

    async def keys(self, tenant: int) -> list[KeyRow]:
        return [key_of(row) for row in await self._engine.fetch("keys_of_tenant", {"tenant": tenant})]

    async def revoke_key(self, tenant: int, id: str, now: Instant, *, deed: Deed | None = None) -> KeyRow | None:
        def action() -> Action[KeyRow | None]:
            found = yield from _locked(tenant)
            if id not in found:
                return None
            if found[id].revoked_at is None:
                check_revocation(found[id], found.values(), now)
                yield Call("revoke_key", {"tenant": tenant, "id": id, "now": now})
                yield from append([None if deed is None else _revoking(deed, found[id], now)])
            return key_of(one((yield Call("key", {"id": id}))))

        return await self._engine.run(action)

    async def rotate_key(
        self,
        tenant: int,
        id: str,
        minted: Minted,
        overlap: Micros,
        lasts: Micros | None,
        now: Instant,
        *,
        deed: Deed | None = None,
        idempotency: Idempotency | None = None,
    ) -> tuple[KeyRow, KeyRow] | None:
        def action() -> Action[tuple[KeyRow, KeyRow] | None]:
            found = yield from _locked(tenant)
            if id not in found:
                return None
            yield from use_key_for_secret(tenant, idempotency, minted.id, now)
            ends, new = rotated(found[id], minted, overlap, lasts, now)
            check_rotation(found[id], new, found.values(), now)
            yield Call("add_key", _params(new))
            yield Call("end_key", {"tenant": tenant, "id": id, "expires_at": ends})
            if deed is not None:
                before, after = found[id].expires_at, {"expiresAt": to_rfc3339(ends), "replacedBy": new.id}
                yield from append([deed.changing({"expiresAt": None if before is None else to_rfc3339(before)}, after)])
            return key_of(one((yield Call("key", {"id": id})))), key_of(one((yield Call("key", {"id": new.id}))))

        return await self._engine.run(action)

    async def any_admin_key(self, tenant: int, now: Instant) -> bool:
        return bool(await self._engine.fetch("any_admin_key", {"tenant": tenant, "now": now}))

    async def any_key(self, now: Instant) -> bool:
        return bool(await self._engine.fetch("any_key", {"now": now}))

    async def touch_keys(self, used: Mapping[str, Instant]) -> None:
        def action() -> Action[None]:
            # In one order everywhere: two nodes that touch the same keys must not wait for one another.
            yield Many("touch_key", [{"id": id, "at": at} for id, at in sorted(used.items())])

        if used:
            await self._engine.run(action)


def _revoking(deed: Deed, row: KeyRow, now: Instant) -> Deed:
    """The same, with what the key was and when it ended."""
    was = {"role": row.role, "name": row.name, "expiresAt": None if row.expires_at is None else to_rfc3339(row.expires_at)}
    return deed._replace(before=was, after={"revokedAt": to_rfc3339(now)})


class SqlSessions:
    """Browsers' sessions and the links that begin them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def add_link(self, link: LinkRow, now: Instant, *, deed: Deed | None = None, idempotency: Idempotency | None = None) -> None:
        names = ("hash", "tenant", "key_id", "role", "expires_at")

        def action() -> Action[None]:
            yield from use_key_for_secret(link.tenant, idempotency, link.hash.hex()[:16], now, "a login link")
            yield Call("add_link", {name: getattr(link, name) for name in names})
            yield from append([deed])

        await self._engine.run(action)

    async def begin(
        self,
        link: bytes,
        session: bytes,
        instead_of: bytes | None,
        now: Instant,
        *,
        deed: Callable[[SessionRow], Deed] | None = None,
    ) -> SessionRow | None:
        def action() -> Action[SessionRow | None]:
            taken = one((yield Call("take_link", {"hash": link})))
            if taken is None or taken["expires_at"] <= now:
                return None
            params = {name: taken[name] for name in ("tenant", "key_id", "role")}
            yield Call("add_session", {"hash": session, **params, "now": now})
            if instead_of is not None:
                yield Call("drop_session", {"hash": instead_of})
            found = one((yield Call("session", {"hash": session, "now": now})))
            if found is None:
                return None
            begun = session_of(found)
            yield from append([None if deed is None else deed(begun)])
            return begun

        return await self._engine.run(action) if await self._engine.fetch("link", {"hash": link}) else None

    async def session(self, hash: bytes, now: Instant) -> SessionRow | None:
        row = one(await self._engine.fetch("session", {"hash": hash, "now": now}))
        return None if row is None else session_of(row)

    async def end(self, hash: bytes, *, deed: Deed | None = None) -> None:
        def action() -> Action[None]:
            if (yield Call("drop_session", {"hash": hash})):
                yield from append([deed])

        await self._engine.run(action)

    async def touch_sessions(self, used: Mapping[bytes, Instant]) -> None:
        def action() -> Action[None]:
            yield Many("touch_session", [{"hash": hash, "at": at} for hash, at in sorted(used.items())])

        if used:
            await self._engine.run(action)

    async def drop_ended(self, now: Instant) -> None:
        def action() -> Action[None]:
            yield Call("drop_links", {"now": now})
            yield Call("drop_sessions", {"now": now, "idle_since": now - IDLE, "begun_before": now - LONGEST})

        await self._engine.run(action)

    async def tenant(self, name: str) -> int | None:
        row = one(await self._engine.fetch("tenant_named", {"name": name}))
        # One that has left, or has not arrived, is nobody's here.
        return int(row["tenant"]) if row is not None and row["standing"] in (Standing.HERE, Standing.LEAVING) else None


def _locked(tenant: int) -> Action[dict[str, KeyRow]]:
    """The keys of a tenant, held until the end of the transaction."""
    yield Call("lock_keys", {"tenant": tenant})
    return {row["id"]: key_of(row) for row in (yield Call("keys_of_tenant", {"tenant": tenant}))}


def _params(row: KeyRow) -> dict[str, object]:
    plain = {name: getattr(row, name) for name in _PLAIN}
    return {**plain, "pools": None if row.pools is None else dumps(row.pools)}
