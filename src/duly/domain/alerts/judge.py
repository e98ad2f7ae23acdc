"""From facts to readings: for every subject whether the condition holds, and in which words.

Pure, so what the alerter does and what a preview says of the past are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from json import loads
from typing import assert_never

from duly.domain.alerts.facts import Facts, PoolFacts, Run, Watched, WorkerFacts
from duly.domain.alerts.rule import DEFAULT_AFTER, DEFAULT_COUNTS, GroupBy, Kind, Rule
from duly.domain.causes import cause_of
from duly.domain.durations import format_duration
from duly.domain.expected import Expected
from duly.domain.fire_audit import Missed
from duly.domain.ids import ExecutionId, execution_text, job_text
from duly.domain.instants import MINUTE, SECOND, Instant, Micros, to_rfc3339
from duly.domain.lifecycle import SkipReason, State, Trigger

WAITING = frozenset({State.SCHEDULED, State.BLOCKED, State.PENDING})
# So many jobs, executions or workers are named in an alert; the rest are counted.
NAMED = 10
LONGEST_ERROR = 300
# Nothing that is expected to end sooner overruns: it would be news before anybody could look.
SHORTEST_OVERRUN: Micros = 10 * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a rule sees of one subject. `lingers`: it would not begin like this, and is not over either.

    `news` are deaths, each with when it was: they are told even if the job is well again by now.
    """

    subject: str
    is_bad: bool
    lingers: bool = False
    title: str
    lines: tuple[str, ...] = ()
    since: Instant | None = None
    jobs: tuple[str, ...] = ()
    news: tuple[tuple[ExecutionId, Instant], ...] = ()


@dataclass(slots=True)
class _Trouble:
    """What one job's runs say: bad or not, why, since when."""

    job: Watched
    is_bad: bool
    title: str = ""
    lines: list[str] = field(default_factory=list)
    since: Instant | None = None
    news: list[Run] = field(default_factory=list)
    lingers: bool = False


def readings(rule: Rule, facts: Facts, now: Instant) -> list[Reading]:
    """What the rule sees, by subject. A subject that is not here has nothing to say: it is well."""
    match rule.kind:
        case Kind.POOL_SATURATED:
            return [_saturated(rule, pool, now) for pool in facts.pools if not rule.pools or pool.name in rule.pools]
        case Kind.WORKER_GONE:
            return _workers_gone(rule, facts.workers, now)
        case Kind.DEAD_LETTERS:
            return [_letters(rule, facts.letters)]
        case Kind.STORE_UNHEALTHY:
            return []
        case _:
            return _grouped(rule, [_of_job(rule, job, facts, now) for job in facts.jobs])


# ---------------------------------------------------------------- jobs


def _of_job(rule: Rule, job: Watched, facts: Facts, now: Instant) -> _Trouble:
    runs = facts.runs.get(job.id, ())
    match rule.kind:
        case Kind.FINAL_FAILURE:
            return _failed(rule, job, [*runs, *facts.deaths.get(job.id, ())], facts.begins(job.id))
        case Kind.FAILURES:
            return _in_a_row(rule, job, runs)
        case Kind.FAILURE_RATE:
            return _rate(rule, job, runs, now)
        case Kind.LATE:
            return _late(rule, job, runs, now)
        case Kind.MISSED:
            return _missed(rule, job, runs, [item for item in facts.missed if item.job_id == job.id], now)
        case Kind.OVERRUN:
            return _overrun(rule, job, runs, facts.expected.get(job.id), now)
        case Kind.NO_SUCCESS:
            return _no_success(rule, job, runs, facts, now)
        case Kind.POOL_SATURATED | Kind.WORKER_GONE | Kind.DEAD_LETTERS | Kind.STORE_UNHEALTHY:
            raise AssertionError(rule.kind)
        case _:
            assert_never(rule.kind)


def ended(runs: Iterable[Run]) -> list[Run]:
    """Those that ended as a success or for good, each once, latest end first. What was cancelled or skipped is neither."""
    found = {run.id: run for run in runs if run.state in (State.SUCCEEDED, State.DEAD)}
    return sorted(found.values(), key=lambda run: (run.finished_at or 0, run.id.int), reverse=True)


def _good_runs(ends: Sequence[Run]) -> int:
    """How many successes in a row there were last."""
    return next((nth for nth, run in enumerate(ends) if run.state is State.DEAD), len(ends))


