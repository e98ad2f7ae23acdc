"""The alerter: judges rules, and moves incidents on. What is to be sent is written with the move; the messenger sends it.

A round comes every few seconds, and judges every rule; but of very many those alone whose jobs stir (something died, waits, runs for long,
is missing) or of which something is open, and of the others some, in turns: nobody is passed over for longer than a minute or so, and
what is well costs nearly nothing. A long round goes on over several steps, and the lease is renewed by each.

One at a time judges, by a lease in the store; a move is taken only where the incident still is what was read, so even two who believe
to be the one open an incident once. While the store itself is away nobody can be asked: the one who held the lease last tells of it, from
what it remembers, and writes it down when the store is back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from duly.domain.alerts.channel import Channel
from duly.domain.alerts.evaluate import About, Event, Incident, Move, Phase, evaluate, gone
from duly.domain.alerts.hush import hushed
from duly.domain.alerts.judge import readings
from duly.domain.alerts.message import Notice
from duly.domain.alerts.rule import DEFAULT_GRACE, Kind
from duly.domain.calendars import Calendar
from duly.domain.errors import Unavailable
from duly.domain.ids import new_id
from duly.domain.instants import DAY, MINUTE, SECOND, Instant, Micros, to_rfc3339
from duly.ports.alerts import AlertStore, RuleRow, Sender
from duly.ports.calendars import Calendars
from duly.ports.clock import Entropy
from duly.ports.endings import Failure
from duly.ports.figures import Figures
from duly.roles.loop import Step
from duly.usecases.alerting.gather import gather
from duly.usecases.alerting.looks import Looks
from duly.usecases.alerting.stirring import Stirring

log = logging.getLogger("duly.alerts")


@dataclass(frozen=True, slots=True)
class AlerterSettings:
    """How often rules are judged, for how long it is the one, and how long a store that says nothing is waited for.

    `deadman` is pinged while all is well: the store answers, and what is due is dispatched at most `lag` late.
    """

    every: float = 5.0
    ttl: Micros = 20 * SECOND
    # After the store was away, workers have so long to come back to it: nobody could hear of them meanwhile.
    settles: Micros = 30 * SECOND
    # Up to so many rules are all judged in every round; of more, so many without a cause. And so many in one step.
    at_ease: int = 200
    batch: int = 200
    patience: float = 5.0
    deadman: str | None = None
    ping_every: Micros = MINUTE
    lag: Micros = MINUTE
    keep: Micros = 90 * DAY
    forget_every: Micros = 10 * MINUTE
    # Where people find incidents; None: nobody knows the address.
    url: str | None = None


@dataclass(slots=True)
class _Outage:
    """An alert about the store that was told from memory, and whom it still has to reach."""

    incident: Incident
    tenant_name: str
    left: list[str]


@dataclass(slots=True)
class _Round:
    """What is left of a round, and which rules come first in the next one of those that nothing speaks for."""

    left: list[RuleRow] = field(default_factory=list)
    at_ease_from: tuple[int, str] = (0, "")


@dataclass(slots=True)
class _Memory:
    """What is known of the last time that the store answered."""

    is_mine: bool = False
    rules: Sequence[RuleRow] = ()
    channels: Mapping[tuple[int, str], Channel] = field(default_factory=dict)
    calendars: Mapping[int, Mapping[str, Calendar]] = field(default_factory=dict)
    away_since: Instant | None = None
    back_at: Instant | None = None
    outages: dict[tuple[int, str], _Outage] = field(default_factory=dict)


class Alerter:
    """Any number may run: the store lets one at a time judge."""

    name = "alerter"

    def __init__(
        self,
        alerter: str,
        store: AlertStore,
        figures: Figures,
        calendars: Calendars,
        sender: Sender,
        entropy: Entropy,
        settings: AlerterSettings,
    ) -> None:
        self._alerter = alerter
        self._store = store
        self._figures = figures
        self._calendars = calendars
        self._sender = sender
        self._entropy = entropy
        self._settings = settings
        self._memory = _Memory()
        self._round = _Round()
        self._stirring = Stirring(store)
        self._ping_at: Instant = 0
        self._forget_at: Instant = 0

    async def step(self, now: Instant) -> Step:
        """Judge the rules of the round, or the next ones of them, if it is ours to do."""
        is_begun = bool(self._round.left)
        try:
            async with asyncio.timeout(self._settings.patience):
                is_mine = await self._store.take(self._alerter, now, self._settings.ttl)
                if is_mine and not is_begun:
                    await self._remember()
        except (Unavailable, TimeoutError):
            told = await self._store_is_away(now)
            return Step(self._settings.every, {"moves": 0, "told": told})
        await self._store_is_back(now)
        self._memory.is_mine = is_mine
        if not is_mine:
            self._round.left = []
            return Step(self._settings.every, {"moves": 0, "told": 0})
        moves = 0
        live: dict[tuple[int, str], list[Incident]] = {}
        for incident in await self._store.live():
            live.setdefault((incident.tenant, incident.rule), []).append(incident)
        if not is_begun:
            self._round.left = await self._to_judge(live, now)
            moves += await self._end_orphans(live, now)
        rows, self._round.left = self._round.left[: self._settings.batch], self._round.left[self._settings.batch :]
        looks = Looks(self._store, self._figures, now)
        for tenant in dict.fromkeys(row.tenant for row in rows):
            own = [row.rule for row in rows if row.tenant == tenant and row.rule.enabled]
            await looks.ahead(tenant, [name for rule in own for name in rule.jobs], {rule.kind for rule in own if rule.jobs})
        for row in rows:
            moves += await self._judge(row, live.get((row.tenant, row.rule.name), []), looks)
        if self._round.left:
            return Step(0.0, {"moves": moves, "told": 0})
        await self._ping(now)
        if now >= self._forget_at:
            await self._store.forget(now - self._settings.keep)
            self._forget_at = now + self._settings.forget_every
        return Step(self._settings.every, {"moves": moves, "told": 0})

    async def stop(self) -> None:
        """The clean stop: another may judge at once."""
        await self._store.leave(self._alerter)

    # ------------------------------------------------------------ rules

    async def _to_judge(self, live: Mapping[tuple[int, str], Sequence[Incident]], now: Instant) -> list[RuleRow]:
        """The rules of a round, those first that something speaks for."""
        rows, most = list(self._memory.rules), self._settings.at_ease
        if len(rows) <= most:
            return rows
        stirs = await self._stirring.among(rows, live.keys(), now)
        first = [row for row in rows if _key(row) in stirs]
        rest = [row for row in rows if _key(row) not in stirs]
        begin = next((nth for nth, row in enumerate(rest) if _key(row) >= self._round.at_ease_from), 0)
        turn = (rest[begin:] + rest[:begin])[: most + 1]
        self._round.at_ease_from = _key(turn[most]) if len(turn) > most else (0, "")
        return first + turn[:most]

    async def _judge(self, row: RuleRow, live: Sequence[Incident], looks: Looks) -> int:
        rule, now = row.rule, looks.now
        if rule.kind is Kind.STORE_UNHEALTHY:
            return 0
        if not rule.enabled:
            return await self._moved([gone(None, incident, now) for incident in live], row, now)
        back_at = self._memory.back_at
        if rule.kind is Kind.WORKER_GONE and back_at is not None and now - back_at < self._settings.settles:
            return 0
        facts = await gather(looks, row.tenant, rule, row.updated_at, live)
        self._stirring.judged(row, facts, now)
        found = readings(rule, facts, now)
        if not live and not any(reading.is_bad or reading.news for reading in found):
            return 0
        latest = await self._store.latest(row.tenant, rule.name, now)
        moves: list[Move] = []
        seen: set[str] = set()
        for reading in found:
            seen.add(reading.subject)
            before = latest.get(reading.subject)
            hush = self._hushed(row, None if before is None or not before.is_live else before, now)
            move = evaluate(rule, row.tenant, reading, before, now, hush, lambda: new_id(now, self._entropy))
            if move is not None:
                moves.append(move)
        moves += [gone(rule, incident, now) for incident in live if incident.subject not in seen]
        return await self._moved(moves, row, now)

    async def _moved(self, moves: Sequence[Move], row: RuleRow, now: Instant) -> int:
        return sum([await self._store.move(move, row.rule.channels, now) for move in moves])

    async def _end_orphans(self, live: Mapping[tuple[int, str], Sequence[Incident]], now: Instant) -> int:
        """Incidents whose rule is gone are over, and nobody is left to be told."""
        known = set(map(_key, self._memory.rules))
        orphans = [gone(None, incident, now) for key, own in live.items() if key not in known for incident in own]
        return sum([await self._store.move(replace(move, tells=None), (), now) for move in orphans])

    def _hushed(self, row: RuleRow, incident: Incident | None, now: Instant) -> str | None:
        known = self._memory.calendars.get(row.tenant, {})
        named = [known[name] for name in row.rule.calendars if name in known]
        return hushed(row.rule, named, [row.snoozed_until, None if incident is None else incident.snoozed_until], now)

    async def _remember(self) -> None:
        memory = self._memory
        memory.rules = await self._store.rules()
        memory.channels = {(row.tenant, row.channel.name): row.channel for row in await self._store.channels()}
        tenants = {row.tenant for row in memory.rules if row.rule.calendars}
        memory.calendars = {
            tenant: {row.calendar.name: row.calendar for row in await self._calendars.calendars(tenant)} for tenant in sorted(tenants)
        }

    # ------------------------------------------------------------ the store itself

    async def _store_is_away(self, now: Instant) -> int:
        """Tell of it once it has lasted for the grace. Only who held the lease last: nobody can have taken it since."""
        memory = self._memory
        if memory.away_since is None:
            memory.away_since = now
        if not memory.is_mine:
            return 0
        told = 0
        for row in memory.rules:
            key, rule = (row.tenant, row.rule.name), row.rule
            is_due = now - memory.away_since >= (rule.grace or DEFAULT_GRACE[Kind.STORE_UNHEALTHY])
            is_meant = rule.kind is Kind.STORE_UNHEALTHY and rule.enabled and key not in memory.outages
            if is_meant and is_due and self._hushed(row, None, now) is None:
                memory.outages[key] = _Outage(self._outage(row, memory.away_since, now), row.tenant_name, list(rule.channels))
        for outage in memory.outages.values():
            told += await self._tell(outage)
        return told

    def _outage(self, row: RuleRow, since: Instant, now: Instant) -> Incident:
        title = f"the store does not answer since {to_rfc3339(since)}"
        lines = ("nothing is dispatched, and nothing can be submitted, until it does",)
        rule = row.rule
        return Incident(
            id=new_id(now, self._entropy),
            tenant=row.tenant,
            rule=rule.name,
            subject="store",
            phase=Phase.OPEN,
            since=since,
            opened_at=now,
            is_told=True,
            about=About(kind=rule.kind.value, title=title, lines=lines, owner=rule.owner, note=rule.note),
        )

    async def _tell(self, outage: _Outage) -> int:
        told = 0
        for name in list(outage.left):
            channel = self._memory.channels.get((outage.incident.tenant, name))
            if channel is not None and channel.enabled:
                try:
                    await self._sender.send(channel, Notice(outage.incident, Event.OPENED, outage.tenant_name, self._settings.url))
                except Failure as failure:
                    log.warning("channel %s was not told that the store is away: %s", name, failure)
                    if failure.retry:
                        continue
                told += 1
            outage.left.remove(name)
        return told

    async def _store_is_back(self, now: Instant) -> None:
        """Write down what was told meanwhile, and that it is over."""
        memory = self._memory
        rules = {(row.tenant, row.rule.name): row.rule for row in memory.rules}
        for key, outage in list(memory.outages.items()):
            opened = outage.incident
            await self._store.move(Move(None, opened), (), now)
            over = replace(opened, phase=Phase.RESOLVED, resolved_at=now, version=opened.version + 1)
            reached = [name for name in rules[key].channels if name not in outage.left] if key in rules else []
            await self._store.move(Move(opened, over, Event.RESOLVED), reached, now)
            del memory.outages[key]
        if memory.away_since is not None:
            memory.away_since, memory.back_at = None, now

    async def _ping(self, now: Instant) -> None:
        """Tell the outside that all goes on, while it does: silence is the alarm."""
        settings = self._settings
        if settings.deadman is None or now < self._ping_at:
            return
        glimpse = await self._store.glimpse(now)
        if glimpse.lag > settings.lag or glimpse.dispatchers == 0:
            log.warning(
                "the outside is not told that all is well: work is %d s late, %d dispatchers", glimpse.lag // SECOND, glimpse.dispatchers
            )
            return
        try:
            await self._sender.ping(settings.deadman)
            self._ping_at = now + settings.ping_every
        except Failure as failure:
            log.warning("the outside cannot be told that all is well: %s", failure)


def _key(row: RuleRow) -> tuple[int, str]:
    return row.tenant, row.rule.name
