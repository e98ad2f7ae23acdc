"""Tenants: what each uses beside its quotas, and its share of the fleet beside its weight. For administrators."""

from __future__ import annotations

import asyncio
from typing import Any

from duly.dashboard.commands import commands
from duly.dashboard.drawing.charts import meter
from duly.dashboard.drawing.shares import share_bars
from duly.dashboard.view import PageQuery, View, page
from duly.dashboard.words import counted, plain
from duly.domain.access import DEFAULT_TENANT, Role
from duly.http.routing import Call, Reply

PER_PAGE = 25
# Beyond so many times what its weight gives it, a tenant is told of while others wait.
NOISY = 1.5
USES = (("running", "running"), ("queued", "waiting"), ("firesPerMinute", "in the last minute"), ("jobs", "jobs"))


class TenantsPageQuery(PageQuery, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which page of them."""

    cursor: str | None = None


@page("/tenants", role=Role.ADMIN)
async def show_tenants_page(call: Call, query: TenantsPageQuery) -> Reply:
    """The tenants"""
    view = await View.of(call, "/tenants", query)
    answer = await view.get("/v1/tenants", limit=PER_PAGE, cursor=query.cursor)
    found = await asyncio.gather(*(view.get(f"/v1/tenants/{tenant['name']}") for tenant in answer["items"]))
    rows = _rows(found)
    return view.page(
        "tenants",
        "Tenants",
        commands("duly tenant list", "/v1/tenants"),
        rows=rows,
        verdict=_verdict(rows, is_part=answer["nextCursor"] is not None or query.cursor is not None),
        following=answer["nextCursor"],
        # Who looks after one tenant sees it; weights and quotas are given by those who look after all.
        may_change=view.session["tenant"] == DEFAULT_TENANT,
    )


def _rows(tenants: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each with its meters and its shares among those that are shown; the weight counts among those that want something."""
    running = sum(tenant["usage"]["running"]["used"] for tenant in tenants)
    wanting = sum(tenant["weight"] for tenant in tenants if _wants(tenant))
    rows = []
    for tenant in tenants:
        uses, usage = [], tenant["usage"]
        for name, words in USES:
            used, quota = usage[name]["used"], usage[name]["quota"]
            label = f"{used} {words}, " + ("no quota" if quota is None else f"of at most {quota}")
            uses.append({"used": used, "quota": quota, "meter": None if quota is None else meter(used, quota, label)})
        has = usage["running"]["used"] / running if running else 0.0
        due = tenant["weight"] / wanting if wanting and _wants(tenant) else 0.0
        label = f"{tenant['name']} has {has:.0%} of what runs; {due:.0%} by its weight"
        settings = plain({"weight": tenant["weight"], **tenant["quotas"]})
        rows.append({**tenant, "uses": uses, "has": has, "due": due, "bars": share_bars(has, due, label), "settings": settings})
    return rows


def _wants(tenant: dict[str, Any]) -> bool:
    usage = tenant["usage"]
    return bool(usage["running"]["used"] or usage["queued"]["used"])


def _verdict(rows: list[dict[str, Any]], *, is_part: bool) -> tuple[str, str, str]:
    """How it stands: the tone, the answer, and the figures behind it."""
    full = [(row["name"], words) for row in rows for use, (_, words) in zip(row["uses"], USES, strict=True) if _is_full(use)]
    noisy = [row for row in rows if row["has"] > row["due"] * NOISY and any(other["uses"][1]["used"] for other in rows if other is not row)]
    running, queued = (sum(row["uses"][nth]["used"] for row in rows) for nth in (0, 1))
    figures = f"{counted(running, 'execution runs', 'executions run')}, {counted(queued, 'waits', 'wait')}" + (
        ", of the tenants on this page." if is_part else "."
    )
    if full:
        said = "; ".join(f"{name}: {words}" for name, words in full[:3])
        return "bad", f"{counted(len(full), 'quota is', 'quotas are')} used up.", f"{said}. {figures}"
    if noisy:
        row = noisy[0]
        said = f"{row['name']} has {row['has']:.0%} of what runs, and {row['due']:.0%} by its weight, while others wait. "
        return "bad", f"{row['name']} has more than its share.", said + figures
    return "good", f"{counted(len(rows), 'tenant')}, none beyond its share.", figures


def _is_full(use: dict[str, Any]) -> bool:
    return use["quota"] is not None and use["used"] >= use["quota"]


ROUTES = [show_tenants_page]
