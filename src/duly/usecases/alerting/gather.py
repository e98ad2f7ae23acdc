"""Reads what a rule is judged by: bounded, whatever there is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from duly.domain.alerts.evaluate import Incident
from duly.domain.alerts.facts import Facts, Watched
from duly.domain.alerts.rule import DEFAULT_AFTER, OF_JOBS, Kind, Rule
from duly.domain.errors import Invalid
from duly.domain.fire_audit import Missed
from duly.domain.ids import JOB_PREFIX, JobId, id_floor, parse_job_id
from duly.domain.instants import DAY, SECOND, Instant, Micros
from duly.ports.alerts import AlertFacts
from duly.ports.figures import Figures

# A rule about all jobs looks at so many of them in a step: those that have something to show.
MOST_JOBS = 200
RUNS_OF_JOB = 200
# How long without a success is looked back over many runs that failed.
RUNS_WITHOUT_SUCCESS = 1000
MOST_MISSED = 1000
# What waits longer than this waits unseen by rules about lateness.
LOOK_BACK: Micros = 8 * DAY


async def gather(
    facts: AlertFacts, figures: Figures, tenant: int, rule: Rule, since: Instant, live: Iterable[Incident], now: Instant
) -> Facts:
    """The facts for a rule; `since` is when it became what it is. `live` are its incidents, which must be seen again."""
    match rule.kind:
        case Kind.DEAD_LETTERS:
            return Facts(letters=await facts.letters(tenant, now - rule.window))
        case Kind.POOL_SATURATED:
            return Facts(pools=await facts.pools(tenant, now))
        case Kind.WORKER_GONE:
            # Who was lost before somebody asked is no news; but a pool that lost one long ago is not well again by being old.
            return Facts(workers=await facts.workers(tenant, max(now - rule.window, since), now))
        case Kind.STORE_UNHEALTHY:
            return Facts()
        case _:
            return await _of_jobs(facts, figures, tenant, rule, since, list(live), now)


async def _of_jobs(
    facts: AlertFacts, figures: Figures, tenant: int, rule: Rule, since: Instant, live: Sequence[Incident], now: Instant
) -> Facts:
    assert rule.kind in OF_JOBS
    missed = await facts.missed(tenant, MOST_MISSED) if rule.kind in (Kind.LATE, Kind.MISSED) else []
    jobs = await _jobs(facts, tenant, rule, live, missed, now)
    ids = [job.id for job in jobs]
    far = LOOK_BACK if rule.kind in (Kind.LATE, Kind.MISSED, Kind.OVERRUN) else max(rule.window, DAY)
    most = RUNS_OF_JOB
    if rule.kind is Kind.NO_SUCCESS:
        far, most = (rule.condition.after or 0) + DAY, RUNS_WITHOUT_SUCCESS
    runs = await facts.runs(tenant, ids, id_floor(now - far), most)
    expected = await figures.expected(tenant, ids) if rule.kind is Kind.OVERRUN and rule.condition.after is None else {}
    # What was missed before anybody asked stays as it is.
    missed = [item for item in missed if item.found_at >= since]
    found = Facts(jobs, runs, expected, missed, since=max(since, now - DAY))
    if rule.kind is Kind.MISSED:
        return replace(found, runs={id: [run for run in known if run.due_at >= since or run.started_at] for id, known in runs.items()})
    return found


async def _jobs(
    facts: AlertFacts, tenant: int, rule: Rule, live: Sequence[Incident], missed: Sequence[Missed], now: Instant
) -> list[Watched]:
    if rule.jobs:
        return await facts.jobs_named(tenant, rule.jobs, now)
    patience = rule.condition.after or DEFAULT_AFTER.get(rule.kind, 10 * SECOND)
    found = {job.id: job for job in await facts.candidates(tenant, rule.kind, now - max(rule.window, DAY), now - patience, now, MOST_JOBS)}
    again = [*(id for incident in live if (id := _job_of(incident)) is not None), *(item.job_id for item in missed)]
    found |= {job.id: job for job in await facts.watched(tenant, [id for id in dict.fromkeys(again) if id not in found], now)}
    names = [name for incident in live for name in incident.about.jobs if _job_of(incident) is None]
    found |= {job.id: job for job in await facts.jobs_named(tenant, list(dict.fromkeys(names)), now)}
    return list(found.values())


def _job_of(incident: Incident) -> JobId | None:
    if not incident.subject.startswith(JOB_PREFIX):
        return None
    try:
        return parse_job_id(incident.subject)
    except Invalid:
        return None
