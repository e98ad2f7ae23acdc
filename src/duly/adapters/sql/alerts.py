"""Alerts on both engines: definitions, incidents, deliveries. What rules are judged by: alert_facts.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import msgspec

from duly.adapters.sql.alert_facts import SqlAlertFacts
from duly.adapters.sql.audit import append
from duly.adapters.sql.engine import Action, Call, Many, one
from duly.adapters.sql.job_rules import taken
from duly.adapters.sql.rows import as_uuid, encode
from duly.domain.alerts.channel import Channel
from duly.domain.alerts.evaluate import About, Event, Incident, Move, Phase
from duly.domain.alerts.rule import Rule
from duly.domain.audit import Deed
from duly.domain.ids import id_floor
from duly.domain.instants import DAY, Instant, Micros
from duly.domain.preconditions import holds
from duly.ports.alerts import ChannelRow, Delivery, IncidentFilter, RuleRow, Sent

WATCH = "alerter"
LAST = UUID(int=(1 << 128) - 1)
MOST_LIVE = 5000
# An incident that was over for longer has nothing to say of what is news.
REMEMBERED: Micros = 2 * DAY
LONGEST_ERROR = 500

_rule = msgspec.json.Decoder(Rule)
_channel = msgspec.json.Decoder(Channel)
_about = msgspec.json.Decoder(About)


class SqlAlerts(SqlAlertFacts):
    """The port on an engine."""

    async def take(self, alerter: str, now: Instant, ttl: Micros) -> bool:
        return bool(await self._engine.fetch("take_watch", {"name": WATCH, "owner": alerter, "now": now, "until": now + ttl}))

    async def leave(self, alerter: str) -> None:
        await self._engine.fetch("leave_watch", {"name": WATCH, "owner": alerter})

    # ------------------------------------------------------------ definitions

    async def rules(self, tenant: int | None = None) -> list[RuleRow]:
        return [
            RuleRow(
                _rule.decode(row["definition"]), row["tenant"], row["tenant_name"], row["version"], row["updated_at"], row["snoozed_until"]
            )
            for row in await self._engine.fetch("alert_rules", {"tenant": tenant})
        ]

    async def put_rule(
        self, tenant: int, rule: Rule, expected: int | None, now: Instant, *, deed: Callable[[Rule | None], Deed] | None = None
    ) -> int | None:
        def told(before: str | None) -> Deed | None:
            return None if deed is None else deed(None if before is None else _rule.decode(before))

        def text(before: str | None) -> str:
            source = None if before is None else _rule.decode(before).source
            if before is not None and source is None and rule.source is not None:
                raise taken(rule.name, "name")
            # Whoever changes the rule of a job by hand leaves it the job's.
            return encode(rule if rule.source is not None or source is None else replace(rule, source=source))

        return await self._put("alert_rule", tenant, rule.name, text, expected, now, told)

    async def delete_rule(self, tenant: int, name: str, expected: int, *, deed: Deed | None = None) -> bool:
        return await self._drop("drop_alert_rule", {"tenant": tenant, "name": name, "version": expected}, deed)

    async def snooze_rule(self, tenant: int, name: str, until: Instant | None, *, deed: Deed | None = None) -> bool:
        return await self._drop("snooze_alert_rule", {"tenant": tenant, "name": name, "until": until}, deed)

    async def channels(self, tenant: int | None = None) -> list[ChannelRow]:
        return [
            ChannelRow(_channel.decode(row["definition"]), row["tenant"], row["version"], row["updated_at"])
            for row in await self._engine.fetch("alert_channels", {"tenant": tenant})
        ]

    async def put_channel(
        self, tenant: int, channel: Channel, expected: int | None, now: Instant, *, deed: Callable[[Channel | None], Deed] | None = None
    ) -> int | None:
        def told(before: str | None) -> Deed | None:
            return None if deed is None else deed(None if before is None else _channel.decode(before))

        return await self._put("alert_channel", tenant, channel.name, lambda _: encode(channel), expected, now, told)

    async def delete_channel(self, tenant: int, name: str, expected: int, *, deed: Deed | None = None) -> bool:
        return await self._drop("drop_alert_channel", {"tenant": tenant, "name": name, "version": expected}, deed)

    async def _put(
        self,
        kind: str,
        tenant: int,
        name: str,
        made: Callable[[str | None], str],
        expected: int | None,
        now: Instant,
        deed: Callable[[str | None], Deed | None],
    ) -> int | None:
        key = {"tenant": tenant, "name": name}

        def action() -> Action[int | None]:
            row = one((yield Call(f"lock_{kind}", key)))
            version = 0 if row is None else int(row["version"])
            if not holds(expected, version):
                return None
            text = made(None if row is None else row["definition"])
            if row is None:
                if not (yield Call(f"add_{kind}", key | {"definition": text, "now": now})):
                    return None
            elif row["definition"] == text:
                return version
            else:
                yield Call(f"set_{kind}", key | {"definition": text, "now": now, "version": version + 1})
            yield from append([deed(None if row is None else row["definition"])])
            return version + 1

        return await self._engine.run(action)

    async def note(self, deed: Deed) -> None:
        await self._engine.run(lambda: append([deed]))

    async def _drop(self, statement: str, params: dict[str, Any], deed: Deed | None) -> bool:
        def action() -> Action[bool]:
            if not (yield Call(statement, params)):
                return False
            yield from append([deed])
            return True

        return await self._engine.run(action)

    # ------------------------------------------------------------ incidents

    async def latest(self, tenant: int, rule: str, now: Instant) -> dict[str, Incident]:
        params = {"tenant": tenant, "rule": rule, "since": id_floor(now - REMEMBERED), "quota": MOST_LIVE}
        rows = await self._engine.fetch("latest_incidents", params)
        found: dict[str, Incident] = {}
        for incident in map(_incident, rows):
            known = found.get(incident.subject)
            if known is None or (incident.is_live and not known.is_live):
                found[incident.subject] = incident
        return found

    async def live(self, tenant: int | None = None) -> list[Incident]:
        return [_incident(row) for row in await self._engine.fetch("live_incidents", {"tenant": tenant, "quota": MOST_LIVE})]

    async def move(self, move: Move, channels: Sequence[str], now: Instant) -> bool:
        before, after = move.before, move.after

        def action() -> Action[bool]:
            if after is None:
                return before is None or bool((yield Call("drop_incident", {"id": before.id, "seen": before.version})))
            if before is None:
                done = yield Call("add_incident", _params(after))
            else:
                changed = {name: value for name, value in _params(after).items() if name not in ("tenant", "rule", "subject", "since")}
                done = yield Call("change_incident", changed | {"seen": before.version})
            if not done:
                return False
            if move.tells is not None and channels:
                event = move.tells
                yield Many(
                    "add_delivery",
                    [{"incident": after.id, "channel": name, "event": event, "tenant": after.tenant, "now": now} for name in channels],
                )
            return True

        return await self._engine.run(action)

    async def incident(self, tenant: int, id: UUID) -> tuple[Incident, list[Sent]] | None:
        def action() -> Action[tuple[Incident, list[Sent]] | None]:
            row = one((yield Call("incident", {"tenant": tenant, "id": id})))
            if row is None:
                return None
            sent = yield Call("deliveries_of", {"id": id})
            return _incident(row), [
                Sent(item["channel"], Event(item["event"]), item["tries"], item["sent_at"], item["given_up_at"], item["error"])
                for item in sent
            ]

        return await self._engine.read(action)

    async def incidents(self, wanted: IncidentFilter) -> list[Incident]:
        phases = {None: (Phase.OPEN, Phase.RESOLVED), True: (Phase.OPEN, Phase.OPEN), False: (Phase.RESOLVED, Phase.RESOLVED)}
        least, most = phases[wanted.is_open]
        params = {"tenant": wanted.tenant, "before": wanted.before or LAST, "least": least, "most": most, "rule": wanted.rule}
        return [_incident(row) for row in await self._engine.fetch("incidents", params | {"quota": wanted.limit})]

    async def snooze(self, tenant: int, id: UUID, until: Instant | None, *, deed: Deed | None = None) -> bool:
        return await self._drop("snooze_incident", {"tenant": tenant, "id": id, "until": until}, deed)

    # ------------------------------------------------------------ deliveries

    async def claim(self, sender: str, now: Instant, ttl: Micros, limit: int, each: int) -> list[Delivery]:
        def action() -> Action[list[Delivery]]:
            found: list[Delivery] = []
            for due in (yield Call("due_deliveries", {"now": now, "quota": limit, "each": each})):
                key = {"incident": as_uuid(due["incident"]), "channel": due["channel"], "event": due["event"]}
                mine = one((yield Call("claim_delivery", key | {"sender": sender, "until": now + ttl, "now": now})))
                row = one((yield Call("delivery_about", {"incident": key["incident"], "channel": due["channel"]}))) if mine else None
                if mine is not None and row is not None:
                    text = row["channel_definition"]
                    channel = None if text is None else _channel.decode(text)
                    event = Event(due["event"])
                    found.append(
                        Delivery(_incident(row), channel, due["channel"], event, row["tenant_name"], mine["tries"], mine["created_at"])
                    )
            return found

        return await self._engine.run(action)

    async def sent(self, delivery: Delivery, sender: str, now: Instant) -> None:
        await self._engine.fetch("delivery_sent", _key(delivery) | {"sender": sender, "now": now})

    async def not_sent(self, delivery: Delivery, sender: str, error: str, again_at: Instant | None, now: Instant) -> None:
        outcome = {"due_at": again_at or now, "given_up_at": now if again_at is None else None, "error": error[:LONGEST_ERROR]}
        await self._engine.fetch("delivery_failed", _key(delivery) | {"sender": sender} | outcome)

    async def forget(self, before: Instant) -> int:
        def action() -> Action[int]:
            yield Call("forget_deliveries", {"before": before})
            yield Call("forget_incidents", {"before": before})
            return 0

        return await self._engine.run(action)


def _key(delivery: Delivery) -> dict[str, Any]:
    return {"incident": delivery.incident.id, "channel": delivery.channel_name, "event": delivery.event}


def _params(incident: Incident) -> dict[str, Any]:
    return {
        "id": incident.id,
        "tenant": incident.tenant,
        "rule": incident.rule,
        "subject": incident.subject,
        "phase": incident.phase,
        "version": incident.version,
        "since": incident.since,
        "opened_at": incident.opened_at,
        "resolved_at": incident.resolved_at,
        "is_told": incident.is_told,
        "about": encode(incident.about),
    }


def _incident(row: Any) -> Incident:
    return Incident(
        id=as_uuid(row["id"]),
        tenant=row["tenant"],
        rule=row["rule"],
        subject=row["subject"],
        phase=Phase(row["phase"]),
        version=row["version"],
        since=row["since"],
        opened_at=row["opened_at"],
        resolved_at=row["resolved_at"],
        snoozed_until=row["snoozed_until"],
        is_told=bool(row["is_told"]),
        about=_about.decode(row["about"]),
    )
