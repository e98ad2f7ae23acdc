"""The audit trail: what somebody did, and the chain that shows whether the record of it is as it was written.

A deed is recorded in the transaction of the change itself. Records are linked afterwards, in order, one chain per tenant: the hash of
a link is SHA-256 over the hash before it and the canonical JSON of its content. The content is what the API and the export show, so
whoever has an export can check it with a few lines of any language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from json import JSONEncoder, loads
from typing import Any, NamedTuple
from uuid import UUID

from duly.domain.access import Actor
from duly.domain.errors import Invalid
from duly.domain.ids import ExecutionId, JobId, batch_text, execution_text, job_text
from duly.domain.instants import Instant, to_rfc3339

# The hash before the first link.
GENESIS = bytes(32)
# So many executions are named in the record of a deed about many; all are counted.
NAMED = 5
# Longer than this, a record names what changed and leaves out how.
LONGEST = 8192
WITHHELD = "(withheld)"
# Everything that is recorded, so that a question about anything else is seen to be a mistake.
ACTIONS = frozenset(
    {
        *(f"alert_channel.{verb}" for verb in ("delete", "set", "test")),
        *(f"alert_rule.{verb}" for verb in ("delete", "set", "snooze")),
        "alert.snooze",
        *(f"batch.{verb}" for verb in ("abort", "continue", "create", "drop")),
        *(f"calendar.{verb}" for verb in ("delete", "set")),
        *(f"execution.{verb}" for verb in ("approve", "backfill", "cancel", "discard", "enqueue", "pause", "reject", "replay", "rerun")),
        *(f"execution.{verb}" for verb in ("resume", "retry", "run", "settle", "signal")),
        *(f"job.{verb}" for verb in ("cancel", "change", "create", "pause", "resume", "skip", "unskip")),
        *(f"key.{verb}" for verb in ("create", "revoke", "rotate")),
        *(f"link.{verb}" for verb in ("create", "revoke")),
        *(f"session.{verb}" for verb in ("begin", "end", "link")),
        *(f"tenant.{verb}" for verb in ("arrive", "change", "create", "move")),
        "worker.drain",
    }
)


class Deed(NamedTuple):
    """What somebody does to something, and when. `before` and `after` have what changes, never a secret; `executions` are those that
    it is about."""

    actor: Actor
    at: Instant
    action: str
    kind: str
    subject: str
    job_id: JobId | None = None
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    executions: Sequence[ExecutionId] = ()

    def about(self, executions: Sequence[ExecutionId]) -> Deed | None:
        """The same, about those executions that it really changed; None when there are none."""
        return self._replace(executions=executions) if executions else None

    def changing(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> Deed:
        """The same, with what differs between these two."""
        old, new = diff(before, after)
        return self._replace(before={**(self.before or {}), **old}, after={**(self.after or {}), **new})

    @property
    def result(self) -> Mapping[str, Any] | None:
        """What it came to: `after`, and of many executions the number and the first ones."""
        named = self.executions
        if not named or (len(named) == 1 and self.subject == execution_text(named[0])):
            return self.after
        if len(named) == 1:
            return {**(self.after or {}), "executionId": execution_text(named[0])}
        return {**(self.after or {}), "count": len(named), "first": [execution_text(id) for id in named[:NAMED]]}


def on_job(actor: Actor, at: Instant, action: str, id: JobId, **more: Any) -> Deed:
    """A deed on a job."""
    return Deed(actor, at, action, "job", job_text(id), id, **more)


def on_execution(actor: Actor, at: Instant, action: str, id: ExecutionId, job_id: JobId | None, **more: Any) -> Deed:
    """A deed on an execution."""
    return Deed(actor, at, action, "execution", execution_text(id), job_id, **more)


def on_batch(actor: Actor, at: Instant, action: str, id: UUID, job_id: JobId | None = None, **more: Any) -> Deed:
    """A deed on many executions at once."""
    return Deed(actor, at, action, "batch", batch_text(id), job_id, **more)


def diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What differs: the old values and the new ones. What is missing on one side is left out there."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return {name: before[name] for name in names if name in before}, {name: after[name] for name in names if name in after}


def told(fields: Mapping[str, Any] | None) -> str | None:
    """Before or after as it is kept: canonical JSON, or the names alone when that would be too long."""
    if not fields:
        return None
    text = canonical(fields)
    return text if len(text) <= LONGEST else canonical({"omitted": sorted(fields)[:100]})


# Made once: to make one takes longer than to write a record with it.
_encoder = JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical(value: Any) -> str:
    """JSON in the one way that is hashed: keys sorted, no spaces, no escapes that JSON does not need."""
    return _encoder.encode(value)


def parse_action(text: str) -> str:
    """An action, or how some begin. Raises Invalid (DULY-E106) for what none begins with."""
    if not any(action.startswith(text) for action in ACTIONS):
        subjects = ", ".join(sorted({action.partition(".")[0] for action in ACTIONS}))
        raise Invalid("DULY-E106", f"no action begins with {text[:40]!r}.", field="action", hint=f"They begin with one of {subjects}.")
    return text


@dataclass(frozen=True, slots=True)
class Record:
    """A deed as it was recorded. `place` is its place among all; `before` and `after` are JSON text."""

    place: int
    at: Instant
    actor: str
    role: str
    channel: str
    request_id: str | None
    action: str
    kind: str
    subject: str
    job_id: JobId | None
    reason: str | None
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Link:
    """A place in the chain. Without a record: it was there, and is gone."""

    seq: int
    hash: bytes
    record: Record | None


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends, and the anchor at which it begins: what came before was kept long enough."""

    seq: int = 0
    hash: bytes = GENESIS
    anchor_seq: int = 0
    anchor_hash: bytes = GENESIS
    anchor_at: Instant | None = None


