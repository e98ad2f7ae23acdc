"""`duly verify`: the guarantees, tested on this machine, with real processes that are killed, paused and cut off."""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from duly.cli.errors import FAILURE, OK
from duly.cli.output import BOLD, GREEN, GREY, RED, YELLOW, Output, paint
from duly.cli.parsing import Arguments, Command, Parser
from duly.cli.places import masked, near
from duly.domain.errors import Invalid

if TYPE_CHECKING:
    from duly.verify.history import History
    from duly.verify.report import Report
    from duly.verify.run import Progress

# How often a line is printed where it cannot be rewritten.
EVERY = 10.0
LONGEST = 24 * 60


def _configure(parser: Parser) -> None:
    parser.add_argument("--minutes", metavar="N", type=_minutes, default=2.0, help="how long things run and are broken; 2 otherwise")
    parser.add_argument(
        "--store",
        metavar="STORE",
        default="sqlite",
        help="sqlite, postgres (a private server with a standby), or the URL of an empty database",
    )
    parser.add_argument("--with", dest="engines", metavar="ENGINES", help="with private servers beside the store: etcd,kafka,redis")
    parser.add_argument("--seed", metavar="N", type=int, help="repeat the schedule of an earlier test; a new one otherwise")
    parser.add_argument("--only", metavar="KINDS", help="break only in these ways, such as kill,pause; `--only list` shows all")
    parser.add_argument("--rate", metavar="N", type=_rate, default=1.0, help="so many times the usual load; 1 is about 20 runs a second")
    parser.add_argument("--small", action="store_true", help="6 nodes instead of 11, for a machine with other things to do")
    parser.add_argument("--report", metavar="DIR", help="keep the history and the report there, as JSON and as a page")
    parser.add_argument("--check", metavar="FILE", help="judge a history that was kept, and run nothing")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress on standard error")
    parser.add_argument("--no-color", action="store_true", help="no colours; NO_COLOR does the same")


def _minutes(text: str) -> float:
    value = float(text)
    if not 0.1 <= value <= LONGEST:
        raise ValueError(text)
    return value


def _rate(text: str) -> float:
    value = float(text)
    if not 0.01 <= value <= 100:
        raise ValueError(text)
    return value


# argparse names the reader in its message: "invalid number of minutes value".
_minutes.__name__ = "number of minutes"
_rate.__name__ = "rate"


def _verify(arguments: Arguments) -> int:
    from duly.verify import judge

    out = Output("json" if arguments.json else "table", quiet=arguments.quiet, no_color=arguments.no_color)
    if arguments.only == "list":
        return _list_kinds()
    history = judge.read(Path(arguments.check)) if arguments.check else _run(arguments, out)
    out.say(paint(f"checking {len(history.events):,} events …", GREY, sys.stderr))
    report, against = judge.judge(history)
    holds = report.holds and not against
    if arguments.report:
        _keep(Path(arguments.report), None if arguments.check else history, report, out)
    elif not holds and not arguments.check:
        _keep(Path(tempfile.mkdtemp(prefix="duly-proof-")), history, report, out)
    _print(report, against, history, arguments.json)
    return OK if holds else FAILURE


def _run(arguments: Arguments, out: Output) -> History:
    from duly.verify import run
    from duly.verify.stage import Size

    seed = secrets.randbelow(1_000_000) if arguments.seed is None else arguments.seed
    options = run.Options(
        minutes=arguments.minutes,
        store=arguments.store,
        seed=seed,
        only=arguments.only,
        engines=arguments.engines,
        rate=arguments.rate,
        ticks=max(round(8 * arguments.rate), 1),
        size=Size.small() if arguments.small else Size(),
    )
    where = "in a directory that is removed afterwards" if arguments.store in ("sqlite", "postgres") else f"on {masked(arguments.store)}"
    nodes = options.size.apis + options.size.schedulers + options.size.workers
    out.say(paint(f"{nodes} processes of Duly on {arguments.store.split(':')[0]}, {where}; seed {seed}.", BOLD, sys.stderr))
    if "://" in arguments.store:
        out.say("It creates jobs there and records every change with triggers, which it removes; the jobs stay. Its server is not touched.")
    out.say(f"{options.minutes:g} minutes, and about half a minute before and after. Ctrl-C ends it and leaves nothing behind.")
    line = _Line(out)
    # Who ends it in order wants what Ctrl-C gives: everything taken down and nothing left.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        return asyncio.run(run.record(options, line.show))
    finally:
        line.end()