def _failed(rule: Rule, job: Watched, runs: Sequence[Run], since: Instant) -> _Trouble:
    ends = ended(runs)
    dead = [run for run in ends if run.state is State.DEAD and (run.finished_at or 0) > since]
    if not dead:
        return _Trouble(job, False)
    words = [_why(run) for run in dead[:3]]
    is_bad = _good_runs(ends) < rule.recovery.runs
    return _Trouble(job, is_bad, f"{job.name} failed for good", words, dead[0].finished_at, dead)


def _in_a_row(rule: Rule, job: Watched, runs: Sequence[Run]) -> _Trouble:
    ends, wanted = ended(runs), rule.condition.count or DEFAULT_COUNTS[Kind.FAILURES]
    good = _good_runs(ends)
    row = next((nth for nth, run in enumerate(ends[good:]) if run.state is not State.DEAD), len(ends) - good)
    last = ends[good : good + row]
    # A row is trouble until as many good runs as recovery takes have followed it.
    if row < wanted or good >= rule.recovery.runs:
        return _Trouble(job, False)
    lines = [_why(last[0]), f"the first of them ended at {to_rfc3339(last[-1].finished_at or 0)}"]
    return _Trouble(job, True, f"{job.name} failed {row} times in a row", lines, last[-1].finished_at)


def _rate(rule: Rule, job: Watched, runs: Sequence[Run], now: Instant) -> _Trouble:
    ends = [run for run in ended(runs) if (run.finished_at or 0) > now - rule.window]
    dead = [run for run in ends if run.state is State.DEAD]
    share = 100 * len(dead) / len(ends) if ends else 0.0
    bound = rule.condition.percent or 0.0
    title = f"{job.name} fails: {share:.0f} % of its runs in the last {format_duration(rule.window)}"
    lines = [f"{len(dead)} of {len(ends)} runs failed for good; the rule allows less than {bound:g} %", *(_why(run) for run in dead[:1])]
    if len(ends) >= rule.condition.least and share >= bound:
        return _Trouble(job, True, title, lines, dead[-1].finished_at if dead else None)
    over = rule.recovery.percent
    return _Trouble(job, False, title, lines, lingers=over is not None and len(ends) > 0 and share >= over)


def _late(rule: Rule, job: Watched, runs: Sequence[Run], now: Instant) -> _Trouble:
    after = rule.condition.after or DEFAULT_AFTER[Kind.LATE]
    waiting = [run for run in runs if run.state in WAITING and run.started_at is None and now - run.due_at > after]
    begun = sorted((run for run in runs if run.started_at is not None), key=lambda run: run.started_at or 0)
    slow = [run for run in begun[-1:] if (run.started_at or 0) - run.due_at > after]
    late = sorted([*waiting, *slow], key=lambda run: run.due_at)
    if not late:
        return _Trouble(job, False)
    worst = max((run.started_at or now) - run.due_at for run in late)
    lines = [f"{_named(run)} was due at {to_rfc3339(run.due_at)} and {_has_started(run)}" for run in late[:3]]
    return _Trouble(job, True, f"{job.name} is late by {_span(worst)}", lines, late[0].due_at + after)


def _missed(rule: Rule, job: Watched, runs: Sequence[Run], missing: Sequence[Missed], now: Instant) -> _Trouble:
    after = rule.condition.after or DEFAULT_AFTER[Kind.MISSED]
    lines: list[str] = []
    times: list[Instant] = []
    good = max((run.due_at for run in runs if run.started_at is not None), default=-1)
    for item in missing:
        if now - item.at > after:
            times.append(item.at)
            lines.append(f"nothing is recorded of the run of {to_rfc3339(item.at)}")
    for run in runs:
        if run.trigger is not Trigger.SCHEDULE or now - run.due_at <= after:
            continue
        if run.state in WAITING and run.started_at is None:
            times.append(run.due_at)
            lines.append(f"{_named(run)} of {to_rfc3339(run.due_at)} has not started")
        elif run.skip is SkipReason.MISFIRE and run.due_at > good:
            times.append(run.due_at)
            lines.append(f"{_named(run)} of {to_rfc3339(run.due_at)} was skipped: it was found too late")
    if not times or job.is_stopped:
        return _Trouble(job, False)
    if len(lines) > NAMED:
        lines = [*lines[:NAMED], f"and {len(lines) - NAMED} more"]
    first = min(times)
    what = f"the run of {to_rfc3339(first)}" if len(times) == 1 else f"{len(times)} runs since {to_rfc3339(first)}"
    return _Trouble(job, True, f"{job.name} was missed: {what}", lines, first + after)


