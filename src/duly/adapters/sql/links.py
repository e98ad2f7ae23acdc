"""Links on both engines."""

from __future__ import annotations

from typing import Any

from duly.adapters.sql.audit import append
from duly.adapters.sql.definitions import use_key_for_secret
from duly.adapters.sql.engine import Action, Call, Engine, one
from duly.adapters.sql.rows import as_uuid
from duly.domain.audit import Deed
from duly.domain.ids import job_text
from duly.domain.instants import Instant, to_rfc3339
from duly.ports.dispatch import Idempotency
from duly.ports.links import LinkAddress

_PLAIN = ("id", "tenant", "kind", "job_id", "hash", "created_at", "created_by", "expires_at")


class SqlLinks:
    """The port on an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def add(self, link: LinkAddress, *, deed: Deed | None = None, idempotency: Idempotency | None = None) -> None:
        def action() -> Action[None]:
            yield from use_key_for_secret(link.tenant, idempotency, link.id, link.created_at)
            yield Call("add_address", {name: getattr(link, name) for name in _PLAIN})
            yield from append([deed])

        await self._engine.run(action)

    async def link(self, id: str) -> LinkAddress | None:
        row = one(await self._engine.fetch("address", {"id": id}))
        return None if row is None else _link(row)

    async def links(self, tenant: int) -> list[LinkAddress]:
        return [_link(row) for row in await self._engine.fetch("addresses", {"tenant": tenant})]

    async def revoke(self, tenant: int, id: str, now: Instant, *, deed: Deed | None = None) -> LinkAddress | None:
        def action() -> Action[LinkAddress | None]:
            revoked = yield Call("revoke_address", {"tenant": tenant, "id": id, "now": now})
            row = one((yield Call("address", {"id": id})))
            if row is None or row["tenant"] != tenant:
                return None
            link = _link(row)
            if revoked and deed is not None:
                was = {"kind": link.kind, "expiresAt": None if link.expires_at is None else to_rfc3339(link.expires_at)}
                was |= {} if link.job_id is None else {"jobId": job_text(link.job_id)}
                yield from append([deed._replace(before=was, after={"revokedAt": to_rfc3339(now)})])
            return link

        return await self._engine.run(action)


def _link(row: Any) -> LinkAddress:
    return LinkAddress(
        id=row["id"],
        tenant=row["tenant"],
        tenant_name=row["tenant_name"],
        kind=row["kind"],
        job_id=None if row["job_id"] is None else as_uuid(row["job_id"]),
        hash=bytes(row["hash"]),
        created_at=row["created_at"],
        created_by=row["created_by"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
    )
