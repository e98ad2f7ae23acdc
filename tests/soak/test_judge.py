"""The judge finds what is there, and nothing that is not: series made up, with the noise of a busy machine."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import pytest

from tests.soak.judge import HOUR, MIB, Judgement, Phases, Verdict, judge, percentile, phases_of, ratio_of, theil_sen
from tests.soak.plot import Panel, draw

Change = Callable[[dict[str, Any], float, random.Random], None]


def run(seconds: float = HOUR, *changes: Change, every: float = 5.0, seed: int = 1) -> tuple[list[dict[str, Any]], Phases]:
    """Samples of a run in which nothing is wrong but what the changes do to it."""
    chance = random.Random(seed)
    samples: list[dict[str, Any]] = []
    for nth in range(int(seconds / every)):
        at = nth * every
        sample: dict[str, Any] = {
            "t": at,
            "processes": {"worker": {"rss": 45 * MIB + chance.gauss(0, 0.1) * MIB, "fds": 20 + chance.choice([0, 0, 1])}},
            "claims": [2.0 + chance.expovariate(1.0) for _ in range(100)],
            "controls": [1.0 + chance.expovariate(2.0) for _ in range(100)],
            "pick_up": [3.0 + chance.expovariate(1.0) for _ in range(3)],
            "connections": 30 + chance.choice([0, 1]),
            "statements": {"claim": {"calls": 100, "ms": 12.0, "pages": 4000}},
            "tables": {"ready": {"dead": 1500, "live": 3}, "schedules": {"dead": 2000, "live": 200}},
            "overdue": 300,
            "days": 8,
        }
        for change in changes:
            change(sample, at, chance)
        samples.append(sample)
    return samples, phases_of(seconds)


def stands(verdicts: list[Verdict], bar: str) -> Judgement:
    (found,) = (verdict.judgement for verdict in verdicts if verdict.bar == bar)
    return found


def leak(per_hour: float) -> Change:
    def change(sample: dict[str, Any], at: float, chance: random.Random) -> None:
        sample["processes"]["worker"]["rss"] += per_hour * at / HOUR

    return change


def in_span(begin: float, end: float, do: Callable[[dict[str, Any]], None]) -> Change:
    def change(sample: dict[str, Any], at: float, chance: random.Random) -> None:
        if begin <= at < end:
            do(sample)

    return change


def slower(*what: str, by: float) -> Callable[[dict[str, Any]], None]:
    def do(sample: dict[str, Any]) -> None:
        for name in what:
            sample[name] = [ms * by for ms in sample[name]]

    return do


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_wrong_with_an_hour_of_noise(seed: int) -> None:
    verdicts = judge(*run(seed=seed))

    assert "broken" not in {verdict.judgement for verdict in verdicts}
    assert {verdict.bar for verdict in verdicts if verdict.judgement == "undecided"} <= {
        "claim p99, last part of the pinned span",
        "claim p99, end of the run",
    }


@pytest.mark.parametrize("per_hour", [2 * MIB, 5 * MIB, 100 * MIB])
def test_a_slow_leak_is_found_in_an_hour(per_hour: float) -> None:
    assert stands(judge(*run(HOUR, leak(per_hour))), "memory of worker") == "broken"


def test_a_step_at_the_start_is_no_leak() -> None:
    def step(sample: dict[str, Any]) -> None:
        sample["processes"]["worker"]["rss"] += 20 * MIB

    assert stands(judge(*run(HOUR, in_span(700, HOUR, step))), "memory of worker") == "held"


def test_a_short_run_does_not_cry_leak_over_a_few_hundred_kilobytes() -> None:
    assert stands(judge(*run(180, leak(8 * MIB), every=1.0)), "memory of worker") == "undecided"
    assert stands(judge(*run(180, leak(400 * MIB), every=1.0)), "memory of worker") == "broken"


@pytest.mark.parametrize("seed", range(5))
def test_a_noisy_neighbour_does_not_break_the_claim(seed: int) -> None:
    noise = in_span(HOUR * 0.4, HOUR * 0.8, slower("claims", "controls", by=3.0))

    verdicts = judge(*run(HOUR, noise, seed=seed))

    assert stands(verdicts, "claim p99, last part of the pinned span") != "broken"
    assert stands(verdicts, "claim p99, end of the run") != "broken"


def test_claims_that_become_slower_by_themselves_do() -> None:
    verdicts = judge(*run(HOUR, in_span(HOUR * 0.4, HOUR * 0.8, slower("claims", by=1.5))))

    assert stands(verdicts, "claim p99, last part of the pinned span") == "broken"
    assert stands(verdicts, "claim p99, end of the run") != "broken"


def set_dead(table: str, dead: int) -> Callable[[dict[str, Any]], None]:
    return lambda sample: sample["tables"][table].update(dead=dead)


def test_dead_rows_in_the_queue_break_it_at_any_time_others_only_when_they_stay() -> None:
    pinned = in_span(HOUR * 0.3, HOUR * 0.8, set_dead("schedules", 400_000))
    assert stands(judge(*run(HOUR, pinned)), "dead rows after the pin") == "held"
    assert stands(judge(*run(HOUR, in_span(HOUR * 0.3, HOUR, set_dead("schedules", 400_000)))), "dead rows after the pin") == "broken"
    queue = in_span(HOUR * 0.7, HOUR * 0.71, set_dead("ready", 60_000))
    assert stands(judge(*run(HOUR, queue)), "dead rows a claim walks through") == "broken"


def test_a_claim_that_touches_thousands_of_pages_breaks_the_bar() -> None:
    def more(sample: dict[str, Any]) -> None:
        sample["statements"]["claim"]["pages"] = 250_000

    assert stands(judge(*run(HOUR, in_span(HOUR * 0.3, HOUR * 0.8, more))), "pages per claim under the pin") == "broken"


def test_handles_connections_and_history_that_grow_are_found() -> None:
    def grow(sample: dict[str, Any], at: float, chance: random.Random) -> None:
        sample["processes"]["worker"]["fds"] += at // 600
        sample["connections"] += at // 600
        sample["overdue"] += at * 20

    verdicts = judge(*run(HOUR, grow))

    bars = ("file handles of worker", "connections", "history past its retention")
    assert [stands(verdicts, bar) for bar in bars] == ["broken"] * 3


def test_a_short_run_does_not_cry_leak_over_connections_that_are_opened_late() -> None:
    def grow(sample: dict[str, Any], at: float, chance: random.Random) -> None:
        sample["connections"] += at // 6

    assert stands(judge(*run(40, grow, every=1.0)), "connections") == "undecided"


def test_a_log_that_does_not_shrink_again_is_found() -> None:
    def sqlite(wal_after: float) -> Change:
        def change(sample: dict[str, Any], at: float, chance: random.Random) -> None:
            del sample["tables"], sample["statements"], sample["connections"], sample["days"]
            sample["wal"] = 400 * MIB if HOUR * 0.3 <= at < HOUR * 0.8 else wal_after if at >= HOUR * 0.8 else 16 * MIB

        return change

    assert stands(judge(*run(HOUR, sqlite(16 * MIB))), "write-ahead log after the pin") == "held"
    assert stands(judge(*run(HOUR, sqlite(400 * MIB))), "write-ahead log after the pin") == "broken"


def test_the_statistics_say_what_they_are_of() -> None:
    slope = theil_sen([(minute * 60.0, minute * 2.0) for minute in range(30)])
    assert slope is not None
    assert slope.estimate == pytest.approx(120)
    assert theil_sen([(0, 1), (1, 2)]) is None
    ratio = ratio_of([3.0] * 10, [2.0] * 10)
    assert ratio is not None
    assert (ratio.low, ratio.estimate, ratio.high) == (1.5, 1.5, 1.5)
    assert percentile(range(100), 0.99) == 99


def test_a_picture_has_its_lines_and_its_band() -> None:
    picture = draw(
        "a <run>", [Panel("Memory", "MiB", {"worker & co": [(0, 1.0), (30, 2.0), (60, 1.5)]}, bar=1.8)], 60, {"pinned": (15, 45)}
    )

    assert ET.fromstring(picture).tag.endswith("svg")
    assert picture.count('class="line c1"') == picture.count('class="line loud"') == 1
    assert "worker &amp; co" in picture
    assert "a &lt;run&gt;" in picture
    assert "pinned" in picture


class TestSteady:
    """Without a pin: the end is as the beginning was."""

    @pytest.mark.parametrize("seed", range(3))
    def test_where_nothing_drifts_no_bar_is_broken(self, seed: int) -> None:
        verdicts = judge(*run(seed=seed), steady=True)

        assert [verdict for verdict in verdicts if verdict.judgement == "broken"] == []
        assert stands(verdicts, "dead rows, last third") == "held"

    def test_claims_that_become_slower_break_it(self) -> None:
        samples, phases = run(HOUR, in_span(HOUR * 0.6, HOUR, slower("claims", by=1.5)))

        assert stands(judge(samples, phases, steady=True), "claim p99, last third") == "broken"

    def test_starts_that_become_later_break_it(self) -> None:
        samples, phases = run(HOUR, in_span(HOUR * 0.6, HOUR, slower("pick_up", by=2.0)))

        assert stands(judge(samples, phases, steady=True), "start delay p90, last third") == "broken"

    def test_dead_rows_that_pile_up_break_it(self) -> None:
        samples, phases = run(HOUR, in_span(HOUR * 0.6, HOUR, set_dead("schedules", 20_000)))

        assert stands(judge(samples, phases, steady=True), "dead rows, last third") == "broken"