def overrun_after(expected: Expected, factor: float) -> Micros:
    """So long a run may take."""
    return max(round(expected.p95 * factor), SHORTEST_OVERRUN)


def _overrun(rule: Rule, job: Watched, runs: Sequence[Run], expected: Expected | None, now: Instant) -> _Trouble:
    if rule.condition.after is not None:
        limit, words = rule.condition.after, f"longer than {_span(rule.condition.after)}"
    elif expected is not None:
        limit = overrun_after(expected, rule.condition.factor)
        words = f"and mostly takes no more than {_span(expected.p95)}"
    else:
        return _Trouble(job, False)
    long = [run for run in runs if run.state is State.RUNNING and run.running_since is not None and now - run.running_since > limit]
    if not long:
        return _Trouble(job, False)
    worst = min(run.running_since or now for run in long)
    lines = [f"{_named(run)} has run since {to_rfc3339(run.running_since or 0)}, {words}" for run in long[:3]]
    return _Trouble(job, True, f"{job.name} overruns: it has run for {_span(now - worst)}", lines, worst + limit)


def _no_success(rule: Rule, job: Watched, runs: Sequence[Run], facts: Facts, now: Instant) -> _Trouble:
    after = rule.condition.after or 0
    if facts.successes is None:
        last = max((run.finished_at or 0 for run in runs if run.state is State.SUCCEEDED), default=None)
    else:
        last = facts.successes.get(job.id)
    since = max(job.created_at, facts.successes_since) if last is None else last
    # Nobody expects a success of a job that is stopped, and one that goes on has as long for it as a new one.
    expected_from = max(since, job.resumed_at or since)
    if now - expected_from <= after or job.is_stopped:
        return _Trouble(job, False)
    if last is not None:
        words = f"its last success ended at {to_rfc3339(last)}"
    else:
        words = "it has never succeeded" if job.created_at >= facts.successes_since else f"it has not succeeded since {to_rfc3339(since)}"
    lines = [words, *(_why(run) for run in ended(runs)[:1] if run.state is State.DEAD)]
    return _Trouble(job, True, f"{job.name} has not succeeded for {_span(now - since)}", lines, expected_from + after)


# ---------------------------------------------------------------- groups


def _grouped(rule: Rule, troubles: Sequence[_Trouble]) -> list[Reading]:
    groups: dict[str, list[_Trouble]] = {}
    for trouble in troubles:
        for subject, part in _subjects(rule, trouble):
            groups.setdefault(subject, []).append(part)
    return [_merged(subject, parts) for subject, parts in groups.items()]


def _subjects(rule: Rule, trouble: _Trouble) -> list[tuple[str, _Trouble]]:
    match rule.group_by:
        case GroupBy.JOB:
            return [(job_text(trouble.job.id), trouble)]
        case GroupBy.POOL:
            return [(f"pool {trouble.job.pool}", trouble)]
        case GroupBy.ALL:
            return [("all", trouble)]
        case GroupBy.CAUSE:
            # Deaths of one cause are one, whatever the job; the rest of a job's trouble is its own.
            causes: dict[str, list[Run]] = {}
            for run in trouble.news:
                causes.setdefault(_cause(run), []).append(run)
            if not causes:
                return [(job_text(trouble.job.id), trouble)]
            return [(f"cause {key}", replace(trouble, news=runs)) for key, runs in causes.items()]
        case _:
            assert_never(rule.group_by)


def _merged(subject: str, parts: Sequence[_Trouble]) -> Reading:
    bad = [part for part in parts if part.is_bad]
    shown = bad or [part for part in parts if part.news]
    news = tuple((run.id, run.finished_at or 0) for part in parts for run in part.news)
    lingers = any(part.lingers for part in parts)
    if not shown:
        return Reading(subject=subject, is_bad=False, lingers=lingers, title="", news=news)
    title = shown[0].title
    if len(shown) > 1:
        title = f"{title}, and {len(shown) - 1} more {'job' if len(shown) == 2 else 'jobs'}"
    lines = [*shown[0].lines, *(part.title for part in shown[1:NAMED])]
    since = min((part.since for part in bad if part.since is not None), default=None)
    jobs = tuple(part.job.name for part in shown[:NAMED])
    return Reading(subject=subject, is_bad=bool(bad), lingers=lingers, title=title, lines=tuple(lines), since=since, jobs=jobs, news=news)


