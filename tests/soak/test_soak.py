"""The soak in short: the whole of it runs, and what a short run can show holds. The hour is `make soak`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duly.services import ServiceMissing
from tests.conftest import service_missing
from tests.soak.report import report
from tests.soak.run import Plan, soak

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SECONDS, RATE = 40.0, 120


@pytest.mark.parametrize("store", ["postgres", "sqlite"])
async def test_nothing_grows_and_nothing_is_left_behind(store: str, tmp_path: Path) -> None:
    plan = Plan(store, SECONDS, RATE, tmp_path)

    try:
        result = await soak(plan, tmp_path)
    except ServiceMissing as error:
        service_missing("PostgreSQL", str(error))
    verdicts = report(plan, result)

    # Times are for long runs on quiet machines; all else holds here as well.
    assert [verdict for verdict in verdicts if verdict.judgement == "broken" and not verdict.bar.startswith("claim p99")] == []
    assert result.load["enqueued"] > RATE * SECONDS / 4
    assert {"claims", "controls", "lateness", "pick_up"} <= {name for sample in result.samples for name in sample if sample[name]}
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert summary["store"] == store
    assert (tmp_path / "soak.svg").read_text(encoding="utf-8").count('class="line c') >= 8
    if store == "postgres":
        assert result.rolls.counts["days made"] > 3
        assert result.rolls.counts["days dropped"] > 0
