"""GitHub Actions: the `on.schedule` of a workflow file, which is cron in UTC or in the `timezone` beside it.

What takes its place starts the same workflow over GitHub's API, at the time and not some minutes after it. GitHub starts nothing more
often than every five minutes. A time that the clocks jump over advances to the next valid one; what it does with a time that comes
twice it does not say, and Vixie's rule is taken: fixed times run once, a star follows the clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

from duly.domain.errors import Invalid
from duly.domain.imports import five_fields, walls
from duly.domain.imports.draft import Decision, Draft, OldFires, cannot, name_of
from duly.domain.imports.five_fields import GITHUB, Expression
from duly.domain.imports.walls import Again, Gap, Readings
from duly.domain.zones import load_zone

SHORTEST = 300
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
            if isinstance(entry, Mapping) and (more := sorted(set(map(str, entry)) - {"cron", "timezone"})):
                raise ValueError(f"{', '.join(more)} beside cron is not known")
            zone = entry.get("timezone") if isinstance(entry, Mapping) else None
            drafts.append(_draft(name, where, expression, zone, workflow, repository, ref, pool, "workflow_dispatch" in triggers))
        except ValueError as error:
            drafts.append(cannot(name, where, expression, f"{error}."))
    return drafts


def _draft(
    name: str, where: str, text: str, zone: Any, workflow: str, repository: str | None, ref: str, pool: str, can_be_started: bool
) -> Draft:
    schedule = five_fields.read(text, GITHUB)
    old = _fires(schedule, _zone(zone))
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
        "timezone": _zone(zone),
        "target": {"pool": pool, "http": {"url": address, "method": "POST", "headers": headers, "body": {"ref": ref}}},
        "overlap": "allow",
        "catchUp": "none",
    }
    notes = [
        "Remove `schedule:` from the workflow when the job runs, or both will start it.",
        "The worker's DULY_SECRET_GITHUB holds a token that may start workflows (actions: write).",
    ]
    if _is_often(schedule):
        notes.append(
            "GitHub starts a workflow every 5 minutes at most; here every fire starts one. Write */5 if that is what it was to do."
        )
    if zone is not None:
        notes.append("GitHub does not say what it does with a time that comes twice; here a fixed time runs at the first.")
    return Draft(name=name, where=where, source=text, body=body, decisions=tuple(decisions), notes=tuple(notes), old=old)


def _zone(given: Any) -> str:
    zone = "UTC" if given is None else str(given)
    try:
        load_zone(zone)
    except Invalid as error:
        raise ValueError(f"timezone: {error.message.rstrip('.')}") from error
    return zone


def _is_often(schedule: Expression) -> bool:
    """Whether two times are closer than GitHub starts anything: in an hour, or from one hour to the next."""
    minutes = sorted(schedule.minutes)
    follows = any((hour + 1) % 24 in schedule.hours for hour in schedule.hours)
    return any(later - earlier < SHORTEST // 60 for earlier, later in pairwise(minutes + ([minutes[0] + 60] if follows else [])))


def _fires(schedule: Expression, zone: str) -> OldFires:
    readings = Readings(schedule.hours, schedule.minutes, schedule.is_day)
    gap, again = (Gap.NOTHING, Again.BOTH) if schedule.is_wild else (Gap.EACH_AT_ONCE, Again.FIRST)

    def fires(after: int, until: int) -> list[int]:
        kept: list[int] = []
        for at in walls.fires(readings, zone, gap, again, after, until):
            if not kept or at - kept[-1] >= SHORTEST:
                kept.append(at)
        return kept

    return fires
