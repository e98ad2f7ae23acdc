"""The audit trail on both engines: appending inside a change, linking, reading, forgetting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from duly.adapters.sql.engine import Action, Call, Engine, Many, one
from duly.adapters.sql.rows import as_uuid
from duly.domain.access import Role
from duly.domain.audit import GENESIS, Deed, Head, Link, Record, chained, told
from duly.domain.execution import NewExecution
from duly.domain.instants import LATEST, Instant
from duly.ports.audit import AuditFilter, Listed, Stretch

COLUMNS = (
    "tenant",
    "at",
    "actor",
    "role",
    "channel",
    "request_id",
    "action",
    "kind",
    "subject",
    "job_id",
    "reason",
    "before",
    "after",
)
_ROLES = [role.name for role in sorted(Role)]

# Beyond every place, so that the first page needs no statement of its own.
LAST_PLACE = 1 << 62


def append(deeds: Sequence[Deed | None]) -> Action[None]:
    """Record deeds inside an action, with the change that they are. None: nobody from outside asked for it, or nothing came of it."""
    rows = [dict(zip(COLUMNS, values_of(deed), strict=True)) for deed in deeds if deed is not None]
    if len(rows) == 1:
        yield Call("audit_append", rows[0])
    elif rows:
        yield Many("audit_append", rows)


def asking_for(deeds: Sequence[Deed], executions: Sequence[NewExecution]) -> list[Deed]:
    """Those of the deeds that ask for one of these executions."""
    ids = {execution.id for execution in executions}
    return [deed for deed in deeds if deed.executions[0] in ids]


def values_of(deed: Deed) -> tuple[Any, ...]:
    """A deed as a row of `audit`, in the order of COLUMNS. Every enqueue comes by here: it is kept lean."""
    actor, at, action, kind, subject, job_id, before, _, _ = deed
    return (
        actor.tenant,
        at,
        actor.key_id,
        _ROLES[actor.role],
        actor.channel,
        actor.request_id,
        action,
        kind,
        subject,
        job_id,
        actor.reason,
        told(before) if before else None,
        told(deed.result),
    )


class SqlAudit:
    """The audit trail's port."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def records(self, wanted: AuditFilter) -> list[Listed]:
        order = "oldest" if wanted.oldest_first else "newest"
        source = "_of_job" if wanted.job_id is not None else "_of_subject" if wanted.subject is not None else ""
        params = {
            "tenant": wanted.tenant,
            "actor": wanted.actor,
            "action": wanted.action,
            "subject": wanted.subject,
            "job_id": wanted.job_id,
            "channel": wanted.channel,
            "since": 0 if wanted.since is None else wanted.since,
            "until": LATEST if wanted.until is None else wanted.until,
            "past": (0 if wanted.oldest_first else LAST_PLACE) if wanted.past is None else wanted.past,
            "quota": wanted.limit,
        }
        return [
            Listed(record_of(row), row["seq"], None if row["hash"] is None else bytes(row["hash"]))
            for row in await self._engine.fetch(f"audit_{order}{source}", params)
        ]

    async def stretch(self, tenant: int, after: int, limit: int) -> Stretch:
        def action() -> Action[Stretch]:
            head = _head_of((yield Call("audit_head", {"tenant": tenant})))
            start = max(after, head.anchor_seq)
            rows = yield Call("audit_stretch", {"tenant": tenant, "after": start, "quota": limit})
            links = [Link(row["seq"], bytes(row["hash"]), None if row["place"] is None else record_of(row)) for row in rows]
            is_last = len(links) < limit
            # Stretches overlap by one link, the first and the last have no bound: so together they pass every place there is.
            before = [] if start == head.anchor_seq else (yield Call("audit_link", {"tenant": tenant, "seq": start}))
            places = [row["linked"] for row in rows] + [row["place"] for row in before]
            low = min(places) if before else -LAST_PLACE
            high = LAST_PLACE if is_last else max(places)
            stray = one((yield Call("audit_strays", {"tenant": tenant, "low": low, "high": high})))
            waiting = one((yield Call("audit_waiting", {"tenant": tenant})))["n"] if is_last else 0
            return Stretch(head, links, None if stray is None else record_of(stray), int(waiting))

        return await self._engine.read(action)

    async def link_hash(self, tenant: int, seq: int) -> bytes | None:
        head = _head_of(await self._engine.fetch("audit_head", {"tenant": tenant}))
        if seq == head.anchor_seq:
            return head.anchor_hash
        row = one(await self._engine.fetch("audit_link", {"tenant": tenant, "seq": seq}))
        return None if row is None else bytes(row["hash"])

    async def link(self, limit: int) -> int:
        def action() -> Action[int]:
            progress = one((yield Call("audit_progress", {})))
            if progress is None:
                yield Call("audit_begin", {})
                progress = one((yield Call("audit_progress", {})))
            # Numbers of another server's transactions say nothing here: look at everything once.
            past = {"xid": 0, "place": 0} if progress["elsewhere"] else {"xid": progress["xid"], "place": progress["place"]}
            rows = yield Call("audit_unlinked", past | {"quota": limit})
            if not rows:
                return 0
            by_tenant: dict[int, list[Record]] = defaultdict(list)
            for row in rows:
                by_tenant[row["tenant"]].append(record_of(row))
            for tenant, records in sorted(by_tenant.items()):
                yield from _link(tenant, records)
            here = [row for row in rows if not row["elsewhere"]]
            if here:
                yield Call("audit_set_progress", {"xid": here[-1]["xid"], "place": here[-1]["place"]})
            return len(rows)

        return await self._engine.run(action)

    async def forget(self, before: Instant, limit: int) -> int:
        forgotten = 0
        for row in await self._engine.fetch("audit_heads", {}):
            forgotten += await self._forget(row["tenant"], before, limit)
        return forgotten

    async def _forget(self, tenant: int, before: Instant, limit: int) -> int:
        def action() -> Action[int]:
            head = _head_of((yield Call("audit_lock_head", {"tenant": tenant})))
            rows = yield Call("audit_stretch", {"tenant": tenant, "after": head.anchor_seq, "quota": limit})
            last, count = None, 0
            for row in rows:
                # A link without its record is evidence: it stays, and all that follow.
                if row["place"] is None or row["at"] >= before:
                    break
                last, count = row, count + 1
            if last is not None:
                anchor = {"tenant": tenant, "seq": last["seq"]}
                yield Call("audit_set_anchor", anchor | {"hash": bytes(last["hash"]), "at": last["at"]})
                yield Call("audit_drop_records", anchor)
                yield Call("audit_drop_links", anchor)
            return count

        return await self._engine.run(action)


def _link(tenant: int, records: Sequence[Record]) -> Action[None]:
    head = _head_of((yield Call("audit_lock_head", {"tenant": tenant})))
    links = chained(head, records)
    rows = [
        {"tenant": tenant, "seq": link.seq, "place": record.place, "hash": link.hash} for link, record in zip(links, records, strict=True)
    ]
    yield Many("audit_add_link", rows)
    yield Call("audit_set_head", {"tenant": tenant, "seq": links[-1].seq, "hash": links[-1].hash, "anchor_hash": GENESIS})


def _head_of(rows: Sequence[Any]) -> Head:
    row = one(rows)
    if row is None:
        return Head()
    return Head(row["seq"], bytes(row["hash"]), row["anchor_seq"], bytes(row["anchor_hash"]), row["anchor_at"])


def record_of(row: Any) -> Record:
    """A row of audit."""
    return Record(
        place=row["place"],
        at=row["at"],
        actor=row["actor"],
        role=row["role"],
        channel=row["channel"],
        request_id=row["request_id"],
        action=row["action"],
        kind=row["kind"],
        subject=row["subject"],
        job_id=None if row["job_id"] is None else as_uuid(row["job_id"]),
        reason=row["reason"],
        before=row["before"],
        after=row["after"],
    )
