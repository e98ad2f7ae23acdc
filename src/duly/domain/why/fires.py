"""Why a job did not run at an instant, or will not: the schedule of then, the job's state, and what is recorded."""

from __future__ import annotations

from datetime import datetime

from duly.domain.dst import DstOverlap, readings_in_gap
from duly.domain.fire_notes import clock
from duly.domain.ids import job_text
from duly.domain.instants import DAY, MINUTE, SECOND, Instant, to_datetime, to_rfc3339
from duly.domain.job import JobVersion
from duly.domain.kinds import plain_note
from duly.domain.lifecycle import JobState
from duly.domain.schedule import (
    CronSchedule,
    PlainSchedule,
    Schedule,
    excluded_by,
    explain_fire,
    is_fire,
    next_fire,
    plain_of,
    previous_fire,
    zone_of,
)
from duly.domain.why.answers import Answer, Reason, WhyCode, known, moment, span
from duly.domain.why.facts import FireFacts, JobFacts
from duly.domain.words import describe
from duly.domain.zones import load_zone, stretch_at

# A fire that is a moment late is not worth a word about the dispatcher.
PUNCTUAL = 2 * SECOND


def job_reasons(job: JobFacts, now: Instant, who: str | None = None) -> list[Reason]:
    """Why the job does not fire now: it is not to, or it waits for its next fire. `who` has paused it."""
    if job.state is JobState.CANCELLED:
        return [_cancelled(job)]
    if job.is_paused(now):
        return [_paused(job, who)]
    schedule = job.version.schedule
    if schedule is None:
        return [_no_schedule(job)]
    if job.state is JobState.COMPLETED or job.next_fire_at is None:
        return [_completed(job)]
    if now - job.next_fire_at > PUNCTUAL:
        return [_late(job, job.next_fire_at, now)]
    return [_waits_for_fire(job, schedule, job.next_fire_at, now)]


def why_fire(facts: FireFacts) -> Answer:
    """What the job did or will do at this instant, and why."""
    version = facts.version
    if version is None or facts.at < facts.job.created_at:
        message = f"The job did not exist at {moment(facts.at)}: it was created at {moment(facts.job.created_at)}."
        return Answer([Reason(WhyCode.BEFORE_JOB, message, {"createdAt": to_rfc3339(facts.job.created_at)}, until=facts.job.created_at)])
    reasons = _of_schedule(facts, version)
    if version.version != facts.job.version.version:
        reasons.append(_other_version(facts, version))
    return Answer(reasons)


def _of_schedule(facts: FireFacts, version: JobVersion) -> list[Reason]:
    schedule = version.schedule
    if schedule is None:
        return [_no_schedule(facts.job)]
    if is_fire(schedule, facts.at):
        clocks = plain_note(plain_of(schedule), facts.at)
        calendar = None if clocks is not None else explain_fire(schedule, facts.at)
        moved = [] if clocks is None else [_clocks(schedule, facts.at, f"{clocks}.")]
        moved += [] if calendar is None else [_by_calendar(calendar, f"A calendar moved it: {calendar}.")]
        return _of_fire(facts, schedule) + moved
    return _no_such_fire(facts, version, schedule)


# ---------------------------------------------------------------- the schedule names it


def _of_fire(facts: FireFacts, schedule: Schedule) -> list[Reason]:
    job, at, now = facts.job, facts.at, facts.now
    if job.state is JobState.CANCELLED:
        return [_cancelled(job)]
    if job.is_paused(at):
        return [_paused(job, None if job.paused_by is None else facts.who(job.paused_by))]
    if job.skip_at == at:
        who = "Somebody" if job.skip_by is None else facts.who(job.skip_by)
        told = known(by=None if job.skip_by is None else who, scheduledAt=to_rfc3339(at))
        return [
            Reason(WhyCode.SKIPPED_ASKED, f"{who} asked to skip the fire at {moment(at)}.", told, hint=f"To undo: duly unskip {job.name}")
        ]
    if job.next_fire_at is not None and job.next_fire_at <= at:
        return [_late(job, at, now)] if at <= now else [_waits_for_fire(job, schedule, at, now)]
    if at > now:
        return [_completed(job)]
    if at < facts.kept_since:
        told = {"keptSince": to_rfc3339(facts.kept_since)}
        message = f"It is older than the history that is kept, which begins at {moment(facts.kept_since)}."
        return [Reason(WhyCode.REMOVED, message, told, until=facts.kept_since, hint="DULY_RETENTION says how long history is kept.")]
    return [
        Reason(
            WhyCode.NOT_RECORDED,
            f"{moment(at)} is a fire of its schedule and nothing is recorded of it: the job was paused then, or waited for another time.",
            {"scheduledAt": to_rfc3339(at)},
            hint=f"To run it now: duly run {job.name}",
        )
    ]


