"""`duly cron`: an expression or a rule in words, its next fires and what to look out for. Needs a server for calendars only."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from duly.cli import output, remote
from duly.cli.errors import OK
from duly.cli.output import BOLD, GREY, YELLOW, paint
from duly.cli.parsing import Arguments, Command, Parser, count, remote_options
from duly.cli.times import later_of
from duly.cli.values import seconds_of
from duly.domain.calendars import Calendar, OnExcluded
from duly.domain.cron_phrases import cron_text
from duly.domain.dst import DstGap, DstOverlap
from duly.domain.instants import from_rfc3339, to_datetime
from duly.domain.job import JobType
from duly.domain.zones import load_zone
from duly.sdk import calls
from duly.usecases.preview import preview
from duly.wire.schedules import FireView, PreviewShape, PreviewView
from duly.wire.specs import viewed_calendar


def _configure(parser: Parser) -> None:
    parser.add_argument(
        "expression", metavar="EXPRESSION", help='five fields, such as "30 2 * * *", or @daily, or words: "every weekday at 07:30"'
    )
    parser.add_argument("--tz", metavar="ZONE", default="UTC", help="the zone it is meant in (UTC)")
    parser.add_argument("--seconds", action="store_true", help="six fields, seconds first")
    parser.add_argument("-n", "--limit", metavar="N", type=count, default=10, help="how many fires to show (10)")
    parser.add_argument("--after", metavar="TIME", help="fires after this time, such as 2026-03-07T12:00:00Z; now otherwise")
    parser.add_argument(
        "--dst-gap", choices=[choice.value for choice in DstGap], default="run_after", help="for a time that does not exist"
    )
    parser.add_argument(
        "--dst-overlap", choices=[choice.value for choice in DstOverlap], default="first", help="for a time that comes twice"
    )
    parser.add_argument("--rrule", action="store_true", help="EXPRESSION is a recurrence rule, such as FREQ=MONTHLY;BYDAY=-1FR")
    parser.add_argument("--start", metavar="TIME", help="where the rule starts; now otherwise")
    parser.add_argument("--calendar", metavar="NAME", action="append", default=[], help="a calendar to keep to; asks the server for it")
    parser.add_argument("--on-excluded", choices=[choice.value for choice in OnExcluded], default="skip", help="on a closed day")
    parser.add_argument("--jitter", metavar="TIME", default="0s", help="start up to that much later")
    remote_options(parser)


def _cron(arguments: Arguments) -> int:
    out = output.of(arguments)
    zone = load_zone(arguments.tz)
    after = None if arguments.after is None else later_of(arguments.after, "--after", zone)
    shape = PreviewShape(
        type=JobType.RRULE if arguments.rrule else JobType.CRON,
        schedule=arguments.expression,
        seconds=arguments.seconds,
        timezone=arguments.tz,
        dst_gap=DstGap(arguments.dst_gap),
        dst_overlap=DstOverlap(arguments.dst_overlap),
        start_at=None if arguments.start is None else later_of(arguments.start, "--start", zone),
        calendars=arguments.calendar,
        on_excluded=OnExcluded(arguments.on_excluded),
        jitter_sec=seconds_of(arguments.jitter, "--jitter"),
        after=after,
        count=min(arguments.limit, 1000),
    )
    view = preview(shape, output.now(), _calendars(arguments))
    if out.format == "table":
        _print(view, _meant(shape), relative_to_now=after is None)
    elif out.format == "tsv":
        out.rows(_COLUMNS, view.fires, name=_at)
        for warning in view.warnings:
            out.say(f"! {warning}")
    elif out.format == "name":
        out.rows(_COLUMNS, view.fires, name=_at)
    else:
        out.one([], view, name="")
    return OK


def _calendars(arguments: Arguments) -> list[Calendar]:
    """The calendars that were named, from the server; without any, nobody is asked."""
    if not arguments.calendar:
        return []
    with remote.connect(arguments) as client:
        return [viewed_calendar(client.send(calls.show_calendar(name))) for name in arguments.calendar]


def _meant(shape: PreviewShape) -> str | None:
    """The expression that words stand for; None for what is one already."""
    text = shape.schedule or ""
    meant = text if shape.type is JobType.RRULE else cron_text(text, seconds=shape.seconds, zone=shape.timezone or "UTC")
    return None if meant == text else meant


def _at(fire: FireView) -> str:
    return fire.at


def _print(view: PreviewView, meant: str | None, *, relative_to_now: bool) -> None:
    print(paint(view.words, BOLD))
    if meant is not None:
        print(paint(meant, GREY))
    print()
    for fire in view.fires:
        local = datetime.fromisoformat(fire.local)
        text = f"  {local:%a %d %b %Y  %H:%M:%S %z}   {paint(f'{_utc(fire.at)} UTC', GREY)}"
        if relative_to_now:
            text += f"   {output.relative(fire.at)}"
        print(text + (f"   {paint(fire.note, YELLOW)}" if fire.note else ""))
    if view.excluded:
        print(f"\n{paint('excluded', BOLD)}")
    for excluded in view.excluded:
        print(f"  {datetime.fromisoformat(excluded.local):%a %d %b %Y  %H:%M:%S %z}   {paint(excluded.reason, GREY)}")
    for warning in view.warnings:
        print(f"\n{paint('!', YELLOW)} {warning}")


def _utc(at: str) -> str:
    return f"{to_datetime(from_rfc3339(at)):%H:%M:%S}"


_COLUMNS: list[Any] = [
    output.Column("at", _at),
    output.Column("local", lambda fire: fire.local),
    output.Column("note", lambda fire: fire.note or ""),
]

_EXAMPLES = """
examples:
  duly cron "30 2 * * *" --tz Europe/Berlin
  duly cron "every 15 minutes on weekdays between 9 and 17"
  duly cron "*/10 * * * * *" --seconds -n 3
  duly cron "0 0 L * *" --json
  duly cron --rrule "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9" --tz Europe/Berlin
  duly cron "0 9 * * *" --calendar de-holidays --on-excluded next_business_day
"""

COMMANDS = {
    "cron": Command(
        "Explain a cron expression: words, next fires, what the clocks do to them, and lint.", _configure, _cron, "duly cron", _EXAMPLES
    )
}