class _Line:
    """The progress: one line that is rewritten on a terminal, and a line now and then elsewhere."""

    def __init__(self, out: Output) -> None:
        self._quiet = out.quiet
        self._is_terminal = sys.stderr.isatty()
        self._shown = ""
        self._said = 0.0
        self._told_skips = False

    def show(self, progress: Progress) -> None:
        """Where it is, what has happened, and what is broken right now."""
        if self._quiet:
            return
        if progress.skipped and not self._told_skips:
            self._told_skips = True
            for kind, reason in progress.skipped.items():
                self._write(paint(f"skipped: {kind} ({reason})", YELLOW, sys.stderr))
        faults = sum(progress.faults.values())
        kills = progress.faults.get("kill", 0) + progress.faults.get("kill-api", 0)
        left = f"{progress.left // 60:.0f}:{progress.left % 60:02.0f} left"
        text = f"{progress.phase:<7} {left}   runs {progress.fires:,}   faults {faults} (kills {kills})"
        if progress.broken:
            text += f"   broken: {', '.join(progress.broken)}"
        if self._is_terminal:
            width = _width()
            text = text[: width - 1]
            print(f"\r{text.ljust(min(len(self._shown), width - 1))}", end="", file=sys.stderr, flush=True)
            self._shown = text
        elif time.monotonic() - self._said >= EVERY or progress.phase != self._shown:
            self._said, self._shown = time.monotonic(), progress.phase
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """No more of it."""
        if self._is_terminal and self._shown:
            print(file=sys.stderr, flush=True)

    def _write(self, text: str) -> None:
        start = "\r" if self._is_terminal and self._shown else ""
        print(f"{start}{text.ljust(len(self._shown))}", file=sys.stderr, flush=True)


def _width() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def _keep(directory: Path, history: History | None, report: Report, out: Output) -> None:
    from duly.verify import judge

    try:
        judge.keep(directory, history, report)
    except OSError as error:
        raise Invalid("DULY-E604", f"cannot be written: {error.strerror}.", field="--report") from error
    out.say(f"kept in {near(str(directory))}: {judge.PAGE}, {judge.REPORT}{'' if history is None else f', {judge.HISTORY}'}")


def _print(report: Report, against: list[str], history: History, as_json: bool) -> None:
    from duly.verify.pages import words
    from duly.verify.report import encode

    if as_json:
        print(encode(report).decode())
        return
    lines = words(report)
    holds = report.holds and not against
    print(f"{paint('✓', GREEN) if holds else paint('✗', RED)} {paint(lines[0], BOLD)}")
    for line in lines[1:]:
        print(line)
    for reason in against:
        print(f"{paint('✗', RED)} {reason}")
    for kind, reason in history.about.get("skipped", {}).items():
        print(f"skipped: {kind} ({reason})")
    for failure in sorted(set(history.about.get("failures", ()))):
        print(f"could not be broken: {failure}")
    if not holds:
        print(f"seed {history.about.get('seed')}")


def _list_kinds() -> int:
    from duly.verify.engines.engine import NAMES, engine_of
    from duly.verify.faults import KINDS

    for kind in [*KINDS.values(), *(kind for name in NAMES for kind in engine_of(name).kinds)]:
        print(f"{kind.name:<14} {kind.says}")
    return OK


_EXAMPLES = """
It starts two API nodes, three schedulers and six workers as processes on this machine, gives them work, kills, pauses and cuts
them off, and then checks every promise from what was recorded: by the store, by the handlers, and by the clients. Nothing of yours is
touched. Exit code 1 when a promise was broken, or when the test was too weak to mean anything.

examples:
  duly verify                                     two minutes on SQLite
  duly verify --store postgres --minutes 30       with a standby that is failed over to
  duly verify --store postgres --with etcd,redis  hints over servers that are killed, emptied and set back
  duly verify --only kill,pause --seed 7          two kinds of faults, by a schedule that can be repeated
  duly verify --report proof && open proof/report.html
  duly verify --check proof/history.json          judge it again
"""

COMMANDS = {
    "verify": Command(
        "Test the guarantees on this machine: break real processes and check what became of their work.",
        _configure,
        _verify,
        "duly verify",
        _EXAMPLES,
    )
}
