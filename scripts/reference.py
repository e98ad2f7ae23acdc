"""Writes the reference from the code: settings, error codes, states, the API. A test holds the files to it.

python -m scripts.reference
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from duly.config import SETTINGS
from duly.domain.codes import CODES
from duly.domain.lifecycle import TRANSITIONS, JobState, Outcome, SkipReason, State, Trigger, is_final
from duly.domain.why import MEANINGS, WhyCode
from duly.http.app import route_table
from duly.http.openapi import openapi

TARGET = Path(__file__).parents[1] / "docs" / "reference"
NOTE = "<!-- Written by `python -m scripts.reference`; change the code, not this page. -->\n"


def pages() -> dict[str, str]:
    """Every page by its file name."""
    return {"settings.md": settings(), "errors.md": errors(), "states.md": states(), "api.md": api(), "why.md": why()}


def settings() -> str:
    """One row per setting."""
    rows = [f"| `{row.name}` | {f'`{row.default}`' if row.default else '–'} | {row.help} |" for row in SETTINGS]
    files = ", ".join(f"`{row.name}_FILE`" for row in SETTINGS if row.secret)
    return _page(
        "Settings",
        "Flags override the environment, the environment overrides the defaults; "
        "`duly config show` prints each value and where it comes from.",
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
        '`{"items": […], "nextCursor": …}`; pass `cursor` to go on.',
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
