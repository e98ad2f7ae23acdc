"""Seeds a mutant into a copy of the sources, runs its tests there, and judges how they ended.

Only a test that failed counts. A copy that cannot be imported, collected or understood by the database shows a bad mutant, not
a good test.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
COPIED = ("src", "tests", "pyproject.toml")
SUMMARY = re.compile(r"^(FAILED|ERROR) (\S+?::.+?)(?: - (.*))?$", re.MULTILINE)
# An edit that leaves no working program proves nothing.
NONSENSE = re.compile(
    r"^(?:\w+\.)*(?:SyntaxError|IndentationError|ImportError|ModuleNotFoundError|NameError|AttributeError|TypeError|KeyError"
    r"|OperationalError|ProgrammingError|PostgresSyntaxError|Undefined\w+|DatatypeMismatchError|AmbiguousParameterError"
    r"|IndeterminateDatatypeError)\b"
)


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run of tests ended. `killed_by` is the test that failed, if one did as a test fails; else `why` not."""

    passed: bool
    killed_by: str | None
    why: str
    seconds: float
    output: str


def times_found(mutant: Mutant) -> int:
    """How often the text that it replaces stands in its file."""
    return (ROOT / "src" / "duly" / mutant.path).read_text(encoding="utf-8").count(mutant.old)


def run(tests: Sequence[str], mutant: Mutant | None, budget: float) -> Ran:
    """Run these tests on a fresh copy, with the mutant in it; without one when it is None."""
    with TemporaryDirectory(prefix="duly-mutant-") as place:
        copy = Path(place)
        for name in COPIED:
            source = ROOT / name
            # With what is compiled already: the copy keeps the times, so only the edited file is compiled anew.
            shutil.copytree(source, copy / name) if source.is_dir() else shutil.copy2(source, copy / name)
        if mutant is not None:
            seed(copy, mutant)
        return _run_pytest(copy, tests, budget)


def seed(copy: Path, mutant: Mutant) -> None:
    """Edit the copy."""
    path = copy / "src" / "duly" / mutant.path
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: its text stands {text.count(mutant.old)} times in {mutant.path}, and must stand there once")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")


def _run_pytest(copy: Path, tests: Sequence[str], budget: float) -> Ran:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-rfE", "--tb=no", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist"]
    # The same examples every time: a mutant that dies dies again tomorrow.
    environment = os.environ | {"PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy}", "COLUMNS": "400", "CI": "true"}
    environment.pop("PYTEST_ADDOPTS", None)
    environment.pop("PYTEST_XDIST_WORKER", None)
    began = time.monotonic()
    process = subprocess.Popen(
        [*command, *(f"tests/{test}" for test in tests)],
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=budget)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return Ran(False, None, f"not done in {budget:.0f} s", time.monotonic() - began, output)
    return judge(process.returncode, output, time.monotonic() - began)


def judge(code: int, output: str, seconds: float) -> Ran:
    """Read what pytest says."""
    if code == 0:
        return Ran(True, None, "all tests pass", seconds, output)
    found = SUMMARY.findall(output)
    if code != 1 or not found:
        return Ran(False, None, f"pytest ended with {code} and no failed test", seconds, output)
    for kind, test, message in found:
        # What holds after each test is asserted by a fixture, so that a failed assertion there counts as well.
        if not NONSENSE.match(message) and (kind == "FAILED" or message.startswith(("AssertionError", "assert"))):
            return Ran(False, test.removeprefix("tests/"), message, seconds, output)
    return Ran(False, None, f"not a test's failure: {found[0][2]}", seconds, output)