def content(record: Record, seq: int | None) -> dict[str, Any]:
    """What a link vouches for, with the names that the wire has. A name more would break every chain there is."""
    return {
        "auditId": str(record.place),
        "seq": seq,
        "at": to_rfc3339(record.at),
        "actor": record.actor,
        "role": record.role,
        "channel": record.channel,
        "requestId": record.request_id,
        "action": record.action,
        "kind": record.kind,
        "subject": record.subject,
        "jobId": None if record.job_id is None else job_text(record.job_id),
        "reason": record.reason,
        "before": None if record.before is None else loads(record.before),
        "after": None if record.after is None else loads(record.after),
    }


def link_hash(previous: bytes, seq: int, record: Record) -> bytes:
    """The hash of the link after `previous`."""
    return sha256(previous + canonical(content(record, seq)).encode()).digest()


def chained(head: Head, records: Sequence[Record]) -> list[Link]:
    """The next links of a chain, in this order."""
    links: list[Link] = []
    seq, hash = head.seq, head.hash
    for record in records:
        seq += 1
        hash = link_hash(hash, seq, record)
        links.append(Link(seq, hash, record))
    return links


@dataclass(frozen=True, slots=True)
class Break:
    """The first place at which a chain is not as it was written."""

    seq: int
    what: str
    record: Record | None = None


def check_links(seq: int, hash: bytes, links: Sequence[Link]) -> tuple[int, bytes, Break | None]:
    """Walk on from the link (seq, hash). Answers the last good link, and the first that is broken."""
    for link in links:
        if link.seq != seq + 1:
            return seq, hash, Break(seq + 1, f"link {seq + 1} was removed")
        if link.record is None:
            return seq, hash, Break(link.seq, f"the record of link {link.seq} was removed")
        if link_hash(hash, link.seq, link.record) != link.hash:
            return seq, hash, Break(link.seq, f"the record of link {link.seq} was changed, or its link", link.record)
        seq, hash = link.seq, link.hash
    return seq, hash, None


def check_end(seq: int, hash: bytes, head: Head) -> Break | None:
    """At the end of the walk: whether the chain ends where its head says."""
    if seq < head.seq:
        return Break(seq + 1, f"the chain was cut: it ends with link {seq}, and had {head.seq}")
    if hash != head.hash:
        return Break(seq, f"link {seq} is not the one that the head names")
    return None


def slipped_in(seq: int, stray: Record) -> Break:
    """A record that stands beside the chain, near this link."""
    return Break(seq, f"record {stray.place} was inserted: it has no link, and later ones have", stray)
