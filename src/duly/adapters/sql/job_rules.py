"""The rules of jobs' alerts: written in the transaction that writes the job, so that neither is ever without the other."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from duly.adapters.sql.engine import Action, Call, one
from duly.adapters.sql.rows import encode
from duly.adapters.sql.specs import spec_of
from duly.domain.alerts.of_job import rules_of
from duly.domain.alerts.rule import Rule
from duly.domain.errors import Conflict, NotFound
from duly.domain.instants import Instant
from duly.domain.job import JobSpec

_rule = msgspec.json.Decoder(Rule)


def rules_in(definition: str | None) -> list[str]:
    """What the rules of a stored version are called."""
    if definition is None:
        return []
    spec = spec_of(definition)
    return [rule.name for rule in rules_of(spec.alert, spec.name, spec.source)]


def keep_rules(tenant: int, before: Sequence[str], after: JobSpec | None, now: Instant) -> Action[None]:
    """These rules become those of this version; None: the job is no more. Whoever has changed one by hand has done so until now."""
    rules = [] if after is None else rules_of(after.alert, after.name, after.source)
    kept = {rule.name for rule in rules}
    for name in before:
        if name not in kept:
            yield from _forget(tenant, name)
    for rule in rules:
        yield from _put(tenant, rule, now)


def demand_channels(tenant: int, specs: Sequence[JobSpec]) -> Action[None]:
    """Raises NotFound for a channel that an alert names and that is not there, unless code declares it: channels may come after code."""
    named = {name for spec in specs if spec.alert is not None and spec.source is None for name in spec.alert.to}
    if not named:
        return
    known = {row["name"] for row in (yield Call("alert_channels", {"tenant": tenant}))}
    for name in sorted(named - known):
        hint = "`duly alert channels` shows those that there are."
        raise NotFound("DULY-E255", f"There is no alert channel {name!r}.", field="alert.to", hint=hint)


def rule_of(definition: str) -> Rule:
    """A rule as it is stored."""
    return _rule.decode(definition)


def taken(name: str, field: str) -> Conflict:
    """Somebody has made a rule of the name that a job's own rule would have: it stays theirs."""
    hint = f"Give it another name, or delete it with `duly alert delete-rule {name}`, and the job brings its own."
    return Conflict("DULY-E260", f"Somebody has made the alert rule {name!r}, which the job's alert would be.", field=field, hint=hint)


def _forget(tenant: int, name: str) -> Action[None]:
    key = {"tenant": tenant, "name": name}
    row = one((yield Call("lock_alert_rule", key)))
    if row is not None and rule_of(row["definition"]).source is not None:
        yield Call("forget_alert_rule", key)


def _put(tenant: int, rule: Rule, now: Instant) -> Action[None]:
    key, text = {"tenant": tenant, "name": rule.name}, encode(rule)
    row = one((yield Call("lock_alert_rule", key)))
    if row is None and (yield Call("add_alert_rule", key | {"definition": text, "now": now})):
        return
    # Somebody has made it meanwhile.
    row = row or one((yield Call("lock_alert_rule", key)))
    if row is not None and rule_of(row["definition"]).source is None:
        raise taken(rule.name, "alert")
    if row is not None and row["definition"] != text:
        yield Call("set_alert_rule", key | {"definition": text, "now": now, "version": int(row["version"]) + 1})
