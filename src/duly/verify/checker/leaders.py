"""I8 and I9: epochs only grow, old leaders write nothing, and when a leader is gone another takes over."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from duly.verify.checker.book import Book
from duly.verify.checker.index import Index
from duly.verify.checker.windows import Windows
from duly.verify.checker.words import span
from duly.verify.history import SECOND, Call, Event, Fault

_CHANGES = frozenset({"job.update", "job.pause", "job.delete"})
# Past the end of a leader's lease, somebody else must have taken over within this.
TAKE_OVER = 5 * SECOND


class _Nodes:
    """Which node an owner lives on: as the history says, or by its name."""

    def __init__(self, index: Index) -> None:
        self._known: dict[str, str | None] = dict(index.history.about.get("owners") or {})
        actors = {event.actor for event in index.history.events if event.actor} | {
            node for fault in index.history.faults for node in fault.nodes
        }
        self._names = sorted(actors, key=len, reverse=True)
        self._dispatchers: list[str] | None = index.history.about.get("dispatchers")

    def of(self, owner: str) -> str | None:
        """The node; None when nobody can tell."""
        if owner not in self._known:
            self._known[owner] = next((name for name in self._names if name in owner), None)
        return self._known[owner]

    def is_alone(self, node: str) -> bool:
        """Whether nobody else could take over from it."""
        return self._dispatchers is not None and set(self._dispatchers) <= {node}


def judge(index: Index, windows: Windows, book: Book) -> None:
    """Every shard, and every fire by who wrote it."""
    nodes = _Nodes(index)
    for shard, events in index.shards.items():
        _epochs(shard, events, book)
        if not windows.bent:
            _gaps(shard, events, nodes, index.history.faults, index.history.ended_at, windows, index.history.timing.leader_ttl, book)
    _fires(index, nodes, windows, book)


def _epochs(shard: int, events: Iterable[Event], book: Book) -> None:
    highest, owner = 0, None
    for event in events:
        book.look("I9")
        epoch, now = event.epoch or 0, event.data.get("owner")
        if epoch < highest:
            book.broken("I9", f"shard {shard} went from epoch {highest} back to {epoch}", at=event.at, seqs=(event.seq,))
        elif epoch == highest and now is not None and now != owner:
            book.broken("I9", f"shard {shard} changed hands within epoch {epoch}", at=event.at, seqs=(event.seq,))
        highest, owner = max(highest, epoch), now


def _fires(index: Index, nodes: _Nodes, windows: Windows, book: Book) -> None:
    """A schedule that moves on with a fire is moved by the owner of its shard, in the epoch that is current."""
    taken = {shard: [event.seq for event in events] for shard, events in index.shards.items()}
    for job in index.jobs.values():
        nominals = {run.nominal: run for run in job.fires}
        for move in job.moves:
            if move.kind != "schedule.advanced" or not move.data["from"] < move.data["to"] or move.data["from"] not in nominals:
                continue
            events = index.shards.get(move.shard if move.shard is not None else -1, [])
            place = bisect_left(taken.get(move.shard if move.shard is not None else -1, []), move.seq)
            if place and move.epoch is not None:
                book.look("I9")
                if move.epoch < (events[place - 1].epoch or 0):
                    says = f"{job.name} was moved in epoch {move.epoch}, and epoch {events[place - 1].epoch} was current"
                    book.broken("I9", says, at=move.at, job=job.id, seqs=(move.seq,))
            owner, created = move.data.get("owner"), nominals[move.data["from"]].created
            if move.actor is None or owner is None or created is None or created.actor != move.actor:
                continue
            node = nodes.of(owner)
            if node is not None:
                book.look("I9")
                if node != move.actor and not _settles(move, job.calls, windows):
                    book.broken(
                        "I9", f"{job.name} was fired by {move.actor}, and {owner} owned its shard", at=move.at, job=job.id, seqs=(move.seq,)
                    )


def _settles(move: Event, calls: Iterable[Call], windows: Windows) -> bool:
    """Whether somebody changed the job just then: what it owes is fired before that, by whoever was asked, under the current epoch."""
    return any(
        call.op in _CHANGES
        and (windows.bent or call.invoked_at - windows.skew <= move.at)
        and (windows.bent or call.status == "info" or move.at <= call.ended_at + windows.skew)
        for call in calls
    )


def _gaps(shard: int, events: list[Event], nodes: _Nodes, faults: list[Fault], end: int, windows: Windows, ttl: int, book: Book) -> None:
    """While a leader's node is down and nothing else is, somebody else takes its shard within a lease and a little more."""
    for place, event in enumerate(events):
        owner = event.data.get("owner")
        node = nodes.of(owner) if owner is not None else None
        if node is None or nodes.is_alone(node):
            continue
        until = events[place + 1].at if place + 1 < len(events) else end
        for fault in faults:
            if node not in fault.nodes or fault.until is None or not event.at <= fault.since < until:
                continue
            by = fault.since + ttl + TAKE_OVER
            others = [
                other
                for other in faults
                if other is not fault and other.since <= by and (other.until or end) >= fault.since - windows.recovery
            ]
            if fault.until < by or others or by > end or fault.kind == "drain":
                continue
            book.look("I8")
            if until > by + windows.forgiveness:
                says = f"shard {shard} of {owner} was without a leader for {span(until - fault.since)}"
                book.broken("I8", says, at=fault.since, seqs=(event.seq,))
