"""Alerts declared in code: `@app.job(..., alert=app.alert(missed_after="15m", failures=3, to=["ops"]))`.

Each condition becomes a rule about that job, published with it and gone with its declaration. Channels are not code: they are made once,
by whoever looks after the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duly.domain.access import Actor
from duly.domain.alerts.of_job import JobAlert, rules_of
from duly.domain.durations import parse_duration
from duly.domain.errors import Invalid
from duly.domain.instants import Micros

if TYPE_CHECKING:
    from duly.domain.job import JobSpec
    from duly.usecases.alerting.alerts import Alerts

Alert = JobAlert
Duration = str | float | timedelta


class DeclaresAlerts:
    """What an application has of alerts."""

    def alert(
        self,
        *,
        failed: bool = False,
        failures: int | None = None,
        late_after: Duration | None = None,
        missed_after: Duration | None = None,
        overrun_after: Duration | None = None,
        overrun: bool = False,
        no_success_in: Duration | None = None,
        to: str | Sequence[str] = (),
        grace: Duration = 0,
        recovery_runs: int = 1,
        calendars: Sequence[str] = (),
        owner: str | None = None,
        note: str | None = None,
    ) -> Alert:
        """What is told about a job: give it as `alert=`. `overrun=True` goes by what its runs mostly take; `to` names channels."""
        made = JobAlert(
            failed=failed,
            failures=failures,
            late_after=_micros(late_after, "late_after"),
            missed_after=_micros(missed_after, "missed_after"),
            overrun_after=_micros(overrun_after, "overrun_after"),
            overrun=overrun,
            no_success_in=_micros(no_success_in, "no_success_in"),
            to=(to,) if isinstance(to, str) else tuple(to),
            grace=parse_duration(grace, field="grace"),
            recovery_runs=recovery_runs,
            calendars=tuple(calendars),
            owner=owner,
            note=note,
        )
        if not made.conditions:
            hint = 'For example app.alert(failed=True, missed_after="15m").'
            raise Invalid("DULY-E118", "an alert needs something to be about.", field="alert", hint=hint)
        return made


async def publish_alerts(alerts: Alerts | None, actor: Actor, source: str, specs: Iterable[JobSpec]) -> None:
    """Make the code the truth of its rules: those of jobs that it no longer declares are gone, though the jobs are kept."""
    if alerts is not None:
        await alerts.declare(actor, source, [rule for spec in specs for rule in rules_of(spec.alert, spec.name, source)])


def declared_alert(value: Any) -> Alert | None:
    """What was given as `alert=`."""
    if value is not None and not isinstance(value, JobAlert):
        raise Invalid("DULY-E118", "alert takes what app.alert(…) answers.", field="alert")
    return value


def _micros(value: Duration | None, field: str) -> Micros | None:
    return None if value is None else parse_duration(value, field=field)
