"""Whatever a handler raises in a child process is its failure, and the child lives on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from duly.domain.redaction import Veil
from duly.executors.messages import LONGEST_MESSAGE
from duly.executors.processes import ProcessPool
from duly.ports.endings import Failure
from tests.executors.attempts import python
from tests.roles.odd_errors import ODD

REFERENCE = "tests.executors.sample_app"


@pytest.fixture
async def pool() -> AsyncIterator[ProcessPool]:
    made = ProcessPool(REFERENCE, size=1, grace=10)
    yield made
    await made.close()


@pytest.mark.parametrize("handler", ["odd", "odd_async"])
async def test_whatever_is_raised_in_a_child_is_a_failure_and_no_loss(pool: ProcessPool, handler: str) -> None:
    [child] = {(await pool.run("describe", python("describe")))["pid"]}
    told = {}

    for which, (_, _, name) in ODD.items():
        with pytest.raises(Failure) as failed:
            await pool.run(handler, python(handler, payload=which))
        told[which] = failed.value.type
        assert name in failed.value.kinds, which
        assert len(str(failed.value)) < LONGEST_MESSAGE
        assert pool.pids() == [child], which

    assert told == {which: kind for which, (_, kind, _) in ODD.items()}


async def test_words_that_cannot_be_stored_keep_their_error(pool: ProcessPool) -> None:
    with pytest.raises(Failure) as failed:
        await pool.run("odd", python("odd", payload="half a pair"))

    assert (failed.value.type, str(failed.value)) == ("ValueError", "half ? of a pair, and \ufffd")
    assert "ValueError" in failed.value.kinds
    assert "in odd" in (failed.value.detail or "")


async def test_a_secret_in_a_long_message_is_hidden_before_it_is_cut(pool: ProcessPool) -> None:
    attempt = python("odd", payload="a secret where it is cut")
    attempt.extras.veil = Veil(["hunter22"])

    with pytest.raises(Failure) as failed:
        await pool.run("odd", attempt)

    assert "hunter" not in str(failed.value)
    assert "hunter" not in (failed.value.detail or "")


async def test_a_log_line_that_cannot_be_told_does_not_end_its_attempt(pool: ProcessPool) -> None:
    attempt = python("logs_oddly")

    assert await pool.run("logs_oddly", attempt) == "logged"
    assert (await pool.run("describe", python("describe")))["attempt"] == 1

    first, second = attempt.logs
    assert (first.message, first.fields) == ("half ? of a pair", {"half": "?", "large": 1 << 80, "pair": [1, {"2": "two"}]})
    assert second.fields == {}
    assert "is not kept" in second.message


async def test_what_a_handler_leaves_behind_does_not_end_its_child(pool: ProcessPool) -> None:
    for _ in range(2):
        await pool.run("breaks_its_output", python("breaks_its_output"))
        with pytest.raises(Failure) as failed:
            await pool.run("returns_oddly", python("returns_oddly"))
        assert failed.value.type == "GeneratorExit"
    [child] = pool.pids()

    assert (await pool.run("describe", python("describe")))["pid"] == child


@pytest.mark.parametrize("which", ["generator exit", "no Exception", "words that interrupt", "half a pair", "a book"])
async def test_an_application_that_raises_as_it_is_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    (tmp_path / "breaks.py").write_text(f"from tests.roles.odd_errors import ODD\nraise ODD[{which!r}][0]()\n")
    monkeypatch.syspath_prepend(tmp_path)
    pool = ProcessPool("breaks", size=1)

    with pytest.raises(Failure) as failed:
        await pool.run("describe", python("describe"))

    assert failed.value.type == "ImportFailed"
    assert pool.pids() == []
    await pool.close()
