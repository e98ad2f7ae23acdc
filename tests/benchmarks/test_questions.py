"""Every question in its tiniest form: that it runs, and that its figures can be. How large they are is nobody's business here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import audit, cost, drain, failover, fairness, fires, flow, herd, latency, pinned, submit, telemetry
from benchmarks.fleet import Fleet, all_succeeded, each_once, none_early
from benchmarks.harness import Scratch, Stores, opened
from benchmarks.marks import Mark, Marks
from benchmarks.question import Case, Question
from benchmarks.questions import QUESTIONS
from benchmarks.report import Failed, Figures
from benchmarks.scale import TINY
from tests.services.postgres import Postgres

ROOT = Path(drain.__file__).parent


@pytest.fixture
def file() -> Iterator[Scratch]:
    with Stores() as stores, stores.fresh("sqlite") as store:
        yield store


@pytest.fixture
def database(postgres_server: Postgres, postgres_dsn: str, tmp_path: Path) -> Scratch:
    return Scratch("postgres", postgres_dsn, tmp_path, postgres_server)


def named(question: Question, name: str) -> Case:
    return next(case for case in question.cases if case.name == name)


def asked(question: Question, name: str, store: Scratch) -> dict[str, float]:
    async def ask() -> Figures:
        return await named(question, name).ask(store, TINY)

    found = asyncio.run(ask())
    assert question.figures.keys() & found.keys()
    return {figure: value for figure, value in found.items() if value is not None}


@pytest.mark.slow
def test_a_drain_counts_every_execution(file: Scratch) -> None:
    found = asked(drain.QUESTION, "batches of 100", file)

    assert found["jobs"] == 100
    # Looking comes after ending.
    assert 0 < found["until_settled"] <= found["per_second"]


@pytest.mark.slow
def test_a_flow_counts_from_the_first_call_of_its_producer(file: Scratch) -> None:
    found = asked(flow.QUESTION, drain.NOOP, file)

    # Looking comes after both. Which of them ends first is nobody's promise: the last handler may return before the last call does.
    assert 0 < found["until_settled"] <= min(found["per_second"], found["brought_a_second"])


@pytest.mark.slow
def test_a_drain_under_an_old_snapshot(database: Scratch) -> None:
    found = asked(pinned.QUESTION, "a full queue", database)

    assert found["jobs"] == 100


@pytest.mark.slow
@pytest.mark.parametrize("name", [latency.PICK_UP, latency.SAME])
def test_delays_are_those_of_every_execution(file: Scratch, name: str) -> None:
    found = asked(latency.QUESTION, name, file)

    assert found["jobs"] == 10
    assert 0 < found["p50"] <= found["p99"] <= found["max"]


@pytest.mark.slow
def test_a_herd_is_done_after_its_second(file: Scratch) -> None:
    found = asked(herd.QUESTION, "one cron schedule each", file)

    assert found["jobs"] == 100
    assert 1000 * found["seconds"] >= found["p50"] > 0


@pytest.mark.slow
def test_fires_that_are_skipped_do_not_count(file: Scratch) -> None:
    found = asked(fires.QUESTION, "overlap skip", file)

    assert found["per_minute"] > 0
    assert found["asked"] == 60 * TINY.fires_a_second


@pytest.mark.slow
def test_the_latest_fire_after_a_kill_is_found(database: Scratch) -> None:
    found = asked(failover.QUESTION, "one of two servers, kill -9", database)

    assert found["kills"] == 1
    assert found["least"] == found["median"] == found["worst"] > 0


@pytest.mark.parametrize("name", ["one caller", "64 callers", "1,000 at a time", submit.BARE])
def test_submits_that_are_counted_are_in_the_store(file: Scratch, name: str) -> None:
    assert asked(submit.QUESTION, name, file)["jobs"] > 0


def test_bare_inserts_that_are_counted_are_in_the_database(database: Scratch) -> None:
    assert asked(submit.QUESTION, submit.BARE, database)["jobs"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [submit.HTTP, submit.BARE_HTTP])
def test_submits_over_http_are_in_the_store(file: Scratch, name: str) -> None:
    assert asked(submit.QUESTION, name, file)["jobs"] > 0


@pytest.mark.slow
def test_a_process_has_memory_and_uses_the_processor(file: Scratch) -> None:
    found = asked(cost.QUESTION, drain.NOOP, file)

    assert 5 < found["worker_rest"] <= found["worker_load"]
    assert found["worker_cpu"] > 0
    assert "database_cpu" not in found


@pytest.mark.slow
def test_shares_are_those_of_tenants_that_all_have_work(database: Scratch) -> None:
    found = asked(fairness.QUESTION, fairness.SHARES, database)

    assert 0 <= found["largest_error"] < 1


def test_every_record_of_an_audited_enqueue_is_linked(file: Scratch) -> None:
    found = asked(audit.QUESTION, "four callers, 100 at a time", file)

    assert found["recorded"] > 0
    assert found["linked_a_second"] > 0


@pytest.mark.slow
def test_a_drain_is_compared_with_one_without_metrics_and_traces(file: Scratch) -> None:
    found = asked(telemetry.QUESTION, telemetry.SAMPLED, file)

    assert found["off"] > 0
    assert found["pairs"] == 1
    assert found["share"] == found["share_least"] == found["share_most"] == pytest.approx(found["off"] / found["on"])


# ------------------------------------------------------------ what a measurement notices


def test_what_ran_twice_or_not_at_all_is_no_measurement() -> None:
    each_once([Mark(1.0, 1.0), Mark(2.0, 0.0)], 2)

    for carried in ([0.0, 0.0], [0.0], [0.0, 1.0, 1.0], [1.0, 2.0]):
        with pytest.raises(Failed):
            each_once([Mark(5.0, number) for number in carried], 2)


def test_what_started_early_is_no_measurement() -> None:
    none_early([Mark(2.0, 2.0), Mark(2.1, 2.0)])

    with pytest.raises(Failed, match="1 of 2 started early"):
        none_early([Mark(2.0, 2.0), Mark(1.9, 2.0)])


def test_an_outcome_that_is_missing_is_no_measurement(file: Scratch) -> None:
    async def look() -> None:
        async with opened(file):
            await all_succeeded(file, 1)

    with pytest.raises(Failed, match="0 have an outcome"):
        asyncio.run(look())


def test_a_process_that_ends_is_told_with_its_last_words(file: Scratch) -> None:
    async def look() -> None:
        with Marks() as marks:
            fleet = Fleet(file, marks)
            fleet.start("worker", ["worker", "benchmarks.no_such_module:app"])
            try:
                await fleet.started(1, 60)
            finally:
                fleet.kill("worker")

    with pytest.raises(Failed, match=r"the worker ended with \d+ before 1 handlers had started(.|\n)*no_such_module"):
        asyncio.run(look())


# ------------------------------------------------------------ all of them


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=lambda question: question.name)
def test_a_question_is_a_file_and_in_the_readme_and_its_bounds_are_of_its_cases(question: Question) -> None:
    cases = {case.name for case in question.cases}

    assert (ROOT / f"{question.name}.py").exists()
    assert f"`{question.name}`" in (ROOT / "README.md").read_text()
    assert len(cases) == len(question.cases)
    for bound in question.bounds:
        assert bound.case in cases
        assert bound.times_as_much_as in {*cases, ""}
        assert bound.store in named(question, bound.case).stores
        assert bound.figure in question.figures
    assert question.compared in question.figures
    if question.base:
        name, case = question.base_key
        assert named(QUESTIONS[name], case)
