"""Retry rules, deadlines, and when a process is started again."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain import decide
from duly.domain.errors import Invalid
from duly.domain.execution import Lost
from duly.domain.ids import new_id
from duly.domain.instants import DAY, SECOND
from duly.domain.lifecycle import State
from duly.domain.restart import LONGEST_WAIT, should_restart, wait_before_start
from duly.domain.retry import Backoff, RetryPolicy, RetryRule, bounded_wait
from duly.ports.endings import kinds_of

NOW = 1_000_000 * SECOND
FIXED = RetryPolicy(max_attempts=3, backoff=Backoff.FIXED, initial_delay=10 * SECOND, jitter=0.0)

rules = st.lists(
    st.builds(
        RetryRule,
        error=st.sampled_from("ABC"),
        delay=st.none() | st.integers(0, 100 * SECOND),
        max_attempts=st.none() | st.integers(1, 20),
    )
    | st.builds(RetryRule, error=st.sampled_from("ABC"), retry=st.just(False)),
    max_size=4,
)


@given(rules=rules, kinds=st.lists(st.sampled_from("ABCD"), max_size=3), failures=st.integers(0, 20))
def test_the_first_rule_that_names_a_kind_decides_and_no_other(rules: list[RetryRule], kinds: list[str], failures: int) -> None:
    policy = RetryPolicy(max_attempts=3, backoff=Backoff.FIXED, initial_delay=10 * SECOND, jitter=0.0, rules=tuple(rules))

    verdict = decide.after_failure(policy, failures, NOW, 0.5, error="{}", kinds=kinds)

    rule = next((rule for rule in rules if rule.error in kinds), RetryRule(error="none"))
    most = rule.max_attempts or 3
    if rule.retry and failures + 1 < most:
        assert (verdict.state, verdict.retry_at) == (State.SCHEDULED, NOW + (10 * SECOND if rule.delay is None else rule.delay))
    else:
        assert (verdict.state, verdict.retry_at) == (State.DEAD, None)


@given(
    wait=st.none() | st.integers(-100 * DAY, 100 * DAY),
    deadline=st.none() | st.integers(NOW - DAY, NOW + 60 * DAY),
    failures=st.integers(0, 4),
)
def test_a_retry_lies_between_now_and_the_deadline(wait: int | None, deadline: int | None, failures: int) -> None:
    verdict = decide.after_failure(FIXED, failures, NOW, 0.5, error='{"type":"X"}', wait=wait, deadline=deadline)

    if verdict.retry_at is not None:
        assert NOW <= verdict.retry_at <= NOW + 30 * DAY
        assert deadline is None or verdict.retry_at < deadline
    elif failures + 1 < 3:
        assert json.loads(verdict.error or "") == {"type": "X", "reason": "execution timeout"}


@given(wait=st.integers(-(10**18), 10**18))
def test_a_wait_is_never_negative_nor_longer_than_thirty_days(wait: int) -> None:
    assert 0 <= bounded_wait(wait) <= 30 * DAY
    assert bounded_wait(bounded_wait(wait)) == bounded_wait(wait)


def test_a_snooze_ends_at_the_deadline_and_before_attempts_run_out_of_numbers() -> None:
    assert decide.after_snooze(SECOND, 1, NOW, None).retry_at == NOW + SECOND
    assert decide.after_snooze(SECOND, 1, NOW, NOW + SECOND).state is State.DEAD
    assert decide.after_snooze(SECOND, decide.MOST_CALLS, NOW, None).state is State.DEAD


def test_a_loss_that_was_seen_says_how_it_happened() -> None:
    id = new_id(NOW, lambda bits: 1)
    lost = Lost(id, 1, 1, NOW, 1, 0, 2, False, id, 1, False)

    verdict = decide.after_loss(lost, FIXED, NOW, "exited with status 1")

    assert verdict.state is State.DEAD
    assert json.loads(verdict.error or "") == {
        "type": "WorkerLost",
        "message": "killed its worker 3 times",
        "reason": "poison",
        "detail": "exited with status 1",
    }


@pytest.mark.parametrize(
    "rule",
    [
        {"error": ""},
        {"error": "not a name"},
        {"error": "a..b"},
        {"error": "X" * 201},
        {"error": "X", "delay": -1},
        {"error": "X", "delay": 31 * DAY},
        {"error": "X", "max_attempts": 0},
        {"error": "X", "retry": False, "delay": 1},
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(rule: dict[str, object]) -> None:
    with pytest.raises(Invalid) as refused:
        RetryRule(**rule)  # type: ignore[arg-type]

    assert (refused.value.code, refused.value.field) == ("DULY-E106", "retryPolicy.rules")


def test_an_error_is_known_by_its_class_and_its_base_classes() -> None:
    assert {"UnicodeError", "ValueError", "builtins.ValueError", "Exception"} <= set(kinds_of(UnicodeError()))
    assert "BaseException" not in kinds_of(UnicodeError())


@pytest.mark.parametrize("left_behind", [0, 1, 5])
@pytest.mark.parametrize("may_restart", [False, True])
@pytest.mark.parametrize("stopping", [False, True])
def test_a_process_restarts_only_for_what_nothing_else_ends(left_behind: int, may_restart: bool, stopping: bool) -> None:
    wanted = should_restart(left_behind=left_behind, may_restart=may_restart, stopping=stopping)

    assert wanted == (left_behind > 0 and may_restart and not stopping)


@given(lives=st.lists(st.floats(0, 120), min_size=1, max_size=60))
def test_who_dies_young_waits_longer_and_who_lived_starts_at_once(lives: list[float]) -> None:
    deaths, last = 0, 0.0
    for lived in lives:
        wait, deaths = wait_before_start(deaths, lived)
        assert 0 < wait <= LONGEST_WAIT
        assert wait == 0.1 if lived >= 60 else wait >= last
        last = wait
