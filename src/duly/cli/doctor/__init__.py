"""`duly doctor`: looks at everything that has gone wrong for somebody, and names a fix for what it finds.

A check never ends the examination: what it cannot find out is a finding too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from duly import config
from duly.cli import output
from duly.cli.doctor import machine, server, store
from duly.cli.doctor.findings import FAIL, NOTE, PASS, WARN, Finding, plural
from duly.cli.errors import FAILURE, OK
from duly.cli.output import GREEN, GREY, RED, YELLOW, Output, paint
from duly.cli.parsing import Arguments, Command, Parser, remote_options
from duly.domain.errors import DulyError

_MARKS = {PASS: ("✓", GREEN), NOTE: ("·", GREY), WARN: ("!", YELLOW), FAIL: ("✗", RED)}
CHECKS: Sequence[Callable[[config.Settings], Iterator[Finding]]] = (
    machine.versions,
    machine.zones,
    machine.variables,
    store.store,
    store.link,
    store.transactions,
    store.payloads,
    machine.files,
    machine.limits,
    server.server,
)


def examine(settings: config.Settings) -> Iterator[Finding]:
    """Every finding, one after the other."""
    for check in CHECKS:
        try:
            yield from check(settings)
        except DulyError as error:
            yield Finding(check.__name__, FAIL, f"{error.code}: {error.message}", error.hint)


def repaired(finding: Finding) -> Finding:
    """What can be put right without asking is; the finding says so."""
    if finding.repair is None:
        return finding
    try:
        finding.repair()
    except OSError as error:
        return finding._replace(text=f"{finding.text}; putting it right failed: {error.strerror}")
    return Finding(finding.check, PASS, f"put right: {finding.text}")


def _configure(parser: Parser) -> None:
    parser.add_argument("--fix", action="store_true", help="put right what can be without asking: permissions of files")
    remote_options(parser)


def _doctor(arguments: Arguments) -> int:
    out = output.of(arguments)
    settings = config.load(url=arguments.server, context=arguments.context)
    found = map(repaired, examine(settings)) if arguments.fix else examine(settings)
    if out.format in ("json", "jsonl"):
        findings = list(found)
        out.rows([], [_told(finding) for finding in findings], name=str)
    else:
        findings = _print_as_found(out, found)
    return FAILURE if any(finding.verdict == FAIL for finding in findings) else OK


def _told(finding: Finding) -> dict[str, Any]:
    return {name: value for name, value in finding._asdict().items() if name != "repair"}


def _print_as_found(out: Output, found: Iterator[Finding]) -> list[Finding]:
    findings: list[Finding] = []
    for finding in found:
        findings.append(finding)
        symbol, colour = _MARKS[finding.verdict]
        print(f"{paint(symbol, colour)} {finding.check:<12} {finding.text}", flush=True)
        if finding.fix:
            print(f"{' ' * 15}{paint('fix:', GREY)} {finding.fix}", flush=True)
    failed, warned = (sum(finding.verdict == verdict for finding in findings) for verdict in (FAIL, WARN))
    out.say("\nAll well." if not failed and not warned else f"\n{plural(failed, 'failure')}, {plural(warned, 'warning')}.")
    return findings


COMMANDS = {
    "doctor": Command(
        "Check everything, with a fix for each finding. Exit code 1 when something is broken.", _configure, _doctor, "duly doctor"
    )
}
