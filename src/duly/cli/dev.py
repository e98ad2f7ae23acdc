"""`duly dev`: `duly up` as a child, started again whenever a Python file of the application changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from types import FrameType

from duly.cli.errors import OK
from duly.cli.output import GREY, YELLOW, paint
from duly.cli.parsing import Arguments, Command, Parser
from duly.cli.places import near
from duly.cli.serve import up_options
from duly.domain.errors import Invalid

EVERY = 0.5
# While developing nobody wants to wait for a handler that is about to be replaced.
GRACE = "2s"
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})


class Restarts:
    """The child and when it is started again. `seen` is each watched file with the time of its last change."""

    def __init__(self, command: Sequence[str], root: str) -> None:
        self._command = command
        self._root = root
        self._child: subprocess.Popen[bytes] | None = None
        self._asked: int | None = None
        self._has_run = False

    def run(self) -> int:
        """Until a signal; the child's exit code if it was told to stop."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        seen = dict(watched(self._root))
        self._start()
        while self._asked is None:
            time.sleep(EVERY)
            now = dict(watched(self._root))
            changed = sorted(path for path in seen.keys() | now.keys() if seen.get(path) != now.get(path))
            seen = now
            if changed and self._asked is None:
                more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
                _say(f"↻ {near(changed[0])}{more} changed: starting again")
                self._stop()
                self._start()
            elif self._child is not None and self._child.poll() is not None:
                _say(f"! it ended with exit code {self._child.returncode}; waiting for a change in {near(self._root)}")
                self._child = None
        return self._stop(self._asked)

    def _start(self) -> None:
        # A session of its own: a Ctrl-C reaches this process only, which passes it on once.
        brief = ["--brief"] if self._has_run else []
        self._child = subprocess.Popen([*self._command, *brief], start_new_session=True)
        self._has_run = True

    def _stop(self, number: int = signal.SIGTERM) -> int:
        if self._child is None or self._child.poll() is not None:
            return OK
        self._child.send_signal(number)
        return self._child.wait()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._asked is not None and self._child is not None:
            self._child.send_signal(number)
        self._asked = signal.SIGTERM if number == signal.SIGHUP else number


def watched(root: str) -> Iterator[tuple[str, int]]:
    """Python files below a directory with the time of their last change; hidden and virtual environments are left out."""
    for directory, folders, files in os.walk(root):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _SKIPPED]
        for name in files:
            if name.endswith(".py"):
                path = os.path.join(directory, name)
                try:
                    yield path, os.stat(path).st_mtime_ns
                except OSError:
                    continue


def directory_of(reference: str | None) -> str:
    """Where the application's code is: its package, or the directory of its module; here when that cannot be told."""
    here = os.getcwd()
    if reference is None:
        return here
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        spec = find_spec(reference.partition(":")[0].partition(".")[0])
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return here
    if spec.submodule_search_locations:
        return next(iter(spec.submodule_search_locations))
    return os.path.dirname(spec.origin) if spec.origin else here


def _say(text: str) -> None:
    print(paint(text, YELLOW if text.startswith("!") else GREY, sys.stderr), file=sys.stderr, flush=True)


def _configure(parser: Parser) -> None:
    up_options(parser)
    parser.add_argument("--fleet", action="store_true", help="a whole fleet on this machine: PostgreSQL, two servers, two workers")
    parser.add_argument(
        "--demo", action="store_true", help="a shop with forty jobs and some hours of history, whose time passes as fast as you like"
    )
    parser.add_argument(
        "--speed", metavar="N", type=_speed, help="how fast time passes in the demo: 1x, 10x, 60x, 600x or 3600x; the dashboard changes it"
    )
    parser.add_argument("--services", action="store_true", help="only the servers that a fleet stands on, with how to use them")


def _speed(text: str) -> int:
    if text.removesuffix("x") not in ("1", "10", "60", "600", "3600"):
        raise ValueError(text)
    return int(text.removesuffix("x"))


# argparse names the reader in its message: "invalid speed value".
_speed.__name__ = "speed"


def _dev(arguments: Arguments) -> int:
    if arguments.speed and not arguments.demo:
        raise Invalid("DULY-E604", "--speed needs --demo.", hint="Only the demo's time is its own.")
    if arguments.fleet or arguments.services:
        from duly.cli import dev_fleet

        return dev_fleet.fleet(arguments.app) if arguments.fleet else dev_fleet.services()
    if arguments.demo:
        from duly.cli.demo import run

        return run.demo(arguments)
    root = directory_of(arguments.app)
    _say(f"Watching the Python files in {near(root)}")
    return Restarts([sys.executable, "-m", "duly.cli.main", "up", *words_for_up(arguments)], root).run()


def words_for_up(arguments: Arguments) -> list[str]:
    """The same words for `duly up`, with what suits a developer where nothing was said."""
    words = [arguments.app] if arguments.app else []
    for name in ("pool", "slots", "children", "host", "port", "store", "home"):
        value = getattr(arguments, name)
        if value is not None:
            words += [f"--{name}", str(value)]
    for label in arguments.label or ():
        words += ["--label", label]
    words += [f"--{name.replace('_', '-')}" for name in ("shell", "no_worker", "brief") if getattr(arguments, name)]
    return [*words, "--grace", arguments.grace or GRACE, "--log-level", arguments.log_level or "debug"]


COMMANDS = {"dev": Command("Run everything, and again whenever a Python file of the application changes.", _configure, _dev, "duly dev")}
