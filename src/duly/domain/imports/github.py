"""GitHub Actions: the `on.schedule` of a workflow file, which is cron in UTC.

What takes its place starts the same workflow over GitHub's API, at the time and not some minutes after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from duly.domain.imports import five_fields, walls
from duly.domain.imports.draft import Decision, Draft, OldFires, cannot, name_of
from duly.domain.imports.five_fields import GITHUB
from duly.domain.imports.walls import Again, Gap, Readings

TOKEN = "${secret:env:DULY_SECRET_GITHUB}"  # noqa: S105 (the name of one)


def read(document: Any, *, file: str, repository: str | None, ref: str = "main", pool: str = "default") -> list[Draft]:
    """One draft for each schedule of the workflow."""
    table = document if isinstance(document, Mapping) else {}
    # YAML 1.1 reads the key `on` as true.
    triggers = table.get("on", table.get(True))
    triggers = triggers if isinstance(triggers, Mapping) else {}
    schedules = triggers.get("schedule")
    workflow = PurePosixPath(file).name
    name = name_of(str(table.get("name") or PurePosixPath(file).stem).lower())
    drafts: list[Draft] = []
    for nth, entry in enumerate(schedules if isinstance(schedules, list) else [], 1):
        where = f"on.schedule[{nth - 1}]"
        expression = str(entry.get("cron", "")) if isinstance(entry, Mapping) else str(entry)
        try:
            if isinstance(entry, Mapping) and (more := sorted(set(entry) - {"cron"})):
                raise ValueError(f"{', '.join(map(str, more))} beside cron is not known")
            drafts.append(_draft(name, where, expression, workflow, repository, ref, pool, "workflow_dispatch" in triggers))
        except ValueError as error:
            drafts.append(cannot(name, where, expression, f"{error}."))
    return drafts


def _draft(name: str, where: str, text: str, workflow: str, repository: str | None, ref: str, pool: str, can_be_started: bool) -> Draft:
    old = _fires(text)
    decisions: list[Decision] = []
    if repository is None:
        decisions.append(
            Decision("repository", "Say whose workflow it is with --repository OWNER/NAME; without it the address has a placeholder.")
        )
    if not can_be_started:
        decisions.append(Decision("dispatch", "Add `workflow_dispatch:` to its `on:`, or GitHub refuses to start it; then accept this."))
    address = f"https://api.github.com/repos/{repository or 'OWNER/NAME'}/actions/workflows/{workflow}/dispatches"
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
    body: dict[str, Any] = {
        "schedule": text,
        "timezone": "UTC",
        "target": {"pool": pool, "http": {"url": address, "method": "POST", "headers": headers, "body": {"ref": ref}}},
        "overlap": "allow",
        "catchUp": "none",
    }
    notes = (
        "Remove `schedule:` from the workflow when the job runs, or both will start it.",
        "The worker's DULY_SECRET_GITHUB holds a token that may start workflows (actions: write).",
    )
    return Draft(name=name, where=where, source=text, body=body, decisions=tuple(decisions), notes=notes, old=old)


def _fires(text: str) -> OldFires:
    schedule = five_fields.read(text, GITHUB)
    readings = Readings(schedule.hours, schedule.minutes, schedule.is_day)

    def fires(after: int, until: int) -> list[int]:
        return walls.fires(readings, "UTC", Gap.NOTHING, Again.BOTH, after, until)

    return fires
