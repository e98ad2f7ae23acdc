"""What is printed: tables for people, TSV and JSON for programs. Data on standard output, remarks on standard error."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from typing import Any, TextIO, TypeVar

import msgspec

from duly import config
from duly.cli.shaping import Column as Column
from duly.cli.shaping import chosen, columns_of, written
from duly.cli.shaping import quoted as _quoted
from duly.cli.shaping import unknown as _unknown
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND, Instant, Micros, from_rfc3339, to_datetime

T = TypeVar("T")

RED, GREEN, YELLOW, BLUE, GREY, BOLD = "31", "32", "33", "34", "90", "1"

# Symbol, word and colour of every state: never the colour alone.
STATES = {
    "SCHEDULED": ("◷", "scheduled", BLUE),
    "BLOCKED": ("‖", "blocked", YELLOW),
    "PENDING": ("○", "pending", YELLOW),
    "RUNNING": ("▶", "running", BLUE),
    "SUCCEEDED": ("✓", "succeeded", GREEN),
    "DEAD": ("✗", "dead", RED),
    "CANCELLED": ("⊘", "cancelled", GREY),
    "SKIPPED": ("↷", "skipped", GREY),
    "ACTIVE": ("●", "active", GREEN),
    "PAUSED": ("‖", "paused", YELLOW),
    "COMPLETED": ("✓", "completed", GREY),
}

# False once --no-color was given.
colours: ContextVar[bool] = ContextVar("colours", default=True)
# The zone in which times are shown, once --utc or --tz was given; this machine's otherwise.
shown_in: ContextVar[tzinfo | None] = ContextVar("shown_in", default=None)


class Output:
    """How one command prints, by its options and by where its output goes."""

    def __init__(
        self, output: str | None = None, *, quiet: bool = False, no_color: bool = False, fields: str | None = None, zone: str | None = None
    ) -> None:
        if no_color:
            colours.set(False)
        if zone is not None:
            from duly.domain.zones import load_zone

            shown_in.set(load_zone(zone))
        wanted = output or ("table" if sys.stdout.isatty() else "tsv")
        # What is one of these with another face is treated as such by every command.
        self.format = {"yaml": "json", "csv": "tsv", "wide": "table"}.get(wanted, wanted)
        self._face = wanted
        self._fields = [name.strip() for name in fields.split(",") if name.strip()] if fields else []
        self.quiet = quiet

    def rows(self, columns: Sequence[Column[T]], items: Iterable[T], *, name: Callable[[T], str]) -> None:
        """A list. In JSON the items are as the API has them."""
        match self.format:
            case "json":
                print(self._document([chosen(item, self._fields) for item in items]))
            case "jsonl":
                for line in self._whole(msgspec.json.encode(chosen(item, self._fields)).decode() for item in items):
                    print(line)
            case "name":
                for item in items:
                    print(name(item))
            case "tsv":
                columns = columns_of(columns, self._fields)
                lines = self._whole(self._line([one_line((column.plain or column.shown)(item)) for column in columns]) for item in items)
                print(self._line([column.key or column.name for column in columns]))
                for line in lines:
                    print(line)
            case _:
                _table(columns_of(columns, self._fields), list(items), wide=self._face == "wide")

    def one(self, fields: Sequence[tuple[str, str | None]], item: Any, *, name: str) -> None:
        """One thing with its fields; those that are None are left out."""
        given = [(key, value) for key, value in fields if value is not None and (not self._fields or key in self._fields)]
        if self._fields and not given and self.format in ("table", "tsv"):
            raise _unknown(self._fields[0], [key for key, _ in fields])
        match self.format:
            case "json":
                print(self._document(chosen(item, self._fields)))
            case "jsonl":
                print(msgspec.json.encode(chosen(item, self._fields)).decode())
            case "name":
                print(name)
            case "tsv":
                for key, value in given:
                    print(self._line([key, one_line(value)]))
            case _:
                width = max(len(key) for key, _ in given)
                for key, value in given:
                    print(f"{paint(key.ljust(width), GREY)}  {value.replace(chr(10), chr(10) + ' ' * (width + 2))}")

    def say(self, text: str = "") -> None:
        """A remark for people: on standard error, and not when they asked for quiet."""
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def _whole(self, lines: Iterable[str]) -> Iterable[str]:
        """All of them before the first is printed, where one may turn out to lack a field that was asked for."""
        return list(lines) if self._fields else lines

    def _document(self, item: Any) -> str:
        return written(item) if self._face == "yaml" else _pretty(item)

    def _line(self, cells: Sequence[str]) -> str:
        return ",".join(map(_quoted, cells)) if self._face == "csv" else "\t".join(cells)

    @property
    def is_for_people(self) -> bool:
        """Whether a table is printed."""
        return self.format == "table"


def of(arguments: Any) -> Output:
    """The output that a command's options ask for."""
    zone = "UTC" if getattr(arguments, "utc", False) else getattr(arguments, "shown_tz", None)
    fields = getattr(arguments, "fields", None)
    return Output(arguments.output, quiet=arguments.quiet, no_color=arguments.no_color, fields=fields, zone=zone)