def _late(job: JobFacts, at: Instant, now: Instant) -> Reason:
    overseer = job.overseer
    is_held = overseer is not None and overseer.owner is not None and overseer.lease_until > now
    who = f"dispatcher {overseer.owner} has not come to it yet" if overseer is not None and is_held else "no dispatcher is there to fire it"
    return Reason(
        WhyCode.FIRE_LATE,
        f"It is late by {span(now - at)}: {who}.",
        known(
            scheduledAt=to_rfc3339(at),
            lateMs=(now - at) // 1000,
            dispatcher=overseer.owner if overseer is not None and is_held else None,
            shard=None if overseer is None else overseer.shard,
        ),
        since=at,
        hint=None if is_held else "Start one: duly up, or duly server.",
    )


def _waits_for_fire(job: JobFacts, schedule: Schedule, at: Instant, now: Instant) -> Reason:
    note = explain_fire(schedule, at)
    return Reason(
        WhyCode.WAITS_FOR_FIRE,
        f"It fires in {span(at - now)}, at {moment(at)}{f' ({note})' if note else ''}.",
        known(nextFireAt=to_rfc3339(at), schedule=describe(schedule), note=note),
        until=at,
        hint=f"To run it now: duly run {job.name}",
    )


# ---------------------------------------------------------------- the schedule does not name it


def _no_such_fire(facts: FireFacts, version: JobVersion, schedule: Schedule) -> list[Reason]:
    at, timing = facts.at, version.spec.timing
    reasons: list[Reason] = []
    if timing.start_at is not None and at < timing.start_at:
        message = f"It lies before the schedule's start, {moment(timing.start_at)}."
        reasons.append(Reason(WhyCode.BEFORE_START, message, {"startAt": to_rfc3339(timing.start_at)}, until=timing.start_at))
    if timing.end_at is not None and at > timing.end_at:
        message = f"It lies after the schedule's end, {moment(timing.end_at)}."
        reasons.append(Reason(WhyCode.AFTER_END, message, {"endAt": to_rfc3339(timing.end_at)}, since=timing.end_at))
    calendar = excluded_by(schedule, at)
    if calendar is not None:
        reasons.append(_by_calendar(calendar, f"A calendar excludes {moment(at)}: {calendar}."))
    clocks = clocks_note(plain_of(schedule), at)
    if clocks is not None:
        reasons.append(_clocks(schedule, at, clocks))
    nearest = [fire for fire in (previous_fire(schedule, at), next_fire(schedule, at)) if fire is not None]
    names = " and ".join(f"{moment(fire)} ({_local(schedule, fire)})" for fire in nearest) or "none at all"
    notes = [f"{moment(fire)}: {note}" for fire in nearest if abs(fire - at) <= DAY and (note := explain_fire(schedule, fire))]
    reasons.append(
        Reason(
            WhyCode.NOT_A_FIRE,
            f"{moment(at)} is not a time of its schedule ({describe(schedule)}); the nearest are {names}.",
            known(schedule=describe(schedule), nearest=[to_rfc3339(fire) for fire in nearest], notes=notes or None),
        )
    )
    return reasons


def _by_calendar(words: str, message: str) -> Reason:
    return Reason(WhyCode.EXCLUDED, message, {"calendar": words}, hint="See calendars and onExcluded of the job.")


def _local(schedule: Schedule, at: Instant) -> str:
    zone = zone_of(plain_of(schedule))
    return f"{to_datetime(at).astimezone(load_zone(zone)):%a %d %b %H:%M} in {zone}"


