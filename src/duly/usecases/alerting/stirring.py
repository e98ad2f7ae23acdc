"""Which of very many rules something speaks for, found in a few looks at a tenant instead of one at each of its jobs.

A hint: whoever judges looks at every rule in turn all the same. What it must not do is miss what is common.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from duly.domain.alerts.facts import Facts
from duly.domain.alerts.rule import DEFAULT_AFTER, OF_JOBS, Kind
from duly.domain.instants import MINUTE, SECOND, Instant, Micros
from duly.ports.alerts import AlertFacts, RuleRow

# Of what died, was skipped or began late since then, a rule is told even if its job is quiet by now.
LATELY: Micros = 15 * MINUTE
# Between two looks something may have begun that was late at neither.
BETWEEN: Micros = 15 * SECOND
MOST = 2000
# What is looked for, and the kinds of rules that it speaks for.
_SIGNS: dict[Kind, frozenset[Kind]] = {
    Kind.FINAL_FAILURE: frozenset({Kind.FINAL_FAILURE, Kind.FAILURES, Kind.FAILURE_RATE}),
    Kind.LATE: frozenset({Kind.LATE}),
    Kind.MISSED: frozenset({Kind.MISSED}),
    Kind.OVERRUN: frozenset({Kind.OVERRUN}),
}
_Key = tuple[int, str]


class Stirring:
    """Remembers from when on a rule about successes may have something to say, and what waited for nearly too long."""

    def __init__(self, facts: AlertFacts) -> None:
        self._facts = facts
        self._well_until: dict[_Key, tuple[int, Instant]] = {}
        self._nearly: dict[tuple[int, Kind], set[str]] = {}

    def judged(self, row: RuleRow, facts: Facts, now: Instant) -> None:
        """What was read for a rule: one whose jobs have all succeeded lately has nothing to say until that is too long ago."""
        if row.rule.kind is Kind.NO_SUCCESS:
            known = facts.successes or {}
            last = min((known.get(job.id) or job.created_at for job in facts.jobs), default=now)
            self._well_until[row.tenant, row.rule.name] = row.version, last + (row.rule.condition.after or 0)

    async def among(self, rows: Sequence[RuleRow], live: Collection[_Key], now: Instant) -> set[_Key]:
        """Those that must be judged now. `live`: the rules of which something is open."""
        found = {(row.tenant, row.rule.name) for row in rows if self._always(row, live, now)}
        for tenant in dict.fromkeys(row.tenant for row in rows):
            for sign, kinds in _SIGNS.items():
                own = [row for row in rows if row.tenant == tenant and row.rule.kind in kinds and row.rule.jobs]
                if own:
                    names = await self._names(tenant, sign, own, now)
                    found |= {(tenant, row.rule.name) for row in own if not names.isdisjoint(row.rule.jobs)}
        keys = {(row.tenant, row.rule.name) for row in rows}
        self._well_until = {key: known for key, known in self._well_until.items() if key in keys}
        return found

    def _always(self, row: RuleRow, live: Collection[_Key], now: Instant) -> bool:
        """Whether it is judged whatever its jobs do: there are few of these, or something is open."""
        key = row.tenant, row.rule.name
        if key in live or row.rule.kind not in OF_JOBS or not row.rule.jobs:
            return True
        if row.rule.kind is not Kind.NO_SUCCESS:
            return False
        version, until = self._well_until.get(key, (0, 0))
        return version != row.version or now >= until

    async def _names(self, tenant: int, sign: Kind, rows: Sequence[RuleRow], now: Instant) -> set[str]:
        patience = min(row.rule.condition.after or DEFAULT_AFTER.get(sign, 10 * SECOND) for row in rows)
        due_before = now - max(patience - BETWEEN, 0)
        jobs = {job.name for job in await self._facts.candidates(tenant, sign, now - LATELY, due_before, now, MOST)}
        if sign is Kind.MISSED:
            jobs |= {item.job_name for item in await self._facts.missed(tenant, MOST)}
        before = self._nearly.get((tenant, sign), set())
        self._nearly[tenant, sign] = jobs
        return jobs | before
