"""The alert of a job, as its definition has it: each of its conditions is a rule about that job, and lives as long as the job says so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b

from duly.domain.alerts.rule import BAD_RULE, Condition, Kind, Recovery, Rule, check_rule
from duly.domain.errors import Invalid
from duly.domain.instants import Micros

# Of whose definition a rule comes that no application's code has brought.
BY_DEFINITION = "job"
LONGEST_NAME = 64
_UNFIT = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAlert:
    """What is told about a job, and whom (`to` names channels). `overrun` goes by what its runs mostly take."""

    failed: bool = False
    failures: int | None = None
    late_after: Micros | None = None
    missed_after: Micros | None = None
    overrun_after: Micros | None = None
    overrun: bool = False
    no_success_in: Micros | None = None
    to: tuple[str, ...] = ()
    grace: Micros = 0
    recovery_runs: int = 1
    calendars: tuple[str, ...] = ()
    owner: str | None = None
    note: str | None = None

    @property
    def conditions(self) -> list[Condition]:
        """Each as a rule has it."""
        found = [Condition(kind=Kind.FINAL_FAILURE)] if self.failed else []
        if self.failures is not None:
            found.append(Condition(kind=Kind.FAILURES, count=self.failures))
        timed = (
            (Kind.LATE, self.late_after),
            (Kind.MISSED, self.missed_after),
            (Kind.OVERRUN, self.overrun_after),
            (Kind.NO_SUCCESS, self.no_success_in),
        )
        found += [Condition(kind=kind, after=after) for kind, after in timed if after is not None]
        if self.overrun and self.overrun_after is None:
            found.append(Condition(kind=Kind.OVERRUN))
        return found


# Where a condition's number stands in an alert.
_NUMBERS = {
    Kind.FAILURES: "failures",
    Kind.LATE: "lateAfterSec",
    Kind.MISSED: "missedAfterSec",
    Kind.OVERRUN: "overrunAfterSec",
    Kind.NO_SUCCESS: "noSuccessInSec",
}
_FIELDS = {"channels": "to", "recovery.runs": "recoveryRuns", "graceSec": "graceSec"}


def rules_of(alert: JobAlert | None, job: str, source: str | None) -> list[Rule]:
    """As rules about the job of this name; `source` is the application that declares the job, if one does."""
    return [
        Rule(
            name=rule_name(job, condition.kind),
            condition=condition,
            jobs=(job,),
            grace=alert.grace,
            recovery=Recovery(runs=alert.recovery_runs),
            channels=alert.to,
            calendars=alert.calendars,
            owner=alert.owner,
            note=alert.note,
            source=source or BY_DEFINITION,
        )
        for condition in (() if alert is None else alert.conditions)
        if alert is not None
    ]


def check_alert(alert: JobAlert, job: str) -> None:
    """Refuse what cannot be watched. Raises Invalid that names the field of the alert."""
    rules = rules_of(alert, job, None)
    if not rules:
        hint = 'For example {"failed": true, "missedAfterSec": 900}.'
        raise Invalid(BAD_RULE, "an alert needs something to be about.", field="alert", hint=hint)
    for rule in rules:
        try:
            check_rule(rule)
        except Invalid as error:
            number = _NUMBERS.get(rule.kind) if error.field in ("afterSec", "count") else None
            field = number or _FIELDS.get(error.field or "", error.field)
            raise Invalid(error.code, error.message, field=f"alert.{field}", hint=error.hint) from None


def rule_name(job: str, kind: Kind) -> str:
    """What the rule of a job's alert is called: the job and the kind; shortened, and told apart, where that is no name."""
    plain = f"{job}.{kind.value}"
    if len(plain) <= LONGEST_NAME and not _UNFIT.search(plain):
        return plain
    mark = blake2b(job.encode(), digest_size=4).hexdigest()
    return f"{_UNFIT.sub('-', job)[: LONGEST_NAME - len(kind.value) - 10]}-{mark}.{kind.value}"
