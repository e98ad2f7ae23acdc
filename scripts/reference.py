"""Writes the reference from the code: settings, error codes, states, the API. A test holds the files to it.

python -m scripts.reference
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from duly.cli.main import TREE
from duly.cli.parsing import Command
from duly.config import SETTINGS, schema
from duly.domain.codes import CODES
from duly.domain.lifecycle import TRANSITIONS, JobState, Outcome, SkipReason, State, Trigger, is_final
from duly.domain.metrics import Kind
from duly.domain.metrics.catalogue import CATALOGUE, MOST_SERIES, OTHER
from duly.domain.why.answers import MEANINGS, WhyCode
from duly.http.app import route_table
from duly.http.openapi import openapi

TARGET = Path(__file__).parents[1] / "docs" / "reference"
NOTE = "<!-- Written by `python -m scripts.reference`; change the code, not this page. -->\n"


def pages() -> dict[str, str]:
    """Every page by its file name."""
    return {
        "settings.md": settings(),
        "errors.md": errors(),
        "states.md": states(),
        "api.md": api(),
        "why.md": why(),
        "metrics.md": metrics(),
        "cli.md": commands(),
        "duly.schema.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n",
    }


def settings() -> str:
    """One row per setting."""
    rows = [f"| `{row.name}` | {f'`{row.default}`' if row.default else '–'} | {row.help} |" for row in SETTINGS]
    files = ", ".join(f"`{row.name}_FILE`" for row in SETTINGS if row.secret)
    return _page(
        "Settings",
        "Flags override the environment, the environment overrides `./duly.toml` or `[tool.duly]`, those override your own files in "
        "`~/.config/duly`, and all of them the defaults; `duly config show` prints each value and where it comes from. In files the names "
        "are in small letters and without `DULY_` ([how](../how-to/configure.md), [a schema for editors](duly.schema.json)).",
        f"Secrets may be given as files: {files}.",
        _table("setting", "default", "what it does", rows=rows),
    )


def errors() -> str:
    """One row per code."""
    rows = [f"| `{code.code}` | {code.status} | {code.title} | {code.fix} |" for code in CODES.values()]
    return _page(
        "Error codes",
        "Every problem document and every message of the command line carries one of these codes; `duly help CODE` explains it offline.",
        _table("code", "status", "what", "what to do", rows=rows),
    )


def states() -> str:
    """The lifecycle as it is enforced."""
    edges = [
        f"| `{before.name}` | {', '.join(f'`{after.name}`' for after in sorted(after_states)) or '– (final)'} |"
        for before, after_states in TRANSITIONS.items()
    ]
    lists = [f"* **{title}**: {', '.join(f'`{item.name}`' for item in kind)}" for title, kind in _LISTS.items()]
    final = ", ".join(f"`{state.name}`" for state in State if is_final(state))
    return _page(
        "States",
        f"Where an execution stands is the table it stands in. Final: {final}.",
        _table("from", "to", rows=edges),
        "\n".join(lists),
    )


def why() -> str:
    """One row per reason."""
    rows = [f"| `{code}` | {MEANINGS[code]} |" for code in WhyCode]
    return _page(
        "Reasons",
        "What `GET /v1/executions/{id}/why`, `GET /v1/jobs/{id}/why` and `duly why` answer with, most important first. "
        "The list is closed, and the codes are stable; the sentences are for people.",
        _table("code", "what it means", rows=rows),
        "See [Why did it not run?](../how-to/why.md).",
    )


def metrics() -> str:
    """One row per metric."""
    rows: list[str] = []
    for metric in CATALOGUE:
        name = f"{metric.name}_total" if metric.kind is Kind.COUNTER else metric.name
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "–"
        rows.append(f"| `{name}` | {metric.kind} | {labels} | {metric.about} |")
    spreads = [
        f"* `{metric.name}`: {', '.join(f'{bound:g}' for bound in metric.bounds)}" for metric in CATALOGUE if metric.kind is Kind.HISTOGRAM
    ]
    return _page(
        "Metrics",
        "`GET /metrics` of a server, the port of `DULY_METRICS_PORT` of any other process, and OTLP say the same. "
        "See [monitoring](../how-to/monitoring.md).",
        "**Counters and histograms are of one process**: whoever writes to the store counts it, when the store has said that it is "
        "written. "
        "Added up over all processes they are what the ledger says, whenever nothing is under way. What nobody counts: a process that was "
        "killed between the commit and its count, a commit whose answer was lost (a worker's success is reported again and counted then), "
        "and what other programs write through the SQL functions. A handler that completes its execution in a transaction and raises "
        "afterwards has succeeded in the ledger and is counted by nobody. Where the values of labels are a closed list (states, outcomes, "
        "reasons, kinds of writes and of failures), and where there are none, every series is there from the start as 0.",
        "**Gauges of the store** are the same from every server that one asks: take `max`, not `sum`. They are read when somebody asks, "
        "at most once a second, by bounded looks.",
        f"A metric has at most {MOST_SERIES} series; what comes after them is counted as `{OTHER}`. No label names a tenant unless "
        "`DULY_METRICS_TENANTS` says so, and none ever has anything of a payload. Keys of other tenants than `default` see the loads of "
        "pools (`duly_pool_…`) as far as they are their own, and nothing else.",
        _table("metric", "kind", "labels", "what it says", rows=rows),
        "The upper bounds of the histograms:\n\n" + "\n".join(spreads),
    )


def commands() -> str:
    """Every command with its usage and options, as `-h` prints them."""
    parts: list[str] = []
    for heading, listed in TREE:
        parts.append(f"## {heading}")
        for name, module, summary in listed:
            tree = import_module(f"duly.cli.{module}").COMMANDS[name]
            parts.append(f"### duly {name}\n\n{summary[:1].upper()}{summary[1:]}.")
            if isinstance(tree, Command):
                parts.append(_usage(tree))
                continue
            parts += [_usage(tree.otherwise)] if tree.otherwise is not None else []
            parts += [_usage(command) for command in tree.commands.values()]
    codes = (
        "0 done · 1 failure · 2 usage · 3 not found · 4 not allowed · 5 conflict · 6 server unreachable · 7 wait timed out · "
        "8 run failed · 9 partly done · 130 interrupted"
    )
    return _page("Commands", f"Exit codes: {codes}.", "Data goes to standard output, everything else to standard error.", _COMMON, *parts)


def _usage(command: Command) -> str:
    """One command: its words, what it is for, and its own options; those of every command are told once."""
    parser = command.parser()
    places = " ".join(f"[{_place(action)}]" if action.nargs in ("?", "*") else _place(action) for action in parser.arguments)
    own = [action for action in parser.told_options if not set(action.option_strings) & _EVERYWHERE]
    rows = [f"| `{_place(action)}` | {_told(action)} |" for action in parser.arguments if action.help]
    rows += [f"| {', '.join(f'`{name}`' for name in action.option_strings)} | {_told(action)} |" for action in own]
    head = f"**`{command.path}{f' {places}' if places else ''}`**: {command.summary[:1].lower()}{command.summary[1:].rstrip('.')}."
    return head if not rows else f"{head}\n\n{_table('word', 'what it does', rows=rows)}"


_COMMON = (
    "Every command that prints takes `-o table|wide|json|jsonl|yaml|csv|tsv|name`, `--json`, `--fields A,B`, `--watch[=2s]`, `--utc`, "
    "`--tz ZONE`, `-q` and `--no-color`; every command that asks a server `--server URL` and `--context NAME`. `-h` says so beside each."
)
_EVERYWHERE = {"-h", "-o", "--json", "-q", "--no-color", "--fields", "--watch", "--utc", "--server", "--context"}


def _place(action: Any) -> str:
    return str(action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest.upper()))


def _told(action: Any) -> str:
    return str(action.help or "").replace("%%", "%").replace("|", "\\|")


_LISTS: dict[str, Any] = {"Attempt outcomes": Outcome, "Triggers": Trigger, "Reasons for a skip": SkipReason, "Job states": JobState}


def api() -> str:
    """One row per route; the OpenAPI document has the rest."""
    document = openapi(route_table().routes)
    rows: list[str] = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            answers = ", ".join(sorted(operation["responses"]))
            rows.append(f"| `{method.upper()} {path}` | {operation.get('summary', '')} | {answers} |")
    return _page(
        "API",
        "JSON in camelCase, RFC 3339 times in UTC, `Authorization: Bearer duly_…`. "
        "The whole contract is `GET /v1/openapi.json` (OpenAPI 3.1).",
        "Errors are `application/problem+json` with a stable [code](errors.md). Creates take an `Idempotency-Key`, kept for 24 hours. "
        "Lists answer "
        '`{"items": […], "nextCursor": …}`; pass `cursor` to go on. Unknown keys are refused; of a key that stands twice in one object the '
        "last one counts.",
        _table("route", "what", "answers", rows=rows),
    )


def _table(*heads: str, rows: list[str]) -> str:
    return "\n".join([f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *rows])


def _page(title: str, *parts: str) -> str:
    return NOTE + f"# {title}\n\n" + "\n\n".join(parts) + "\n"


def main() -> None:
    """Write the pages."""
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (TARGET / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
