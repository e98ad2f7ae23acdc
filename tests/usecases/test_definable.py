"""What Python lets pass and no store could give back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from duly.domain.errors import Invalid
from duly.domain.job import JobSpec, JobType, Target, Timing
from duly.domain.limits import Concurrency, Limits
from duly.domain.overlap import Overlap, OverlapPolicy
from duly.domain.retry import RetryPolicy, RetryRule
from duly.usecases.definable import check_types

GOOD = JobSpec(name="job", timing=Timing(type=JobType.CRON, cron="0 3 * * *"), target=Target(handler="work"))


def test_what_is_of_its_types_passes() -> None:
    check_types(GOOD)
    check_types(replace(GOOD, description="every night", batch=3, payload='{"a":1}', limits=Limits(concurrency=Concurrency(max=2))))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"batch": True}, "batch"),
        ({"description": ["a"]}, "description"),
        ({"overlap": Overlap(max_queued=2.5)}, "overlap.max_queued"),  # type: ignore[arg-type]
        ({"overlap": Overlap(policy=OverlapPolicy.ALLOW, max_running=True)}, "overlap.max_running"),
        ({"retry": RetryPolicy(max_attempts=2.5)}, "retry.max_attempts"),  # type: ignore[arg-type]
        ({"retry": RetryPolicy(max_losses=2.5)}, "retry.max_losses"),  # type: ignore[arg-type]
        ({"retry": RetryPolicy(jitter=True)}, "retry.jitter"),
        ({"retry": RetryPolicy(rules=(RetryRule(error="X", max_attempts=2.5),))}, "retry.rules[0].max_attempts"),  # type: ignore[arg-type]
        ({"retry": RetryPolicy(rules=(RetryRule(error="X", retry="no"),))}, "retry.rules[0].retry"),  # type: ignore[arg-type]
        ({"limits": Limits(max_concurrent=True)}, "limits.max_concurrent"),
        ({"limits": Limits(concurrency=Concurrency(max=2.5))}, "limits.concurrency.max"),  # type: ignore[arg-type]
        ({"timing": Timing(type=JobType.CRON, cron="0 3 * * *", seconds="yes")}, "timing.seconds"),  # type: ignore[arg-type]
    ],
)
def test_what_is_not_is_refused_with_its_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_types(replace(GOOD, **change))

    assert (refused.value.code, refused.value.field) == ("DULY-E106", field)
