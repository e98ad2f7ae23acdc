"""What people may ask of alerts: rules, channels, incidents, previews, snoozes, tests; and of the audit of fires."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from duly.domain.access import Actor
from duly.domain.alerts.channel import Channel, check_channel
from duly.domain.alerts.evaluate import INCIDENT_PREFIX, Incident
from duly.domain.alerts.facts import Run
from duly.domain.alerts.history import NOT_RECORDED, Would, replay
from duly.domain.alerts.message import trial_notice
from duly.domain.alerts.rule import LONGEST, Kind, Rule, check_rule
from duly.domain.audit import Deed, diff
from duly.domain.errors import Conflict, Invalid, NotFound
from duly.domain.fire_audit import Missed
from duly.domain.ids import ExecutionId, JobId, id_floor, new_id
from duly.domain.instants import DAY, HOUR, Instant, to_rfc3339
from duly.domain.preconditions import holds, unmet
from duly.ports.alerts import AlertStore, ChannelRow, IncidentFilter, RuleRow, Sender, Sent
from duly.ports.clock import Clock, Entropy
from duly.ports.endings import Failure
from duly.ports.figures import Figures
from duly.ports.fire_audit import FireAudit, MissedFilter, Round
from duly.ports.wall import behind_wall
from duly.wire.alerts import ChannelView, RuleShape, channel_view, rule_fields, rule_of

TRIES = 5
# A preview looks at so many jobs, and at so many runs of each.
PREVIEWED_JOBS = 50
# Of these nothing is left to see in a job once it is over.
PASSING = frozenset({Kind.LATE, Kind.MISSED, Kind.OVERRUN})
PREVIEWED_RUNS = 500
# What a rule that is only tried is called.
TRIED = "preview"


@dataclass(frozen=True, slots=True)
class Preview:
    """What a rule would have done since `first`. Not `complete`: there was more history than was looked at."""

    first: Instant
    would: Sequence[Would]
    complete: bool


class Alerts:
    """The use cases on alerts."""

    def __init__(self, store: AlertStore, figures: Figures, audit: FireAudit, sender: Sender, clock: Clock, entropy: Entropy) -> None:
        self._store = store
        self._figures = figures
        self._audit = audit
        self._sender = sender
        self._clock = clock
        self._entropy = entropy

    # ------------------------------------------------------------ rules

    async def rules(self, actor: Actor) -> list[RuleRow]:
        """All of the tenant's, by name."""
        return await self._store.rules(actor.tenant)

    async def rule(self, actor: Actor, name: str) -> RuleRow:
        """One of them, or NotFound."""
        found = next((row for row in await self._store.rules(actor.tenant) if row.rule.name == name), None)
        if found is None:
            raise NotFound(
                "DULY-E254", f"There is no alert rule {name!r}.", field="name", hint="`duly alert rules` shows those that there are."
            )
        return found

    async def put_rule(self, actor: Actor, rule: Rule, expected: int | None = None) -> RuleRow:
        """Make it so. Channels that it names must be there."""
        check_rule(rule)
        known = {row.channel.name for row in await self._store.channels(actor.tenant)}
        for name in rule.channels:
            if name not in known:
                raise _no_channel(name, "channels")
        for _ in range(TRIES):
            now = self._clock.now()
            if await self._store.put_rule(actor.tenant, rule, expected, now, deed=partial(_rule_set, actor, now, rule)) is not None:
                return await self.rule(actor, rule.name)
            if expected is not None:
                break
        raise unmet("rule", expected)

    async def delete_rule(self, actor: Actor, name: str, expected: int | None = None) -> RuleRow:
        """Forget it; its incidents end without a word."""
        row = await self.rule(actor, name)
        deed = Deed(actor, self._clock.now(), "alert_rule.delete", "alert_rule", name, before=_wired(row.rule))
        if expected not in (None, row.version) or not await self._store.delete_rule(actor.tenant, name, row.version, deed=deed):
            raise unmet("rule", expected)
        return row

    async def snooze_rule(self, actor: Actor, name: str, until: Instant | None, expected: int | None = None) -> RuleRow:
        """Tell nobody of what it sees before then."""
        self._check_snooze(until)
        if not holds(expected, (await self.rule(actor, name)).version):
            raise unmet("rule", expected)
        told = {"snoozedUntil": None if until is None else to_rfc3339(until)}
        await self._store.snooze_rule(
            actor.tenant, name, until, deed=Deed(actor, self._clock.now(), "alert_rule.snooze", "alert_rule", name, after=told)
        )
        return await self.rule(actor, name)

    async def declare(self, actor: Actor, source: str, rules: Sequence[Rule]) -> None:
        """What an application's code says: these rules and no others of its own. Channels may be made later: telling waits for them."""
        for rule in rules:
            check_rule(rule)
            now = self._clock.now()
            await self._store.put_rule(actor.tenant, rule, None, now, deed=partial(_rule_set, actor, now, rule))
        kept = {rule.name for rule in rules}
        for row in await self._store.rules(actor.tenant):
            if row.rule.source == source and row.rule.name not in kept:
                deed = Deed(actor, self._clock.now(), "alert_rule.delete", "alert_rule", row.rule.name, before=_wired(row.rule))
                await self._store.delete_rule(actor.tenant, row.rule.name, row.version, deed=deed)

    async def preview(self, actor: Actor, shape: RuleShape, days: int) -> Preview:
        """How often the rule would have fired. Raises Invalid (DULY-E162) for kinds of which no history is kept."""
        rule = rule_of(shape, TRIED)
        check_rule(rule)
        if rule.kind in NOT_RECORDED:
            raise Invalid("DULY-E162", f"{rule.kind.value} cannot be tried on the past: nothing of it is recorded.", field="rule.kind")
        now = self._clock.now()
        first = now - days * DAY
        if rule.jobs:
            jobs = await self._store.jobs_named(actor.tenant, rule.jobs, now)
        else:
            jobs = await self._store.candidates(actor.tenant, rule.kind, first, now - HOUR, now, PREVIEWED_JOBS + 1)
            if rule.kind in PASSING:
                # What has passed shows in no job as it is now, so the newest jobs are looked at whether they show anything or not.
                known = {job.id for job in jobs}
                newest = await self._store.newest_jobs(actor.tenant, now, PREVIEWED_JOBS + 1)
                jobs += [job for job in newest if job.id not in known]
        complete = len(jobs) <= PREVIEWED_JOBS
        would: list[Would] = []
        missed = await self._store.missed(actor.tenant, PREVIEWED_RUNS) if rule.kind is Kind.MISSED else []
        for job in jobs[:PREVIEWED_JOBS]:
            runs = (await self._store.runs(actor.tenant, [job.id], id_floor(first), PREVIEWED_RUNS))[job.id]
            expected = (await self._figures.expected(actor.tenant, [job.id])).get(job.id)
            would += replay(rule, job, runs, expected, first, now, [item for item in missed if item.job_id == job.id])
            complete = complete and len(runs) < PREVIEWED_RUNS
            await asyncio.sleep(0)
        return Preview(first, sorted(would, key=lambda item: item.since), complete)

    # ------------------------------------------------------------ channels

    async def channels(self, actor: Actor) -> list[ChannelRow]:
        """All of the tenant's, by name."""
        return await self._store.channels(actor.tenant)

    async def channel(self, actor: Actor, name: str) -> ChannelRow:
        """One of them, or NotFound."""
        found = next((row for row in await self._store.channels(actor.tenant) if row.channel.name == name), None)
        if found is None:
            raise _no_channel(name, "name")
        return found

    async def put_channel(self, actor: Actor, channel: Channel, expected: int | None = None) -> ChannelRow:
        """Make it so."""
        check_channel(channel)
        for _ in range(TRIES):
            now = self._clock.now()
            deed = partial(_channel_set, actor, now, channel)
            if await self._store.put_channel(actor.tenant, channel, expected, now, deed=deed) is not None:
                return await self.channel(actor, channel.name)
            if expected is not None:
                break
        raise unmet("channel", expected)

    async def delete_channel(self, actor: Actor, name: str, expected: int | None = None) -> ChannelRow:
        """Forget it, unless a rule still names it."""
        row = await self.channel(actor, name)
        users = [rule.rule.name for rule in await self._store.rules(actor.tenant) if name in rule.rule.channels]
        if users:
            raise Conflict("DULY-E256", f"The channel is in use by {', '.join(users[:10])}.", field="name")
        deed = Deed(actor, self._clock.now(), "alert_channel.delete", "alert_channel", name, before=_shown(row))
        if expected not in (None, row.version) or not await self._store.delete_channel(actor.tenant, name, row.version, deed=deed):
            raise unmet("channel", expected)
        return row

    async def test_channel(self, actor: Actor, name: str) -> str | None:
        """Send a test now, whoever is asleep. Answers why it was not taken; None: it was."""
        row = await self.channel(actor, name)
        now = self._clock.now()
        # Before it is sent: what was told to somebody outside cannot be taken back.
        await self._store.note(Deed(actor, now, "alert_channel.test", "alert_channel", name, after={"kind": row.channel.kind.value}))
        try:
            await self._sender.send(row.channel, trial_notice(new_id(now, self._entropy), actor.tenant, actor.tenant_name, name, now))
        except Failure as failure:
            return str(failure)
        return None

    # ------------------------------------------------------------ incidents

    async def incidents(self, wanted: IncidentFilter) -> list[Incident]:
        """Newest first."""
        return await self._store.incidents(wanted)

    async def incident(self, actor: Actor, id: UUID) -> tuple[Incident, list[Sent]]:
        """One of them, with what was sent of it; or NotFound."""
        found = await self._store.incident(actor.tenant, id)
        if found is None:
            raise NotFound("DULY-E257", f"There is no incident {INCIDENT_PREFIX}{id.hex}.", field="incidentId")
        return found

    async def snooze(self, actor: Actor, id: UUID, until: Instant | None) -> tuple[Incident, list[Sent]]:
        """Tell nobody of it before then. One that is over stays as it is (DULY-E258)."""
        self._check_snooze(until)
        await self.incident(actor, id)
        told = {"snoozedUntil": None if until is None else to_rfc3339(until)}
        deed = Deed(actor, self._clock.now(), "alert.snooze", "alert", f"{INCIDENT_PREFIX}{id.hex}", after=told)
        if not await self._store.snooze(actor.tenant, id, until, deed=deed):
            raise Conflict("DULY-E258", "The incident is over.", field="incidentId")
        return await self.incident(actor, id)

    def _check_snooze(self, until: Instant | None) -> None:
        now = self._clock.now()
        if until is not None and not now < until <= now + LONGEST:
            raise Invalid("DULY-E105", "must lie in the next 31 days.", field="until")

    async def runs(self, actor: Actor, job_id: JobId, since: ExecutionId, limit: int) -> list[Run]:
        """The newest runs of a job, as rules see them."""
        return (await self._store.runs(actor.tenant, [job_id], since, limit))[job_id]

    # ------------------------------------------------------------ the audit of fires

    async def missed(self, wanted: MissedFilter) -> tuple[list[Missed], Round | None, int]:
        """Fires that are missing, newest first; where the audit stands; and how many have not come to light."""
        found = await self._audit.missed(wanted)
        with behind_wall(None):  # one audit goes over the jobs of all
            standing, count = await self._audit.standing(wanted.tenant)
        return found, standing, count


