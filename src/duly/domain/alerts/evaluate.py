"""An incident's life: from a reading and the incident of before to the incident as it is now, and what is told of it.

    ── holds ──▶ PENDING ── for the grace ──▶ OPEN ── does not hold, for as long as recovery takes ──▶ RESOLVED
                    └── does not hold ──▶ forgotten

Nothing is written here: the store takes a move only where the incident still is what was read, so two who evaluate the same open one
incident and tell of it once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from uuid import UUID

from duly.domain.alerts.judge import Reading
from duly.domain.alerts.rule import Kind, Rule
from duly.domain.errors import Invalid
from duly.domain.instants import MINUTE, Instant, Micros

# What ended so long before an incident did may have been written after it.
LATE_WRITES: Micros = 10 * MINUTE
MOST_SEEN = 200
INCIDENT_PREFIX = "inc_"
# Kinds whose words count something: whoever looks at an open one wants to know how many there are now.
COUNTING = frozenset({Kind.MISSED, Kind.FAILURES, Kind.FAILURE_RATE, Kind.DEAD_LETTERS, Kind.POOL_SATURATED, Kind.WORKER_GONE})

_DIGITS = re.compile("[0-9a-f]{32}")


def parse_incident_id(text: str) -> UUID:
    """Read `inc_…`; raises Invalid for anything else."""
    digits = text.removeprefix(INCIDENT_PREFIX)
    if len(text) != 32 + len(INCIDENT_PREFIX) or _DIGITS.fullmatch(digits) is None:
        hint = "Ids look like inc_0198c2…, with 32 hexadecimal digits."
        raise Invalid("DULY-E111", f"{text[:60]!r} is not an id.", field="incidentId", hint=hint)
    return UUID(hex=digits)


class Phase(IntEnum):
    """Where an incident stands."""

    PENDING = 0
    OPEN = 1
    RESOLVED = 2


class Event(IntEnum):
    """What is told of an incident."""

    OPENED = 0
    RESOLVED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What an incident is about, in words, and what it has seen."""

    kind: str = ""
    title: str = ""
    lines: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    owner: str | None = None
    note: str | None = None
    # Up to when deaths are in it, and the latest of them by name: what is written late is news, and nothing is news twice.
    seen_to: Instant = -1
    seen: tuple[UUID, ...] = ()
    good_since: Instant | None = None
    hushed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One time that a rule's condition held for a subject."""

    id: UUID
    tenant: int
    rule: str
    subject: str
    phase: Phase
    since: Instant
    version: int = 1
    opened_at: Instant | None = None
    resolved_at: Instant | None = None
    snoozed_until: Instant | None = None
    is_told: bool = False
    about: About = About()

    @property
    def is_live(self) -> bool:
        """Whether it is not over."""
        return self.phase is not Phase.RESOLVED


@dataclass(frozen=True, slots=True)
class Move:
    """The incident as it was read and as it is now; either may be None: it is new, or forgotten. `tells`: to every channel of the rule."""

    before: Incident | None
    after: Incident | None
    tells: Event | None = None


def evaluate(
    rule: Rule, tenant: int, reading: Reading, before: Incident | None, now: Instant, is_hushed: str | None, new_id: Callable[[], UUID]
) -> Move | None:
    """What becomes of the incident, if anything. `before` is the latest of this rule and subject, over or not; `new_id` names a new one."""
    live = before if before is not None and before.is_live else None
    last = None if live is not None else before
    fresh = _fresh(reading, before)
    if live is None:
        if not (reading.is_bad or fresh):
            return None
        if reading.news and not fresh:
            # Told before, and over before: the same deaths are no new incident.
            return None
        return _begun(rule, tenant, reading, last, now, is_hushed, new_id())
    about = _told(rule, reading, live, is_hushed)
    if reading.is_bad or (live.phase is Phase.OPEN and (fresh or reading.lingers)):
        about = replace(about, good_since=None)
        if live.phase is Phase.PENDING:
            return _opened(live, about, now, is_hushed) if now - live.since >= rule.grace else _changed(live, about, now, is_hushed)
        return _changed(live, about, now, is_hushed)
    if live.phase is Phase.PENDING:
        return Move(live, None)
    good_since = live.about.good_since or now
    if now - good_since < rule.recovery.after:
        return _changed(live, replace(live.about, good_since=good_since), now, is_hushed)
    return _resolved(live, now)


