"""Reads what a rule is judged by: bounded, whatever there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from duly.domain.alerts.evaluate import Incident
from duly.domain.alerts.facts import Facts, Run, Watched
from duly.domain.alerts.rule import DEFAULT_AFTER, OF_JOBS, Kind, Rule
from duly.domain.errors import Invalid
from duly.domain.fire_audit import Missed
from duly.domain.ids import JOB_PREFIX, JobId, parse_job_id
from duly.domain.instants import DAY, SECOND, Instant
from duly.domain.lifecycle import State
from duly.usecases.alerting.looks import LOOK_BACK, RUNS_OF_JOB, Looks

# A rule about all jobs looks at so many of them in a step: those that have something to show.
MOST_JOBS = 200
OF_ENDS = frozenset({Kind.FINAL_FAILURE, Kind.FAILURES, Kind.FAILURE_RATE})
_ENDED = (State.SUCCEEDED, State.DEAD)


async def gather(looks: Looks, tenant: int, rule: Rule, since: Instant, live: Iterable[Incident]) -> Facts:
    """The facts for a rule; `since` is when it became what it is. `live` are its incidents, which must be seen again."""
    now, live = looks.now, list(live)
    match rule.kind:
        case Kind.DEAD_LETTERS:
            return Facts(letters=await looks.facts.letters(tenant, now - rule.window))
        case Kind.POOL_SATURATED:
            return Facts(pools=await looks.pools(tenant))
        case Kind.WORKER_GONE:
            # Who was lost before somebody asked is no news, unless it was told already.
            asked = min([since, *(incident.since - 1 for incident in live)])
            return Facts(workers=await looks.workers(tenant, max(now - rule.window, asked)))
        case Kind.STORE_UNHEALTHY:
            return Facts()
        case _:
            return await _of_jobs(looks, tenant, rule, since, live)


async def _of_jobs(looks: Looks, tenant: int, rule: Rule, since: Instant, live: Sequence[Incident]) -> Facts:
    assert rule.kind in OF_JOBS
    now = looks.now
    missed = await looks.missed(tenant) if rule.kind in (Kind.LATE, Kind.MISSED) else []
    jobs = await _jobs(looks, tenant, rule, live, missed)
    ids = [job.id for job in jobs]
    since_of = _told_since(rule, jobs, live, since)
    if rule.kind is Kind.NO_SUCCESS:
        successes = await looks.successes(tenant, ids)
        # Only what has something to say needs words.
        silent = [id for id in ids if now - (successes[id] or 0) > (rule.condition.after or 0)]
        return Facts(jobs, await looks.runs(tenant, silent), successes=successes, successes_since=now - LOOK_BACK)
    runs: Mapping[JobId, Sequence[Run]] = await looks.runs(tenant, ids)
    if rule.kind in OF_ENDS:
        deaths = await looks.deaths(tenant, now - max(rule.window, DAY))
        runs = {id: await _with_ends(looks, tenant, id, known, deaths.get(id, ())) for id, known in runs.items()}
        return Facts(jobs, runs, since=max(since, now - DAY), since_of=since_of, deaths=deaths)
    expected = await looks.expected(tenant, ids) if rule.kind is Kind.OVERRUN and rule.condition.after is None else {}
    # What was missed before anybody asked stays as it is.
    missed = [item for item in missed if item.found_at >= since_of.get(item.job_id, since)]
    found = Facts(jobs, runs, expected, missed, since=max(since, now - DAY))
    if rule.kind is Kind.MISSED:
        asked = {
            id: [run for run in known if run.due_at >= since_of.get(id, since) or run.started_at is not None] for id, known in runs.items()
        }
        return replace(found, runs=asked)
    return found


def _told_since(rule: Rule, jobs: Sequence[Watched], live: Sequence[Incident], since: Instant) -> dict[JobId, Instant]:
    """From when on each job is looked at about which something is open: from before that, whoever has changed the rule meanwhile."""
    found: dict[JobId, Instant] = {}
    # A run was due so long before it was missed.
    before = max(rule.condition.after or 0, DAY)
    for incident in live:
        for job in jobs:
            if _job_of(incident) == job.id or job.name in incident.about.jobs:
                found[job.id] = min(found.get(job.id, since), incident.since - before)
    return found


async def _with_ends(looks: Looks, tenant: int, job: JobId, runs: Sequence[Run], deaths: Sequence[Run]) -> Sequence[Run]:
    """The newest runs; but where so many wait that no ends are among them, those around the last that died."""
    ends = sum(run.state in _ENDED for run in runs)
    if not deaths or len(runs) < RUNS_OF_JOB or ends >= RUNS_OF_JOB // 2:
        return runs
    last = max(deaths, key=lambda run: (run.finished_at or 0, run.id.int))
    return await looks.runs_around(tenant, job, last.id)


async def _jobs(looks: Looks, tenant: int, rule: Rule, live: Sequence[Incident], missed: Sequence[Missed]) -> list[Watched]:
    if rule.jobs:
        return await looks.jobs_named(tenant, rule.jobs)
    now = looks.now
    patience = rule.condition.after or DEFAULT_AFTER.get(rule.kind, 10 * SECOND)
    shown = await looks.facts.candidates(tenant, rule.kind, now - max(rule.window, DAY), now - patience, now, MOST_JOBS)
    found: Mapping[JobId, Watched] = {job.id: job for job in shown}
    again = [*(id for incident in live if (id := _job_of(incident)) is not None), *(item.job_id for item in missed)]
    seen = await looks.facts.watched(tenant, [id for id in dict.fromkeys(again) if id not in found], now)
    names = [name for incident in live for name in incident.about.jobs if _job_of(incident) is None]
    named = await looks.jobs_named(tenant, list(dict.fromkeys(names)))
    return list({**found, **{job.id: job for job in (*seen, *named)}}.values())


def _job_of(incident: Incident) -> JobId | None:
    if not incident.subject.startswith(JOB_PREFIX):
        return None
    try:
        return parse_job_id(incident.subject)
    except Invalid:
        return None
