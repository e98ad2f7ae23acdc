"""The audit trail: who did what to what, why, and what was so before and after; and whether its chain is whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from msgspec import Meta

from duly.dashboard.commands import commands
from duly.dashboard.terms import Key, Terms, parse
from duly.dashboard.view import HEADERS, PageQuery, View, page
from duly.dashboard.words import plain
from duly.domain.access import Role
from duly.domain.errors import DulyError, Invalid
from duly.http.routing import Call, Reply, Stream

PER_PAGE = 50
# So many records of a download are read at a time.
PER_READ = 200
# So many links after the oldest shown are checked with every page; all of them on demand.
CHECKED = 1000
LONGEST_VALUE = 240

AUDIT_KEYS: Mapping[str, Key] = {
    "actor": Key("actor"),
    "action": Key("action", values=("job", "execution", "key", "session", "alert", "calendar", "tenant", "worker")),
    "subject": Key("subject"),
    "channel": Key("channel", values=("api", "cli", "sdk", "dashboard", "proxy", "server")),
    "since": Key("since", is_time=True),
    "until": Key("until", is_time=True),
}
# What an action begins with is no closed list: the values above are those that are offered.
_OFFERED = frozenset({"action"})
_IDS = {"job_": "jobId", "run_": "executionId"}
_FLAGS = {"jobId": "--job", "executionId": "--run"}
_PLACES = {
    "job": "/jobs/{}",
    "execution": "/executions/{}",
    "batch": "/dead-letters?batch={}",
    "alert": "/alerts/{}",
    "alert_rule": "/alerts?tab=rules#rule-{}",
    "alert_channel": "/alerts?tab=channels#channel-{}",
}


class AuditPageQuery(PageQuery, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which records: `q` has `key:value` terms; a word is an id, or how an action begins."""

    q: Annotated[str, Meta(max_length=400)] = ""
    cursor: str | None = None


@page("/audit", role=Role.ADMIN)
async def show_audit_page(call: Call, query: AuditPageQuery) -> Reply:
    """The audit trail"""
    view = await View.of(call, "/audit", query)
    wanted, trouble = _wanted(view, query.q)
    answer: dict[str, Any] = {"items": [], "nextCursor": None}
    if trouble is None:
        try:
            answer = await view.get("/v1/audit", **wanted, limit=PER_PAGE, cursor=query.cursor)
        except DulyError as error:
            trouble = f"{error.field}: {error.message}" if error.field else error.message
    context: dict[str, Any] = {"chain": None, "from_seq": None}
    if view.wants("chain"):
        context |= await _chain(view, answer["items"])
    names = {key["keyId"]: key["name"] for key in (await view.get("/v1/keys"))["items"]} if answer["items"] else {}
    return view.page(
        "audit",
        f"Audit: {query.q}" if query.q else "Audit",
        commands(
            "duly audit list" + "".join(f" {_FLAGS.get(name, '--' + name)} {value}" for name, value in wanted.items()),
            "/v1/audit",
            **wanted,
        ),
        records=[_row(view, record, names) for record in answer["items"]],
        following=answer["nextCursor"],
        trouble=trouble,
        keys=AUDIT_KEYS,
        **context,
    )


def _wanted(view: View, q: str) -> tuple[dict[str, str], str | None]:
    """The API's parameters, and what could not be understood."""
    terms: Terms = parse(q, {name: Key(key.parameter) if name in _OFFERED else key for name, key in AUDIT_KEYS.items()}, view.now)
    wanted = dict(terms.wanted)
    for word in terms.words.split():
        wanted[_IDS.get(word[:4], "action")] = word
    return wanted, terms.trouble


async def _chain(view: View, records: list[dict[str, Any]]) -> dict[str, Any]:
    """What a walk from the oldest record shown towards the newest finds; None while none of them has a link."""
    linked = [record for record in records if record["hash"] is not None]
    if not linked:
        return {"chain": None, "from_seq": None}
    first = linked[-1]
    chain = await view.get("/v1/audit/verify", cursor=f"{first['seq']}:{first['hash']}", limit=CHECKED)
    return {"chain": chain, "from_seq": first["seq"]}


def _row(view: View, record: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    before, after = record["before"] or {}, record["after"] or {}
    changes = [(name, _shown(before, name), _shown(after, name)) for name in {**before, **after}]
    place = _PLACES.get(record["kind"])
    href = view.here(q=f'subject:"{record["subject"]}"') if place is None else view.root + place.format(quote(record["subject"], safe=""))
    return {**record, "changes": changes, "href": href, "name": names.get(record["actor"])}


def _shown(values: Mapping[str, Any], name: str) -> str | None:
    if name not in values:
        return None
    value = values[name]
    text = value if isinstance(value, str) else plain(value)
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "…"


class ExportQuery(PageQuery, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which records, as the list is searched."""

    q: Annotated[str, Meta(max_length=400)] = ""


@page("/audit.jsonl", role=Role.ADMIN)
async def export_audit(call: Call, query: ExportQuery) -> Stream:
    """The records that match, newest first, one JSON document a line"""
    view = await View.of(call, "/audit.jsonl", query)
    wanted, trouble = _wanted(view, query.q)
    if trouble is not None:
        raise Invalid("DULY-E106", trouble, field="q")
    # The first part is read before anything is answered: what is refused is refused as everywhere else.
    first = await view.get("/v1/audit", **wanted, limit=PER_READ)
    headers = [*HEADERS, *view.headers, (b"content-disposition", b'attachment; filename="audit.jsonl"')]
    return Stream(_lines(view, wanted, first), media=b"application/jsonl; charset=utf-8", headers=headers)


async def _lines(view: View, wanted: Mapping[str, str], part: dict[str, Any]) -> AsyncIterator[bytes]:
    """All of them, some at a time, however many there are."""
    while True:
        yield b"".join([msgspec.json.encode(record) + b"\n" for record in part["items"]])
        if part["nextCursor"] is None:
            return
        part = await view.get("/v1/audit", **wanted, limit=PER_READ, cursor=part["nextCursor"])


ROUTES = [show_audit_page, export_audit]