def _rule_set(actor: Actor, at: Instant, rule: Rule, before: Rule | None) -> Deed:
    was, now = diff({} if before is None else _wired(before), _wired(rule))
    return Deed(actor, at, "alert_rule.set", "alert_rule", rule.name, before=was or None, after=now)


def _channel_set(actor: Actor, at: Instant, channel: Channel, before: Channel | None) -> Deed:
    was = {} if before is None else _shown(ChannelRow(before, actor.tenant, 0, at))
    old, new = diff(was, _shown(ChannelRow(channel, actor.tenant, 0, at)))
    return Deed(actor, at, "alert_channel.set", "alert_channel", channel.name, before=old or None, after=new)


def _wired(rule: Rule) -> dict[str, object]:
    return {name: value for name, value in rule_fields(rule).items() if value not in (None, [], False)}


def _shown(row: ChannelRow) -> dict[str, object]:
    """A channel as the audit trail keeps it: its address by the host alone."""
    view: ChannelView = channel_view(row, whole=False)
    return {name: getattr(view, name) for name in ("kind", "url", "secret", "to", "sender", "host", "port", "user", "enabled")}


def _no_channel(name: str, field: str) -> NotFound:
    return NotFound(
        "DULY-E255", f"There is no alert channel {name!r}.", field=field, hint="`duly alert channels` shows those that there are."
    )
