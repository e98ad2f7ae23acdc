"""The cluster: who owns which shard under which epoch, whose clock is off, and how the store fares."""

from __future__ import annotations

from typing import Any

from duly.dashboard.commands import commands
from duly.dashboard.view import PageQuery, View, page
from duly.dashboard.words import counted, moment, span
from duly.domain.instants import MINUTE
from duly.http.routing import Call, Reply

# Owners are told apart by a number and, up to so many, by a colour.
COLOURS = 6
# Clocks this far apart, in milliseconds, are worth a word; as is a transaction that is open so long.
SKEWED = 1000
LONG_OPEN = 5 * MINUTE


@page("/cluster")
async def show_cluster_page(call: Call, query: PageQuery) -> Reply:
    """The cluster"""
    view = await View.of(call, "/cluster", query)
    found = await view.get("/v1/cluster")
    store = await view.get("/v1/cluster/store") if view.may("ADMIN") and view.wants("verdict", "store") else None
    owners = sorted({shard["owner"] for shard in found["shards"] if shard["owner"]} | {each["name"] for each in found["dispatchers"]})
    numbers = {name: number for number, name in enumerate(owners, 1)}
    shards = [_shard(view, shard, numbers) for shard in found["shards"]]
    return view.page(
        "cluster",
        "Cluster",
        commands("duly cluster", "/v1/cluster"),
        cluster=found,
        store=store,
        shards=shards,
        numbers=numbers,
        colours=COLOURS,
        skewed=SKEWED,
        is_held_back=_is_held_back(view, store),
        verdict=_verdict(view, found, shards, store),
    )


def _shard(view: View, shard: dict[str, Any], numbers: dict[str, int]) -> dict[str, Any]:
    """A shard with its owner's number; nobody's when its lease has run out."""
    is_held = shard["owner"] is not None and shard["leaseUntil"] is not None and moment(shard["leaseUntil"]) > view.now
    return {**shard, "number": numbers[shard["owner"]] if is_held else None}


def _is_held_back(view: View, store: dict[str, Any] | None) -> bool:
    opened = None if store is None else store["oldestTransactionAt"]
    return opened is not None and view.now - moment(opened) > LONG_OPEN


def _verdict(view: View, found: dict[str, Any], shards: list[dict[str, Any]], store: dict[str, Any] | None) -> tuple[str, str, str]:
    """How it stands: the tone, the answer, and the figures behind it."""
    live, orphans = found["dispatchers"], sum(shard["number"] is None for shard in shards)
    skews = [abs(each["clockSkewMs"]) for each in live if each["clockSkewMs"] is not None]
    said = [
        f"{counted(len(live), 'dispatcher')}, {len(shards) - orphans} of {counted(len(shards), 'shard')} held",
        f"the store answers in {found['store']['roundTripMs']:.1f} ms",
    ]
    if skews:
        said.append(f"clocks at most {span(max(skews))} off")
    figures = "; ".join(said) + "."
    if not live:
        return "bad", "No dispatcher lives: nothing fires.", figures
    if orphans:
        return "bad", f"{counted(orphans, 'shard has', 'shards have')} no owner: their jobs do not fire.", figures
    if not found["leaseService"]["isReachable"]:
        return "bad", "The lease service does not answer; the store’s own leases tell who is there.", figures
    if skews and max(skews) > SKEWED:
        return "bad", f"A clock is {span(max(skews))} off.", figures
    if _is_held_back(view, store):
        return "bad", "A transaction has been open for long: the store cannot clean up.", figures
    return "good", "Every shard has its owner.", figures


ROUTES = [show_cluster_page]
