"""Two runs beside each other: what was so of each, what they were given and gave back, their attempts, and where they differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Annotated, Any

from msgspec import Meta

from duly.dashboard.commands import commands
from duly.dashboard.pages.execution import bounds, picture
from duly.dashboard.view import PageQuery, View, page
from duly.dashboard.words import plain, pretty, short_id, span, took
from duly.http.routing import Call, Reply

RunText = Annotated[str, Meta(pattern=r"^run_[0-9a-f]{32}\Z")]
OFFERED = 50
# Of a document so many lines are compared, and so many around a change are shown.
MOST_LINES = 1000
AROUND = 3


class ComparePageQuery(PageQuery, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which run, and the one that it is compared with: the run of the same job before it, when that is left out."""

    run: RunText | None = None
    other: RunText | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that is known of both. `kind` says how it is written; `change` how far a number has moved."""

    name: str
    kind: str
    before: Any
    after: Any
    change: str | None = None

    @property
    def differs(self) -> bool:
        """Whether it is not the same in both."""
        return bool(self.before != self.after)


@page("/compare")
async def show_comparison(call: Call, query: ComparePageQuery) -> Reply:
    """Two runs beside each other"""
    view = await View.of(call, "/compare", query)
    context: dict[str, Any] = {"section": "/executions", "run": None, "other": None, "offered": []}
    if query.run is None:
        return view.page("compare", "Compare two runs", **context)
    run = await view.get(f"/v1/executions/{query.run}")
    context |= {"run": run, "offered": (await view.get(f"/v1/jobs/{run['jobId']}/executions", limit=OFFERED))["items"]}
    other = await view.get(f"/v1/executions/{query.other}") if query.other is not None else await _before(view, run)
    title = f"Compare {run['jobName']} · {short_id(query.run)}"
    if other is None:
        return view.page("compare", title, commands(f"duly run compare {query.run}", f"/v1/executions/{query.run}"), **context)
    both = (other, run)
    attempts = [(await view.get(f"/v1/executions/{each['executionId']}/attempts"))["items"] for each in both]
    longest = max(_length(view, *each) for each in zip(both, attempts, strict=True))
    rows = _rows(*both)
    context |= {
        "other": other,
        "rows": rows,
        "differing": sum(row.differs for row in rows),
        "pictures": [picture(view, each, some, longest) for each, some in zip(both, attempts, strict=True)],
        "attempts": attempts,
        "payload": difference(other["payload"], run["payload"]),
        "result": difference(other["result"], run["result"]),
    }
    words = f"duly run compare {query.run} {other['executionId']}"
    return view.page("compare", f"{title} and {short_id(other['executionId'])}", commands(words, f"/v1/executions/{query.run}"), **context)


async def _before(view: View, run: dict[str, Any]) -> dict[str, Any] | None:
    """The run of the same job that was due before this one."""
    found = await view.get("/v1/executions", jobId=run["jobId"], until=run["scheduledAt"], limit=1)
    return found["items"][0] if found["items"] else None


def _length(view: View, run: dict[str, Any], attempts: list[dict[str, Any]]) -> int:
    drawn = bounds(view, run, attempts)
    return 1 if drawn is None else drawn[1] - drawn[0]


def _rows(before: dict[str, Any], after: dict[str, Any]) -> list[Row]:
    """What `duly run compare` knows, in its order."""

    def row(name: str, kind: str, value: Callable[[dict[str, Any]], Any]) -> Row:
        one, two = value(before), value(after)
        return Row(name, kind, one, two, _moved(one, two) if kind == "span" else None)

    found = [
        row("Job", "text", lambda run: run["jobName"]),
        row("State", "state", lambda run: run["state"]),
        row("By", "text", lambda run: run["trigger"]),
        row("Due", "time", lambda run: run["scheduledAt"]),
        row("Started", "time", lambda run: run["startedAt"]),
        row("Late by", "span", lambda run: run["latenessMs"]),
        row("Took", "span", took),
        row("Ended", "time", lambda run: run["finishedAt"]),
        row("Attempts", "text", lambda run: f"{run['attempt']} of {run['maxAttempts']}"),
        row("Worker", "text", lambda run: run["workerId"]),
        row("Progress", "text", lambda run: None if run["progress"] is None else plain(run["progress"])),
        row("Checkpoint", "text", lambda run: None if run["checkpoint"] is None else f"no. {run['checkpoint']['number']}"),
        row("Skipped because", "text", lambda run: run["skipReason"]),
        row("Error", "text", lambda run: _error(run["error"])),
        row("Replayed as", "run", lambda run: run["replayedAs"]),
        row("Discarded", "time", lambda run: run["discardedAt"]),
        row("Batch", "text", lambda run: run["batchId"]),
    ]
    return [row for row in found if row.before is not None or row.after is not None]


def _error(error: Any) -> str | None:
    if not isinstance(error, dict):
        return None if error is None else plain(error)
    return ": ".join(str(error[key]) for key in ("type", "message") if error.get(key)) or str(error.get("reason", "")) or None


def _moved(before: float | None, after: float | None) -> str | None:
    """How much longer or shorter, and by which factor where that says something."""
    if before is None or after is None or before == after:
        return None
    sign = "+" if after > before else "−"
    factor = f", {after / before:.1f}×" if before >= 1 and not 0.95 < after / before < 1.05 else ""
    return f"{sign}{span(abs(after - before))}{factor}"


def difference(before: Any, after: Any) -> list[tuple[str, str]] | None:
    """Two documents line by line, each with what has become of it (`-`, `+`, ` `, or `…` for what is left out); None: they are the same."""
    if before == after:
        return None
    one, two = (pretty(value).splitlines()[:MOST_LINES] for value in (before, after))
    found: list[tuple[str, str]] = []
    for group in SequenceMatcher(None, one, two, autojunk=False).get_grouped_opcodes(AROUND):
        if found:
            found.append(("…", ""))
        for tag, first, last, start, end in group:
            if tag == "equal":
                found += [(" ", line) for line in one[first:last]]
                continue
            found += [("-", line) for line in one[first:last]]
            found += [("+", line) for line in two[start:end]]
    return found


ROUTES = [show_comparison]