def _clocks(schedule: Schedule, at: Instant, message: str) -> Reason:
    zone = zone_of(plain_of(schedule))
    return Reason(
        WhyCode.CLOCKS_CHANGED, message, {"timezone": zone, "local": _local(schedule, at)}, hint="See dstGap and dstOverlap of the job."
    )


def clocks_note(schedule: PlainSchedule, at: Instant) -> str | None:
    """What a change of the clocks did to a time near `at` that the expression names and the schedule does not fire at."""
    if not isinstance(schedule, CronSchedule) or schedule.cron.is_wild or at % SECOND:
        return None
    second = at // SECOND
    stretch = stretch_at(schedule.zone, second)
    gap = stretch.offset - stretch.offset_before
    if gap > 0 and second - stretch.start < max(gap, MINUTE // SECOND):
        skipped = readings_in_gap(schedule.cron, stretch, 1)
        if skipped:
            day = datetime.fromtimestamp(skipped[0], to_datetime(0).tzinfo).strftime("%Y-%m-%d")
            fires = next_fire(schedule, stretch.start * SECOND - 1)
            moved = fires is not None and fires - stretch.start * SECOND < gap * SECOND
            when = f"it runs at {moment(fires)} instead" if fires is not None and moved else "it does not run that day"
            missing = f"{clock(skipped[0])} did not exist on {day}: the clocks in {schedule.zone} went forward over it"
            return f"{missing}; {when} (dstGap {schedule.gap.value})."
    reading = second + stretch.offset
    if not schedule.cron.matches(reading):
        return None
    shown_before = stretch.offset_before > stretch.offset and reading < stretch.repeats_until
    shown_again = stretch.offset_after < stretch.offset and reading >= stretch.repeated_from
    if shown_before and schedule.overlap is DstOverlap.FIRST:
        return f"{clock(reading)} happened twice on this day in {schedule.zone}, and it runs the first time only (dstOverlap first)."
    if shown_again and schedule.overlap is DstOverlap.SECOND:
        return f"{clock(reading)} happens twice on this day in {schedule.zone}, and it runs the second time only (dstOverlap second)."
    return None


# ---------------------------------------------------------------- the job


def _paused(job: JobFacts, who: str | None) -> Reason:
    until = f" until {moment(job.paused_until)}" if job.paused_until is not None else ""
    since = f" since {moment(job.paused_at)}" if job.paused_at is not None else ""
    reason = f": {job.pause_reason}" if job.pause_reason else ""
    return Reason(
        WhyCode.JOB_PAUSED,
        f"The job is paused{f' by {who}' if who else ''}{since}{until}{reason}.",
        known(by=who, reason=job.pause_reason, pausedAt=_shown(job.paused_at), pausedUntil=_shown(job.paused_until)),
        since=job.paused_at,
        until=job.paused_until,
        hint=f"To let it fire again: duly job resume {job.name}",
    )


def _cancelled(job: JobFacts) -> Reason:
    message = "The job is cancelled: it fires no more."
    return Reason(WhyCode.JOB_CANCELLED, message, {"jobId": job_text(job.id)}, hint="Create a new one: duly job create -h")


def _completed(job: JobFacts) -> Reason:
    schedule = job.version.schedule
    told = {"jobId": job_text(job.id), **({"schedule": describe(schedule)} if schedule is not None else {})}
    return Reason(
        WhyCode.JOB_COMPLETED, "The job is completed: its schedule has no more fires.", told, hint=f"To run it now: duly run {job.name}"
    )


def _no_schedule(job: JobFacts) -> Reason:
    message = "The job has no schedule: it runs only when it is asked to."
    return Reason(WhyCode.NO_SCHEDULE, message, {"jobId": job_text(job.id)}, hint=f"To run it now: duly run {job.name}")


def _other_version(facts: FireFacts, version: JobVersion) -> Reason:
    then, today = version.schedule, facts.job.version.schedule
    words = "no schedule" if then is None else describe(then)
    return Reason(
        WhyCode.OTHER_VERSION,
        f"Version {version.version} of the job was current then ({words}); today it is version {facts.job.version.version}.",
        known(
            version=version.version,
            schedule=words,
            currentVersion=facts.job.version.version,
            currentSchedule=None if today is None else describe(today),
        ),
        since=version.created_at,
    )


def _shown(at: Instant | None) -> str | None:
    return None if at is None else to_rfc3339(at)
