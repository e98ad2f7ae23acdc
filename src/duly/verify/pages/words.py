"""A report in words, for a terminal."""

from __future__ import annotations

import textwrap

from duly.verify.pages.markup import visible
from duly.verify.pages.quantities import count, duration, instant, many
from duly.verify.pages.standing import headline, numbers, standing, unjudged, volume
from duly.verify.report import Finding, Report, Spread

SHOWN_FINDINGS = 20
_WIDTH = 120


def words(report: Report) -> list[str]:
    """The verdict, the counts, what broke with the ids to look up, and what was not judged; lines without their ends."""
    return [_one_line(line) for line in [headline(report) + ".", *_counted(report), *_broken(report), *_rest(report)]]


def _counted(report: Report) -> list[str]:
    spread = report.recovery
    recovery = f"recovery p50 {duration(spread.p50)}, p99 {duration(spread.p99)}" if spread.count else "no recovery measured"
    plain = " · ".join([*(f"{number.name} {number.value}" for number in numbers(report)), recovery])
    return [plain, ", ".join([*volume(report), f"{duration(report.ended_at - report.started_at)} long"])]


def _broken(report: Report) -> list[str]:
    lines: list[str] = []
    for verdict in report.verdicts:
        if standing(verdict) != "broken":
            continue
        lines += ["", f"{verdict.invariant}  {verdict.title}: broken, {count(verdict.judged)} judged"]
        lines += [f"    {said(finding)}" for finding in verdict.findings[:SHOWN_FINDINGS]]
        if len(verdict.findings) > SHOWN_FINDINGS:
            lines.append(f"    and {count(len(verdict.findings) - SHOWN_FINDINGS)} more")
    return lines


def _rest(report: Report) -> list[str]:
    lines = [""]
    for name in ("calm", "faulty"):
        if name in report.delays:
            lines.append(f"late when {name}: {_spread(report.delays[name])}")
    if report.recovery.count:
        bound = f", allowed {duration(report.recovery_bound)}" if report.recovery_bound else ""
        lines.append(f"recovery: {_spread(report.recovery)}{bound}")
    lines += _listed("faults", [f"{kind} {count(number)}" for kind, number in sorted(report.faults.items())])
    lines += _listed("reached", [f"{state} {count(number)}" for state, number in sorted(report.reached.items()) if number])
    lines += _listed("never reached", [state for state, number in sorted(report.reached.items()) if not number])
    lines += _listed("not judged", [f"{verdict.invariant} {verdict.title}" for verdict in unjudged(report)])
    return lines


def said(finding: Finding) -> str:
    """One finding with what it takes to look it up."""
    places = [instant(finding.at) if finding.at is not None else None, finding.run, finding.job, events(finding)]
    return " ".join([*(place for place in places if place), finding.says])


def events(finding: Finding) -> str | None:
    """The numbers of the events that show it."""
    if not finding.seqs:
        return None
    shown = ", ".join(map(str, finding.seqs[:8])) + (", …" if len(finding.seqs) > 8 else "")
    return f"{'event' if len(finding.seqs) == 1 else 'events'} {shown}"


def _spread(spread: Spread) -> str:
    if not spread.count:
        return "nothing started"
    return f"p50 {duration(spread.p50)}, p99 {duration(spread.p99)}, at most {duration(spread.most)} ({many(spread.count, 'start')})"


def _listed(name: str, entries: list[str]) -> list[str]:
    if not entries:
        return [f"{name}: none"]
    return textwrap.wrap(f"{name}: {', '.join(map(_one_line, entries))}", _WIDTH, subsequent_indent="    ", break_on_hyphens=False)


def _one_line(text: str) -> str:
    """Names come from users: none of them may move the cursor or begin a line of its own."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")
