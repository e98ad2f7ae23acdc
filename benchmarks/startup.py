"""What does a start cost? `python -m benchmarks.startup`: the processor's time of fresh interpreters, the median of several.

tests/package/test_imports.py and tests/cli/test_daily.py hold what was promised, by what is imported and with the best of a few starts.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys

RUNS = 10
CASES = {
    "import duly": ("-c", "import duly"),
    "from duly import App": ("-c", "from duly import App"),
    "from duly.testing import TestApp": ("-c", "from duly.testing import TestApp"),
    "duly --help": ("-m", "duly.cli.main", "--help"),
    "duly --version": ("-m", "duly.cli.main", "--version"),
    # Nobody listens there: all of the command but the answers.
    "duly ps": ("-m", "duly.cli.main", "ps", "--server", "http://127.0.0.1:1"),
    "duly job list": ("-m", "duly.cli.main", "job", "list", "--server", "http://127.0.0.1:1"),
    "duly worker, up to its first look": ("-c", "import duly.cli.serve, duly.compose.service, duly.compose.stores"),
    "duly up, up to its first request": (
        "-c",
        "import duly.cli.serve, duly.compose.service, duly.compose.stores, duly.http.app, duly.http.server, duly.dashboard.pages",
    ),
}
# In milliseconds.
PROMISED = {"import duly": 60.0, "duly --help": 150.0, "duly ps": 250.0}


def spent(*arguments: str) -> float:
    """What some starts cost the processor, in milliseconds: the median. What is compiled at the first one is kept."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {"DULY_KEY": "duly_none"}
    figures: list[float] = []
    for _ in range(RUNS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], capture_output=True, check=False, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        figures.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000)
    return statistics.median(figures[1:])


def main() -> None:
    """Each case, beside what was promised."""
    empty = spent("-c", "")
    print(f"{'an empty interpreter':<36} {empty:8.1f} ms")
    for name, arguments in CASES.items():
        figure = spent(*arguments)
        # An import is what it adds; a command is all that somebody waits for.
        shown = figure if name.startswith("duly") else figure - empty
        promised = f"   promised: at most {PROMISED[name]:g} ms" if name in PROMISED else ""
        print(f"{name:<36} {shown:8.1f} ms{promised}")


if __name__ == "__main__":
    main()