def gone(rule: Rule | None, live: Incident, now: Instant) -> Move:
    """What becomes of an incident whose subject nobody sees any more, or whose rule is gone or watches nothing now."""
    if live.phase is Phase.PENDING:
        return Move(live, None)
    if rule is not None and rule.recovery.after and (live.about.good_since is None or now - live.about.good_since < rule.recovery.after):
        about = replace(live.about, good_since=live.about.good_since or now)
        return Move(live, replace(live, about=about, version=live.version + 1))
    return _resolved(live, now)


def _fresh(reading: Reading, before: Incident | None) -> list[UUID]:
    """Deaths that no incident has seen."""
    about = About() if before is None else before.about
    return [id for id, at in reading.news if at > about.seen_to or (at > about.seen_to - LATE_WRITES and id not in about.seen)]


def _begun(rule: Rule, tenant: int, reading: Reading, last: Incident | None, now: Instant, is_hushed: str | None, id: UUID) -> Move:
    known = About() if last is None else last.about
    made = Incident(
        id=id,
        tenant=tenant,
        rule=rule.name,
        subject=reading.subject,
        phase=Phase.PENDING,
        since=min(reading.since if reading.since is not None else now, now),
        about=About(kind=rule.kind.value, seen=known.seen, seen_to=known.seen_to),
    )
    about = _told(rule, reading, made, is_hushed)
    # The grace is counted from when the condition held, which is not always when it was seen.
    if now - made.since >= rule.grace:
        return replace(_opened(made, about, now, is_hushed), before=None)
    return Move(None, replace(made, about=about))


def _opened(live: Incident, about: About, now: Instant, is_hushed: str | None) -> Move:
    opened = replace(live, phase=Phase.OPEN, opened_at=now, is_told=is_hushed is None, about=about, version=live.version + 1)
    return Move(live, opened, None if is_hushed else Event.OPENED)


def _changed(live: Incident, about: About, now: Instant, is_hushed: str | None) -> Move | None:
    """The same incident with other words; or the moment at which it may be told after all."""
    tells = live.phase is Phase.OPEN and not live.is_told and is_hushed is None
    if about == live.about and not tells:
        return None
    after = replace(live, about=about, is_told=live.is_told or tells, version=live.version + 1)
    return Move(live, after, Event.OPENED if tells else None)


def _resolved(live: Incident, now: Instant) -> Move:
    after = replace(live, phase=Phase.RESOLVED, resolved_at=now, version=live.version + 1)
    return Move(live, after, Event.RESOLVED if live.is_told else None)


def _told(rule: Rule, reading: Reading, live: Incident, is_hushed: str | None) -> About:
    about = live.about
    seen_to = max([about.seen_to, *(at for _, at in reading.news)])
    late = [id for id, at in reading.news if at > seen_to - LATE_WRITES and id not in about.seen]
    words = (about.title, about.lines, about.jobs)
    # An open one keeps the words that it was told in, unless it is about others or counts others now: "late by" grows with every look.
    differs = (
        reading.jobs != about.jobs or len(reading.lines) != len(about.lines) or (rule.kind in COUNTING and reading.title != about.title)
    )
    if reading.title and (live.phase is Phase.PENDING or (reading.is_bad and differs)):
        words = (reading.title, reading.lines, reading.jobs)
    return replace(
        about,
        kind=rule.kind.value,
        title=words[0],
        lines=words[1],
        jobs=words[2],
        owner=rule.owner,
        note=rule.note,
        seen=(*about.seen, *late)[-MOST_SEEN:],
        seen_to=seen_to,
        hushed=is_hushed,
    )