# ---------------------------------------------------------------- pools and workers


def _saturated(rule: Rule, pool: PoolFacts, now: Instant) -> Reading:
    after = rule.condition.after or DEFAULT_AFTER[Kind.POOL_SATURATED]
    wait = 0 if pool.oldest_due_at is None or pool.waiting == 0 else now - pool.oldest_due_at
    count = f"{pool.workers} live {'worker' if pool.workers == 1 else 'workers'}"
    served = f"{count} with {pool.slots} slots" if pool.workers else "no live worker serves it"
    return Reading(
        subject=f"pool {pool.name}",
        is_bad=wait > after,
        title=f"pool {pool.name} is saturated: {pool.waiting} {'waits' if pool.waiting == 1 else 'wait'}, the oldest for {_span(wait)}",
        lines=(served,),
        since=None if pool.oldest_due_at is None else pool.oldest_due_at + after,
    )


def _workers_gone(rule: Rule, workers: Sequence[WorkerFacts], now: Instant) -> list[Reading]:
    found: list[Reading] = []
    for pool in sorted({worker.pool for worker in workers}):
        if rule.pools and pool not in rule.pools:
            continue
        own = [worker for worker in workers if worker.pool == pool]
        missing = _without_successor([worker for worker in own if worker.lost_at is None or worker.lost_at > now - rule.window])
        names = ", ".join(worker.name for worker in missing[:NAMED])
        count = len(missing)
        title = f"a worker of pool {pool} is gone: {names}" if count == 1 else f"{count} workers of pool {pool} are gone: {names}"
        lines = [f"{worker.name} has not been heard of since {to_rfc3339(_lost_at(worker))}" for worker in missing[:3]]
        found.append(
            Reading(
                subject=f"pool {pool}",
                is_bad=count >= (rule.condition.count or DEFAULT_COUNTS[Kind.WORKER_GONE]),
                title=title,
                lines=tuple(lines),
                since=_lost_at(missing[0]) if missing else None,
            )
        )
    return found


def _without_successor(workers: Sequence[WorkerFacts]) -> list[WorkerFacts]:
    """Whoever began after a loss has taken the place of the first that was still empty, even if it was lost or has retired since."""
    changes = [(_lost_at(worker), 0, worker) for worker in workers if worker.lost_at is not None]
    changes += [(worker.started_at, 1, worker) for worker in workers]
    missing: list[WorkerFacts] = []
    for _, began, worker in sorted(changes, key=lambda change: change[:2]):
        if not began:
            missing.append(worker)
        elif missing:
            del missing[0]
    return missing


def _letters(rule: Rule, count: int) -> Reading:
    bound = rule.condition.count or DEFAULT_COUNTS[Kind.DEAD_LETTERS]
    return Reading(
        subject="dead letters",
        is_bad=count >= bound,
        title=f"dead letters grow: {count} in the last {format_duration(rule.window)}",
        lines=(f"the rule allows fewer than {bound}",),
    )


# ---------------------------------------------------------------- words


def _lost_at(worker: WorkerFacts) -> Instant:
    return worker.lost_at or 0


def _named(run: Run) -> str:
    return execution_text(run.id)


def _has_started(run: Run) -> str:
    return "has not started" if run.started_at is None else f"started at {to_rfc3339(run.started_at)}"


def _error(run: Run) -> dict[str, object]:
    try:
        told = loads(run.error) if run.error else {}
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _why(run: Run) -> str:
    told = _error(run)
    words = ": ".join(str(told[name]) for name in ("type", "message") if told.get(name))
    return f"{_named(run)} ended with {' '.join(words.split())[:LONGEST_ERROR] or 'no error that was told'}"


def _cause(run: Run) -> str:
    told = _error(run)
    kind, message = told.get("type"), told.get("message")
    # Without the job: one broken database is one cause, however many jobs need it.
    return cause_of(_NO_JOB, str(kind) if kind else None, str(message) if message else None).key


def _span(micros: Micros) -> str:
    """A length of time for people: to the second, to the minute once there are hours."""
    step = SECOND if micros < 60 * MINUTE else MINUTE
    return format_duration(max(micros - micros % step, 0) or 0)


_NO_JOB = ExecutionId(int=0)
