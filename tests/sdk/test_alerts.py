"""Alerts declared in code."""

from __future__ import annotations

from pathlib import Path

import pytest

from duly import App
from duly.domain.alerts.of_job import rule_name
from duly.domain.alerts.rule import Kind
from duly.domain.errors import Invalid
from duly.domain.instants import MINUTE


async def test_rules_come_with_their_job_and_go_with_their_declaration(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'duly.db'}"
    app = App("shop", store=store)

    @app.job(cron="30 2 * * *", alert=app.alert(missed_after="15m", failures=3, to=["ops"], owner="ada"))
    def nightly() -> None: ...

    try:
        await app.publish()
        connection = await app.connection()
        assert connection.alerts is not None
        rules = {row.rule.name: row.rule for row in await connection.alerts.rules(connection.actor)}
    finally:
        await app.close()
    assert rules.keys() == {"nightly.failures", "nightly.missed"}
    missed = rules["nightly.missed"]
    assert (missed.condition.after, missed.jobs, missed.channels, missed.owner) == (15 * MINUTE, ("nightly",), ("ops",), "ada")

    later = App("shop", store=store)
    later.job(cron="30 2 * * *", name="nightly", alert=later.alert(failed=True))(lambda: None)
    try:
        await later.publish()
        connection = await later.connection()
        assert connection.alerts is not None
        assert [row.rule.name for row in await connection.alerts.rules(connection.actor)] == ["nightly.final_failure"]
    finally:
        await later.close()


def test_a_wrong_alert_is_refused_where_it_is_declared() -> None:
    app = App("shop")
    with pytest.raises(Invalid, match="something to be about"):
        app.alert(to="ops")
    with pytest.raises(Invalid, match="job 'x'"):
        app.job(name="x", alert=app.alert(failures=1000))(lambda: None)
    with pytest.raises(Invalid, match="not a duration"):
        app.alert(late_after="soon")


@pytest.mark.parametrize("job", ["a/b", "x" * 128, "a:b@c"])
def test_every_job_has_a_name_for_its_rules(job: str) -> None:
    from duly.domain.alerts.rule import parse_rule_name

    names = {parse_rule_name(rule_name(job, kind)) for kind in Kind}
    assert len(names) == len(Kind)
    assert names.isdisjoint(rule_name(job.replace("/", "-").replace(":", "-"), kind) for kind in Kind if "/" in job or ":" in job)
