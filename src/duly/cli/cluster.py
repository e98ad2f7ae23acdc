"""`duly cluster`: who owns what."""

from __future__ import annotations

from duly.cli import output
from duly.cli.errors import OK
from duly.cli.output import YELLOW, Column, relative
from duly.cli.parsing import Arguments, Command, Parser, remote_options
from duly.cli.remote import connect
from duly.domain.instants import Instant
from duly.sdk.cluster import show_cluster, show_store
from duly.wire.cluster import ClusterView, DispatcherView, LeaseServiceView, ShardView
from duly.wire.fleet import WorkerView

# What a clock may be off by before anybody need look at it.
SKEWED_MS = 1000.0


def _configure_cluster(parser: Parser) -> None:
    parser.add_argument("--shards", action="store_true", help="each shard with its owner, instead of each dispatcher")
    parser.add_argument("--store", action="store_true", help="how the store fares, for admins: size, connections, dead rows")
    remote_options(parser)


def _store(arguments: Arguments) -> int:
    out = output.of(arguments)
    with connect(arguments) as client:
        found = client.send(show_store())
    most = "" if found.most_connections is None else f" of {found.most_connections}"
    tables = "\n".join(f"{table.name}: {table.dead_rows:,} dead of {table.rows + table.dead_rows:,}" for table in found.tables)
    out.one(
        [
            ("store", found.kind),
            ("size", None if found.bytes is None else f"{found.bytes:,} bytes"),
            ("free", None if found.free_bytes is None else f"{found.free_bytes:,} bytes"),
            ("connections", None if found.connections is None else f"{found.connections}{most}"),
            ("oldest transaction", found.oldest_transaction_at and relative(found.oldest_transaction_at)),
            ("to clean up", tables or None),
        ],
        found,
        name=found.kind,
    )
    return OK


def _cluster(arguments: Arguments) -> int:
    if arguments.store:
        return _store(arguments)
    out = output.of(arguments)
    with connect(arguments) as client:
        found = client.send(show_cluster())
    if out.format in ("json", "jsonl"):
        out.one([], found, name="")
        return OK
    now = output.instant(found.now)
    if arguments.shards:
        out.rows(_shard_columns(now), found.shards, name=lambda shard: str(shard.shard))
    else:
        out.rows(dispatcher_columns(now), found.dispatchers, name=lambda dispatcher: dispatcher.name)
    if out.is_for_people:
        out.say(f"\n{summary(found)}")
        if not found.dispatchers:
            out.say("No dispatcher is alive: start one with `duly scheduler`, or `duly up`.")
    return OK


def dispatcher_columns(now: Instant) -> list[Column[DispatcherView]]:
    """A dispatcher as a row, seen at that moment of the store's clock."""
    return [
        Column("dispatcher", lambda it: it.name, key="name"),
        Column("shards", lambda it: str(it.shards)),
        Column("clock", lambda it: skew(it.clock_skew_ms), lambda it: number(it.clock_skew_ms), "clockSkewMs", skew_colour),
        Column("counts until", lambda it: relative(it.expires_at, now), lambda it: it.expires_at, "expiresAt"),
        Column("present", lambda it: word(it.is_present), key="isPresent", colour=lambda it: YELLOW if it.is_present is False else None),
        Column("version", lambda it: it.version or "–"),
        Column("time zones", lambda it: it.tzdata or "–", key="tzdata"),
    ]


def _shard_columns(now: Instant) -> list[Column[ShardView]]:
    return [
        Column("shard", lambda it: str(it.shard)),
        Column("owner", lambda it: it.owner or "–", colour=lambda it: YELLOW if it.owner is None else None),
        Column("epoch", lambda it: str(it.epoch)),
        Column("lease", lambda it: relative(it.lease_until, now), lambda it: it.lease_until or "", "leaseUntil"),
        Column("progress", lambda it: relative(it.progress_at, now), lambda it: it.progress_at or "", "progressAt"),
    ]


def summary(found: ClusterView) -> str:
    """The whole in one line."""
    orphans = sum(shard.owner is None for shard in found.shards)
    owned = f"{len(found.shards) - orphans} of {len(found.shards)} shards owned"
    store = f"store {found.store.kind}, {found.store.round_trip_ms:.1f} ms"
    return f"{owned} · {store} · leases {_service(found.lease_service)} · server's clock {skew(found.clock_skew_ms)}"


def _service(service: LeaseServiceView) -> str:
    if service.kind == "store":
        return "of the store"
    if service.is_reachable:
        return f"by {service.kind}, which knows {len(service.members)}"
    return f"by {service.kind}, which is away (the store's tell): {service.trouble or 'no answer'}"


def skew(millis: float | None) -> str:
    """How far a clock is ahead of the store's."""
    if millis is None:
        return "unknown"
    if abs(millis) < 0.05:
        return "0 ms"
    return f"{millis:+.1f} ms" if abs(millis) < SKEWED_MS else f"{millis / 1000:+.1f} s"


def skew_colour(one: DispatcherView | WorkerView) -> str | None:
    """Seen at once where it is far off."""
    return YELLOW if abs(one.clock_skew_ms or 0) >= SKEWED_MS else None


def number(millis: float | None) -> str:
    """The same for programs."""
    return "" if millis is None else str(millis)


def word(value: bool | None) -> str:
    """Yes, no, or nobody knows."""
    return "–" if value is None else "yes" if value else "no"


COMMANDS = {
    "cluster": Command("Who owns what: dispatchers, shards, and what tells who is there.", _configure_cluster, _cluster, "duly cluster"),
}
