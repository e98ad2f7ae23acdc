"""The pages about testing are tests: each block is executed, and each test on them passes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from duly import App

DOCS = Path(__file__).parents[2] / "docs"

pytest_plugins = ["pytester"]


@pytest.mark.parametrize(("page", "tests"), [("tutorial/test-a-schedule.md", 4), ("how-to/testing.md", 8)])
def test_every_test_on_the_page_passes(pytester: pytest.Pytester, page: str, tests: int) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error")
    pytester.makepyfile("\n\n".join(blocks))

    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-q", "--duly-snapshots").assert_outcomes(passed=tests)


@pytest.mark.parametrize("page", ["how-to/fastapi.md", "how-to/scripts-and-notebooks.md"])
def test_the_code_of_a_page_about_a_framework_is_executed(page: str) -> None:
    names: dict[str, object] = {"__name__": "page"}
    for block in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, page, "exec"), names)

    assert isinstance(names["app"], App)
