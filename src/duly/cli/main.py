"""The entry: finds the command, imports its module, runs it, and turns every error into words and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duly.cli.parsing import Tree

# Heading, then name, module and summary of each command. Only the module of the command that was typed is imported.
TREE: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "Run Duly",
        (
            ("up", "serve", "everything in one process: API, scheduler and worker"),
            ("dev", "dev", "the same, and again whenever your code changes"),
            ("init", "starting", "a first application and its settings, written into this directory"),
            ("server", "serve", "every role but the worker"),
            ("worker", "serve", "a worker for the jobs of an application; also: worker list, show, drain"),
            ("scheduler", "serve", "dispatcher, sweeper and pruner only"),
            ("api", "serve", "the API only"),
        ),
    ),
    (
        "Every day",
        (
            ("ps", "ps", "what runs and what waits, now"),
            ("run", "runs", "run a job now; also: run list, show, logs, attempts, cancel, retry, replay, compare"),
            ("top", "top", "a live screen: runs, failures, workers, queues, what fires next; acts on them too"),
            ("logs", "logs", "what a run, or a job's latest run, has logged; --grep looks through its recent ones"),
            ("why", "why", "why a run stands where it stands, or a job does not run"),
            ("next", "upcoming", "what fires when"),
            ("dead", "dead", "dead letters: list, show, replay, discard"),
            ("batch", "batches", "bulk actions and backfills: show, continue, abort"),
            ("retry", "runs", "let a retry that waits run now, or replay a dead run"),
            ("open", "looking", "a run, a job or the overview in the browser"),
            ("job", "jobs", "list, show, create, edit, export, history, diff, pause, resume, delete, run"),
            ("workflow", "workflows", "jobs made of steps: list, show, graph, run, retry, approve, signal"),
            ("import", "imports", "schedules from crontab, systemd, celery, apscheduler, github or kubernetes"),
            ("plan", "apply", "what `apply` would change, field by field"),
            ("apply", "apply", "create or change the jobs and workflows of TOML files"),
            ("pause", "jobs", "no fire of a job until it is resumed, or until a time"),
            ("resume", "jobs", "let a paused job fire again"),
            ("backfill", "backfill", "run what a job's schedule named in the past"),
            ("skip", "jobs", "let one fire of a job pass; unskip takes that back"),
            ("unskip", "jobs", "take a skip back"),
            ("calendar", "calendars", "list, show, set, delete, import: holidays, business days, windows"),
            ("alert", "alerts", "who is told what: list, show, snooze, rules, channels, test, links, missed"),
            ("schedule", "schedules", "list, explain, lint, calendar, spread: what fires when, and whether that was meant"),
            ("watch", "runs", "follow a run to its end: how far it is, and how it ended"),
            ("cron", "cron", "explain a cron expression or a rule, offline"),
        ),
    ),
    (
        "Look after it",
        (
            ("doctor", "doctor", "check everything, with a fix for each finding"),
            ("cluster", "cluster", "who owns what: dispatchers and their shards"),
            ("verify", "verify", "test the guarantees on this machine: kill, pause and cut off real processes"),
            ("capacity", "capacity", "will it suffice? lateness, slots, connections and disk of a plan, or of the jobs there are"),
            ("audit", "audit", "who did what: list, export, verify"),
            ("analytics", "analytics", "throughput, lateness, failures, waits: from ClickHouse or from exported files"),
            ("export", "analytics", "finished executions as Parquet files, a directory a day"),
            ("pool", "looking", "pools: list, show"),
            ("tenant", "tenants", "tenants: create, list, show, set, move, key"),
            ("key", "keys", "API keys: create, list, rotate, revoke"),
            ("login", "keys", "a link that logs a browser in, once"),
            ("conformance", "conformance", "check a server, or a worker, against the worker protocol"),
            ("mcp", "mcp", "let an assistant look: jobs, runs, why, dead letters, logs; acting only with --allow"),
            ("db", "db", "the store: status, upgrade, backup"),
            ("completion", "completion", "what your shell needs to complete commands: bash, zsh, fish or pwsh"),
            ("config", "about", "each setting, its value and where it comes from"),
            ("context", "contexts", "servers by name: list, use, add, remove"),
            ("help", "about", "explain an error code, such as E204"),
            ("version", "about", "the version of Duly, Python and SQLite"),
        ),
    ),
)
MODULES = {name: module for _, commands in TREE for name, module, _ in commands}

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    _speak_utf8()
    if not words or words[0] in ("-h", "--help"):
        print(overview(), end="")
        return 0
    if words[0] in ("-V", "--version"):
        words[0] = "version"
    if words == ["help"]:
        print(overview(), end="")
        return 0
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough (`duly run list | head`); the interpreter must not complain at its exit.
        sys.stdout = None
        return 0


def overview() -> str:
    """What `duly --help` prints."""
    lines = ["Duly fires jobs on time, runs them, and answers for every one of them.", "", "Usage: duly COMMAND [OPTIONS]", ""]
    for heading, commands in TREE:
        lines.append(f"{heading}:")
        lines += [f"  {name:<11} {summary}" for name, _, summary in commands]
        lines.append("")
    lines += [
        "Start here:   duly up             then, in another terminal:   duly ps",
        "One command:  duly COMMAND -h     An error code: duly help E204",
        "",
    ]
    return "\n".join(lines)


def _run(words: list[str]) -> int:
    from duly.cli import errors
    from duly.cli.spelling import meant
    from duly.domain.errors import DulyError

    try:
        words = meant(words)
        command = _tree(words[0])
        return command.run(words[1:])
    except DulyError as error:
        return errors.report(error)
    except errors.Withheld as held:
        return held.report()


def _tree(name: str) -> Tree:
    from importlib import import_module

    from duly.cli.errors import did_you_mean
    from duly.domain.errors import Invalid

    if name not in MODULES:
        what = "option" if name.startswith("-") else "command"
        raise Invalid("DULY-E604", f"There is no {what} {name!r}.", hint=did_you_mean(name, MODULES) or "`duly --help` shows all commands.")
    tree: Tree = import_module(f"duly.cli.{MODULES[name]}").COMMANDS[name]
    return tree


def _speak_utf8() -> None:
    """A terminal that cannot show a symbol shows a question mark; it is no reason to fail."""
    from io import TextIOWrapper

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


if __name__ == "__main__":
    sys.exit(main())
