"""The report as one HTML file: no script, no resource from elsewhere, light or dark as the reader has it, and fit to print."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

from duly.verify.pages.curves import lateness
from duly.verify.pages.lanes import chosen, close_ups, legend, overview
from duly.verify.pages.markup import Markup, element, joined
from duly.verify.pages.quantities import SECOND, count, duration, instant, many
from duly.verify.pages.standing import Number, headline, numbers, overall, standing, volume
from duly.verify.pages.svg import PALETTE, STYLE, Figure
from duly.verify.pages.words import SHOWN_FINDINGS, events
from duly.verify.report import Band, Finding, Report, Spread, Status, Verdict

# What the page needs is in it; should a name ever get through as markup, it can load and run nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_SIGNS: dict[Status, str] = {"held": "✓", "broken": "✗", "not judged": "–"}
# First what it takes to repeat the run, then the rest.
_ABOUT_FIRST = ("command", "seed", "store", "versions", "commit", "hardware")
# Made to be looked for, so they must not be found here.
_ABOUT_HIDDEN = frozenset({"canaries"})
_ABOUT_LENGTH = 600


def render(report: Report) -> str:
    """The whole page."""
    title = headline(report)
    css = PALETTE + STYLE + files(__package__).joinpath("style.css").read_text()
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title} · duly verify"),
        element("style", Markup(css)),
    )
    main = element(
        "main", _top(report, title), _invariants(report), _timelines(report), _lateness(report), _faults(report),
        _reached(report), _about(report),
    )  # fmt: skip
    return "<!doctype html>\n" + element("html", head, element("body", main), lang="en") + "\n"


# ------------------------------------------------------------ the verdict


def _top(report: Report, title: str) -> Markup:
    since, until = (instant(at - at % SECOND) for at in (report.started_at, report.ended_at))
    when = f"{since} to {until}, {duration(report.ended_at - report.started_at)}"
    faults = f"{many(sum(report.faults.values()), 'fault')} of {many(len(report.faults), 'kind')}"
    spread = report.recovery
    recovery = [
        Number(f"recovery {name}", duration(value) if spread.count else "none")
        for name, value in (("p50", spread.p50), ("p99", spread.p99))
    ]
    cells = [
        element("div", element("dt", number.name), element("dd", number.value, class_=_number_class(number)))
        for number in [*numbers(report), *recovery]
    ]
    return joined(
        element(
            "header",
            element("h1", title),
            element("p", when, class_="soft"),
            element("p", ", ".join([*volume(report), faults]), class_="soft"),
            class_=f"head {_word(overall(report))}",
        ),
        element("dl", *cells, class_="figures"),
    )


def _number_class(number: Number) -> str | None:
    return "wrong" if number.wrong else None if number.value[0].isdigit() else "none"


def _word(status: Status) -> str:
    return "unjudged" if status == "not judged" else status


# ------------------------------------------------------------ the invariants


def _invariants(report: Report) -> Markup:
    rows = [row for verdict in report.verdicts for row in _verdict_rows(verdict)]
    return _section(
        "invariants",
        "Invariants",
        "What Duly promises, each checked from the history of this run. Judged is how many things were looked at; "
        "where there was nothing to look at, nothing was judged.",
        _table("Every invariant and how it stands", [("", False), ("status", False), ("promise", False), ("judged", True)], rows)
        if rows
        else element("p", "No invariant was looked at."),
    )


def _verdict_rows(verdict: Verdict) -> Iterable[Markup]:
    status = standing(verdict)
    title = [verdict.title, element("span", f" · {verdict.why}", class_="soft") if verdict.why and status == "not judged" else None]
    yield element(
        "tr",
        element("th", verdict.invariant, scope="row"),
        element("td", element("span", _SIGNS[status], aria_hidden="true"), f" {status}", class_="status"),
        element("td", title),
        element("td", count(verdict.judged), class_="number"),
        class_=_word(status),
    )
    if status == "broken":
        yield element("tr", element("td", _findings(verdict.findings), colspan=4), class_="findings")


def _findings(found: Sequence[Finding]) -> Markup:
    entries = [_finding(finding) for finding in found[:SHOWN_FINDINGS]]
    if len(found) > SHOWN_FINDINGS:
        entries.append(element("li", element("code"), f"and {count(len(found) - SHOWN_FINDINGS)} more; the JSON report has them all"))
    if not entries:
        entries.append(element("li", element("code"), "It gave no findings."))
    return element("ol", *entries, class_="findings")


def _finding(finding: Finding) -> Markup:
    places = [element("code", place) for place in (finding.run, finding.job) if place]
    where = [[" ", place] for place in (*places, events(finding)) if place]
    at = instant(finding.at) if finding.at is not None else ""
    return element(
        "li", element("code", at), element("div", element("div", finding.says), element("div", where, class_="soft") if where else None)
    )


# ------------------------------------------------------------ the figures


def _timelines(report: Report) -> Markup:
    if not report.lanes:
        return _section("timeline", "Targets and runs over time", "This report has no lanes to draw.")
    shown = len(chosen(report))
    left_out = len(report.lanes) - shown
    parts: list[object] = [_legend(), _framed(overview(report))]
    for words, figure in close_ups(report):
        parts += [element("h3", words), _framed(figure)]
    return _section(
        "timeline",
        "Targets and runs over time",
        f"One lane for each of {many(shown, 'job')}: those with findings first, then those with runs that did not count, then the latest. "
        "The rows at the top are the faults by kind; their shade lies behind the lanes."
        + (f" {count(left_out)} more {'is' if left_out == 1 else 'are'} left out." if left_out else " None is left out."),
        *parts,
    )


def _legend() -> Markup:
    return element("ul", *(element("li", figure.inline(), words) for figure, words in legend()), class_="legend")


def _lateness(report: Report) -> Markup:
    figure = lateness(report.delays)
    rows = [_row(name, _spread_cells(spread)) for name, spread in report.delays.items()]
    heads = [("", False), ("starts", True), ("p50", True), ("p99", True), ("max", True)]
    return _section(
        "lateness",
        "Lateness",
        "How long after its target a run started: calm is outside of all faults and their healing, faulty is inside.",
        element(
            "div",
            _framed(figure) if figure else None,
            _table("Start minus target", heads, rows, narrow=True) if rows else element("p", "No start was measured."),
            class_="beside",
        ),
    )


def _framed(figure: Figure) -> Markup:
    # A wide figure scrolls on a small screen; who uses the keyboard can reach it.
    return element("div", figure.inline(), class_="figure", tabindex=0, role="group", aria_label=figure.title)


# ------------------------------------------------------------ the tables


def _faults(report: Report) -> Markup:
    by_kind: dict[str, list[Band]] = {}
    for band in report.bands:
        by_kind.setdefault(band.kind, []).append(band)
    rows = [
        _fault_row(kind, report.faults.get(kind), by_kind.get(kind, []), report.recoveries.get(kind, Spread())) for kind in _kinds(report)
    ]
    if rows:
        rows.append(_fault_row("all kinds", sum(report.faults.values()), report.bands, report.recovery))
    heads = ["times", "in all", "longest", "nodes hit", "starts held up", "recovery p50", "p99", "max"]
    bound = f" The bound is {duration(report.recovery_bound)}." if report.recovery_bound else ""
    return _section(
        "faults",
        "Faults and recovery",
        "What was broken on purpose, and what the machine did by itself (machine); faults of different kinds overlap. "
        "Recovery is the time from the healing of a fault "
        f"until what it had held up was started, counted for the fault that healed last.{bound}",
        _table("Faults by kind", [("kind", False), *((head, True) for head in heads)], rows, narrow=True)
        if rows
        else element("p", "Nothing was broken in this run."),
    )


def _kinds(report: Report) -> list[str]:
    return sorted({*report.faults, *report.recoveries, *(band.kind for band in report.bands)})


def _fault_row(kind: str, times: int | None, bands: Sequence[Band], recovery: Spread) -> Markup:
    lasted = [band.until - band.since for band in bands]
    nodes = {node for band in bands for node in band.nodes}
    cells = [count(len(bands) if times is None else times), *([duration(sum(lasted)), duration(max(lasted))] if lasted else ["–", "–"])]
    return _row(kind, [*cells, count(len(nodes)) if nodes else "–", *_spread_cells(recovery)])


def _reached(report: Report) -> Markup:
    rows = [_row(state, [count(number) if number else "never"]) for state, number in sorted(report.reached.items())]
    return _section(
        "reached",
        "Reached",
        "The nasty states that the run went through, and how often. A run that never met one says nothing about it.",
        _table("States reached", [("state", False), ("times", True)], rows, narrow=True) if rows else element("p", "None was counted."),
    )


def _about(report: Report) -> Markup:
    first = [key for key in _ABOUT_FIRST if key in report.about]
    keys = [*first, *(key for key in sorted(report.about) if key not in first and key not in _ABOUT_HIDDEN)]
    entries: list[object] = [
        part
        for key in keys
        for part in (
            element("dt", key),
            element("dd", _said(report.about[key]) if key != "command" else element("code", report.about[key])),
        )
    ]
    plain = {"lost", "twice", "early", "staleAccepted", "staleRefused", "zombies"}
    for key, number in sorted(report.counts.items()):
        if key not in plain:
            entries += [element("dt", key), element("dd", count(number))]
    return _section("about", "About this run", "", element("dl", *entries, class_="about"))


def _said(value: Any) -> str:
    if isinstance(value, dict) and all(isinstance(entry, str | int | float) for entry in value.values()):
        text = ", ".join(f"{key} {entry}" for key, entry in value.items())
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _ABOUT_LENGTH else f"{text[:_ABOUT_LENGTH]} … ({count(len(text))} characters; the JSON report has them all)"


def _spread_cells(spread: Spread) -> list[str]:
    return [count(spread.count), *(duration(value) if spread.count else "–" for value in (spread.p50, spread.p99, spread.most))]


def _row(name: str, cells: Sequence[str]) -> Markup:
    return element("tr", element("th", name, scope="row"), *(element("td", cell, class_="number") for cell in cells))


def _table(caption: str, heads: Sequence[tuple[str, bool]], rows: Sequence[Markup], *, narrow: bool = False) -> Markup:
    """Heads are (words, whether the column holds numbers)."""
    cells = [element("th", words, scope="col", class_="number" if right else None) for words, right in heads]
    table = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *cells)),
        element("tbody", *rows),
        class_="narrow" if narrow else "wide",
    )
    return element("div", table, class_="scroll")


def _section(key: str, title: str, about: str, *parts: object) -> Markup:
    return element(
        "section", element("h2", title, id=key), element("p", about, class_="soft") if about else None, *parts, aria_labelledby=key
    )
