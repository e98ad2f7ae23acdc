"""`duly conformance`: plays a worker against a server, or jobs against a worker, and says which rules hold."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable

from duly import config
from duly.cli.conformance import ends, server, worker
from duly.cli.conformance.probe import Book, Probe, Stage, Verdict
from duly.cli.output import GREEN, GREY, RED, colours, paint
from duly.cli.parsing import Arguments, Command, Parser
from duly.domain.errors import Forbidden

BROKEN = 1


def _configure(parser: Parser) -> None:
    parser.add_argument("url", metavar="URL", nargs="?", help="the server; DULY_URL otherwise, or http://127.0.0.1:3859")
    parser.add_argument("--key", help="an ADMIN key: it makes the jobs and plays the worker; DULY_KEY otherwise")
    parser.add_argument("--worker", metavar="NAME", help="check the worker of this name, alone in its pool, instead of the server")
    parser.add_argument("--json", action="store_true", help="a JSON object per rule")
    parser.add_argument("--no-color", action="store_true", help="no colours; NO_COLOR does the same")


def _conformance(arguments: Arguments) -> int:
    if arguments.no_color:
        colours.set(False)
    settings = config.load(url=arguments.url)
    key = arguments.key or settings.key
    if key is None:
        raise Forbidden("DULY-E301", "There is no key to use.", hint="Give an ADMIN key as --key or DULY_KEY.")
    probe = Probe(settings.url, key)
    probe.ask("GET", "/healthz")
    if arguments.worker is None:
        return _play(server.BOOK + ends.BOOK, lambda pool: Stage(probe, pool), as_json=arguments.json)
    return _play(worker.BOOK, functools.partial(worker.WorkerStage, probe, name=arguments.worker), as_json=arguments.json)


def _play(book: Book, make: Callable[[str], Stage], *, as_json: bool) -> int:
    broken = 0
    for verdict in book.verdicts(make):
        broken += not verdict.holds
        print(_json(verdict) if as_json else _line(verdict), flush=True)
    if not as_json:
        print(f"\n{len(book.rules)} rules, {broken} broken.")
    return BROKEN if broken else 0


def _line(verdict: Verdict) -> str:
    mark = paint("✓", GREEN) if verdict.holds else paint("✗", RED)
    seen = f"saw: {verdict.seen}"
    return f"{mark} {verdict.number:>2}  {verdict.expected}\n      {paint(seen, GREY if verdict.holds else RED)}"


def _json(verdict: Verdict) -> str:
    return json.dumps({"rule": verdict.number, "expected": verdict.expected, "seen": verdict.seen, "holds": verdict.holds})


_EXAMPLES = """
examples:
  duly conformance                                    the server of this directory
  duly conformance https://duly.example.com --key …   another one
  duly conformance --worker node-7                    a worker: start it in a pool of its own first

It works in pools of its own and deletes its jobs afterwards. Exit code 1: a rule is broken.
"""

COMMANDS = {
    "conformance": Command(
        "Check a server, or a worker, against the worker protocol, rule by rule.", _configure, _conformance, "duly conformance", _EXAMPLES
    )
}
