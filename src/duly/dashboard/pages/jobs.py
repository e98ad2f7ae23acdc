"""Jobs: the list, searched by anything."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any
from urllib.parse import urlencode

from msgspec import Meta

from duly.dashboard.commands import commands
from duly.dashboard.drawing.charts import SPARK_RUNS, sparkline
from duly.dashboard.terms import JOB_KEYS, parse
from duly.dashboard.view import PageQuery, View, page
from duly.dashboard.words import between
from duly.domain.history import nearest_rank
from duly.http.routing import Call, Reply

PER_PAGE = 25


class JobsQuery(PageQuery, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which jobs: `q` has words and `key:value` terms."""

    q: Annotated[str, Meta(max_length=400)] = ""
    cursor: str | None = None


@page("/jobs")
async def show_jobs(call: Call, query: JobsQuery) -> Reply:
    """The jobs"""
    view = await View.of(call, "/jobs", query)
    terms = parse(query.q, JOB_KEYS, view.now)
    wanted = {**terms.wanted, "search": terms.words or None}
    jobs: list[dict[str, Any]] = []
    following = None
    if terms.trouble is None:
        answer = await view.get("/v1/jobs", **wanted, limit=PER_PAGE, cursor=query.cursor)
        jobs, following = answer["items"], answer["nextCursor"]
    if not terms.wanted.get("state"):
        jobs = [job for job in jobs if job["state"] != "CANCELLED"]
    rows = await asyncio.gather(*(_row(view, job) for job in jobs))
    return view.page(
        "jobs",
        f"Jobs: {query.q}" if query.q else "Jobs",
        commands(f"duly job list{_flags(terms.wanted, terms.words)}", "/v1/jobs", **wanted),
        rows=rows,
        terms=terms,
        following=following,
        keys=JOB_KEYS,
        wanted=urlencode({name: value for name, value in wanted.items() if value is not None}),
    )


async def _row(view: View, job: dict[str, Any]) -> dict[str, Any]:
    runs = (await view.get(f"/v1/jobs/{job['jobId']}/executions", limit=SPARK_RUNS))["items"]
    past = [run for run in runs if run["state"] != "SCHEDULED" or run["attempt"] > 1]
    ended = [run for run in past if run["state"] in ("SUCCEEDED", "DEAD")]
    took = [round(span) for run in ended if (span := between(run["startedAt"], run["finishedAt"])) is not None]
    failing = 0
    for run in ended:
        if run["state"] != "DEAD":
            break
        failing += 1
    return {
        "job": job,
        "spark": sparkline(past[::-1]),
        "succeeded": None if not ended else round(100 * sum(run["state"] == "SUCCEEDED" for run in ended) / len(ended)),
        "p95": nearest_rank(took, 0.95),
        "failing": failing,
        "late": nearest_rank([run["latenessMs"] for run in past if run["latenessMs"] is not None], 0.95),
    }


def _flags(wanted: dict[str, str], words: str) -> str:
    flags = "".join(f" --{name} {value.lower()}" for name, value in wanted.items() if name in ("state", "pool", "handler", "type"))
    return flags + (f" --search {words!r}" if words else "")


ROUTES = [show_jobs]
