"""Plain scripts and notebooks: the blocking side of an application, also where an event loop runs already."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from duly.testing import TestApp
from examples.script import app, main, resize


def test_the_script_enqueues_and_its_runs_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "store", f"sqlite:///{tmp_path / 'script.db'}")

    runs = main()

    assert len(set(runs)) == 5
    assert all(run.startswith("run_") for run in runs)


async def test_it_works_in_a_cell_of_a_notebook_whose_loop_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "store", f"sqlite:///{tmp_path / 'notebook.db'}")
    assert asyncio.get_running_loop().is_running()

    assert app.sync.resize.enqueue("cat.png").startswith("run_")
    app.sync.close()


def test_what_the_script_enqueues_can_be_tested() -> None:
    with TestApp(app) as t:
        main()
        t.travel("6m")

        t.assert_enqueued(resize, count=5)
        t.assert_enqueued(resize, path="owl.png")
        assert sorted(run.result for run in t.runs(resize) if run.result) == ["a.png@800", "b.png@800", "cat.png@400", "dog.png@800"]