def paint(text: str, colour: str | None, stream: TextIO | None = None) -> str:
    """The text in a colour, where that is wanted and can be seen."""
    where = sys.stdout if stream is None else stream
    if colour is None or not colours.get() or not where.isatty() or not config.wants_colour():
        return text
    return f"\x1b[{colour}m{text}\x1b[0m"


def state_text(state: str) -> str:
    """A state as symbol and word."""
    symbol, word, _ = STATES[state]
    return f"{symbol} {word}"


def state_colour(state: str) -> str:
    return STATES[state][2]


# ---------------------------------------------------------------- times


def now() -> Instant:
    """This machine's clock."""
    return time.time_ns() // 1000


def instant(text: str) -> Instant:
    """A time of the API."""
    return from_rfc3339(text)


def span(micros: Micros) -> str:
    """A length of time for people: two units at most."""
    if micros < SECOND:
        return f"{max(micros, 0) // 1000} ms"
    if micros < 10 * SECOND:
        return f"{micros / SECOND:.1f} s"
    for large, small, large_name, small_name in ((DAY, HOUR, "d", "h"), (HOUR, MINUTE, "h", "m"), (MINUTE, SECOND, "m", "s")):
        if micros >= large:
            rest = micros % large // small
            return f"{micros // large} {large_name} {rest} {small_name}" if rest else f"{micros // large} {large_name}"
    return f"{micros // SECOND} s"


def relative(text: str | None, at: Instant | None = None) -> str:
    """`in 3 m` or `12 s ago`; a dash for no time."""
    if text is None:
        return "–"
    distance = instant(text) - (now() if at is None else at)
    if abs(distance) < SECOND:
        return "now"
    return f"in {span(distance)}" if distance > 0 else f"{span(-distance)} ago"


def local(at: Instant, zone: tzinfo | None = None) -> str:
    """A time as a clock on the wall shows it, with its offset: this machine's zone unless another is given."""
    moment = to_datetime(at).astimezone(zone or shown_in.get())
    return f"{moment:%a %d %b %Y %H:%M:%S %z}"


def moment(text: str | None) -> str | None:
    """A time of the API for people: local, and how far away."""
    return None if text is None else f"{local(instant(text))}  ({relative(text)})"


def today(text: str) -> str:
    """The time of day in this machine's zone, with the date when it is another day's."""
    zone = shown_in.get()
    at = datetime.fromisoformat(text).astimezone(zone)
    return f"{at:%H:%M:%S}" if at.date() == datetime.now(UTC).astimezone(zone).date() else f"{at:%Y-%m-%d %H:%M:%S}"


# ---------------------------------------------------------------- insides


def _table(columns: Sequence[Column[T]], items: Sequence[T], *, wide: bool = False) -> None:
    if not items:
        return
    cells = [[one_line(column.shown(item)) for column in columns] for item in items]
    widths = [max(len(column.name), *(len(row[nth]) for row in cells)) for nth, column in enumerate(columns)]
    if not wide:
        _fit(widths, terminal_width())
    print(paint("  ".join(_cut(column.name.upper(), width) for column, width in zip(columns, widths, strict=True)).rstrip(), GREY))
    for item, row in zip(items, cells, strict=True):
        parts = []
        for column, text, width in zip(columns, row, widths, strict=True):
            cut = _cut(text, width)
            parts.append(paint(cut, column.colour(item)) if column.colour is not None else cut)
        print("  ".join(parts).rstrip())


def _fit(widths: list[int], most: int) -> None:
    """Narrow the widest columns until the row fits; below 12 characters none is cut."""
    while sum(widths) + 2 * (len(widths) - 1) > most and max(widths) > 12:
        widths[widths.index(max(widths))] -= 1


def _cut(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"


def terminal_width() -> int:
    """How many characters a line has."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 160
    except OSError:
        return 160


def one_line(text: str) -> str:
    """A cell is one line without tabs, and a terminal is not taken over by what a job printed."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def _pretty(item: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(item), indent=2).decode()
