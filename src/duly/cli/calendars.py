"""`duly calendar`: list, show, set, delete, import."""

from __future__ import annotations

from typing import Any

from duly.cli import output, remote
from duly.cli.errors import OK
from duly.cli.output import Column
from duly.cli.parsing import Arguments, Command, Group, Parser, remote_options
from duly.cli.values import json_value, read_text
from duly.domain.errors import Invalid
from duly.sdk import calls
from duly.wire.calendars import CalendarView


def _list(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        found = client.send(calls.list_calendars()).items
    out.rows(_COLUMNS, found, name=lambda calendar: calendar.name)
    if not found:
        out.say("There are no calendars yet. `duly calendar set -h` shows how to make one.")
    return OK


def _configure_one(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME")
    remote_options(parser)


def _show(arguments: Arguments) -> int:
    with remote.connect(arguments) as client:
        calendar = client.send(calls.show_calendar(arguments.name))
    output.of(arguments).one(_fields(calendar), calendar, name=calendar.name)
    return OK


def _configure_set(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="the calendar as the API takes it, with its name, in JSON; - reads standard input")
    parser.add_argument("--name", help="the calendar's name, where the file has none or another")
    remote_options(parser)


def _set(arguments: Arguments) -> int:
    given: Any = json_value(arguments.file if arguments.file == "-" else f"@{arguments.file}", "FILE")
    if not isinstance(given, dict):
        raise Invalid(
            "DULY-E107", "is not a JSON object.", field="FILE", hint='For example {"name": "de", "businessDays": ["MON", "TUE"]}.'
        )
    # What `duly calendar show --json` prints can be changed and set again.
    body = {key: value for key, value in given.items() if key not in ("version", "updatedAt", "name")}
    name = arguments.name or given.get("name")
    if not isinstance(name, str):
        raise Invalid("DULY-E604", "Nothing says what the calendar is called.", hint='Put "name" into the file, or give --name.')
    with remote.connect(arguments) as client:
        calendar = client.send(calls.set_calendar(name, body))
    output.of(arguments).one(_fields(calendar), calendar, name=calendar.name)
    return OK


def _delete(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        calendar = client.send(calls.delete_calendar(arguments.name))
    if out.is_for_people:
        out.say(f"{calendar.name} is deleted.")
    else:
        out.one(_fields(calendar), calendar, name=calendar.name)
    return OK


def _configure_import(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="the calendar; it is made if there is none")
    parser.add_argument("file", metavar="FILE.ics", help="an iCalendar file; - reads standard input")
    parser.add_argument("--dry-run", action="store_true", help="show what would come of it, and change nothing")
    remote_options(parser)


def _import(arguments: Arguments) -> int:
    out = output.of(arguments)
    text = read_text(arguments.file if arguments.file == "-" else f"@{arguments.file}", "FILE.ics")
    with remote.connect(arguments) as client:
        done = client.send(calls.import_calendar(arguments.name, text, dry_run=arguments.dry_run))
    would = "would bring" if arguments.dry_run else "brought"
    out.say(f"It {would} {done.holidays} new holidays and {done.windows} new windows.")
    for remark in done.remarks:
        out.say(f"! {remark}")
    out.one(_fields(done.calendar), done, name=done.calendar.name)
    return OK


def _fields(calendar: CalendarView) -> list[tuple[str, str | None]]:
    days = None if calendar.business_days is None else ", ".join(calendar.business_days)
    holidays = "\n".join(f"{holiday.date} {holiday.name or ''}".rstrip() for holiday in calendar.holidays)
    windows = "\n".join(
        f"{window.start:%Y-%m-%d %H:%M} to {window.end:%Y-%m-%d %H:%M} UTC {window.name or ''}".rstrip() for window in calendar.windows
    )
    weekly = "\n".join(f"{', '.join(span.days)} {span.start} to {span.end}" for span in calendar.weekly)
    return [
        ("calendar", calendar.name),
        ("zone", calendar.timezone or "that of each job"),
        ("business days", days),
        ("holidays", holidays or None),
        ("windows", windows or None),
        ("every week", weekly or None),
        ("version", f"{calendar.version}, since {output.relative(calendar.updated_at)}"),
    ]


_COLUMNS: list[Column[CalendarView]] = [
    Column("name", lambda calendar: calendar.name),
    Column(
        "business days",
        lambda calendar: "every day" if calendar.business_days is None else ",".join(calendar.business_days),
        key="businessDays",
    ),
    Column("holidays", lambda calendar: str(len(calendar.holidays))),
    Column("windows", lambda calendar: str(len(calendar.windows) + len(calendar.weekly))),
    Column("zone", lambda calendar: calendar.timezone or "", key="timezone"),
    Column("changed", lambda calendar: output.relative(calendar.updated_at), lambda calendar: calendar.updated_at, "updatedAt"),
]

_EXAMPLES = """
examples:
  echo '{"name": "de", "businessDays": ["MON", "TUE", "WED", "THU", "FRI"], "holidays": [{"date": "2026-12-25"}]}' | duly calendar set -
  duly calendar show de --json > de.json && duly calendar set de.json
"""

COMMANDS = {
    "calendar": Group(
        "Calendars: the days and times at which jobs that name them do not run.",
        "duly calendar",
        {
            "list": Command("all calendars, by name", remote_options, _list, "duly calendar list"),
            "show": Command("one calendar", _configure_one, _show, "duly calendar show"),
            "set": Command(
                "make or change a calendar, and every job that names it", _configure_set, _set, "duly calendar set", _EXAMPLES, changes=True
            ),
            "delete": Command("delete a calendar that no job names", _configure_one, _delete, "duly calendar delete", changes=True),
            "import": Command(
                "add the days and times of an iCalendar file", _configure_import, _import, "duly calendar import", changes=True
            ),
        },
    )
}
