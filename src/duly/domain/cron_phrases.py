"""Schedules in words, as people type them: the cron expression that a phrase means.

    cron_text("every weekday at 07:30")                         "30 7 * * 1-5"
    cron_text("every 15 minutes on weekdays between 9 and 17")  "*/15 9-16 * * 1-5"
    cron_text("last day of the month at 23:00")                 "0 23 L * *"
    cron_text("30 2 * * *")                                     as it is

A phrase is read once, word by word from left to right; each word is of the grammar or the phrase is refused. What the
sentences of a preview say is understood again.

    phrase  = {every | days | months | clock | ","} [zone]      the zone is the schedule's own, in words
    every   = "every" [number] ("minute" | "hour" | "second") | "hourly"
    days    = "every day" | ["every" | "on"] weekdays | ["on" | "every"] days of the month | "on" date
    months  = "in" months
    clock   = "at" times | "at minutes" numbers | "of hours" numbers | "between" time "and" time | "from" time "to" time
"""

from __future__ import annotations

import re

from duly.domain.cron_fields import refuse, shown
from duly.domain.cron_said import EXAMPLES, Said, Time, Window, expression
from duly.domain.errors import Invalid
from duly.domain.phrases import MONTH_NAMES
from duly.domain.zone_words import zone_in_words

LONGEST_PHRASE = 256

_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_WEEKDAYS: dict[str, tuple[int, ...]] = {
    **{name: (number,) for number, day in enumerate(_DAYS) for name in (day, f"{day}s", day[:3])},
    "tues": (2,), "thur": (4,), "thurs": (4,),
    "weekday": (1, 2, 3, 4, 5), "weekdays": (1, 2, 3, 4, 5), "weekend": (0, 6), "weekends": (0, 6),
}  # fmt: skip
_MONTHS = {name: number for number, month in enumerate(MONTH_NAMES, 1) for name in (month.lower(), month[:3].lower())} | {"sept": 9}
_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_NUMBERS = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12,
    "fifteen": 15, "twenty": 20, "thirty": 30,
}  # fmt: skip
_CALENDAR = {"day": "day", "week": "week", "month": "month", "year": "year"}
_PERIODS = {"weekly": "week", "monthly": "month", "yearly": "year", "annually": "year"}
# No cron expression begins with one of these, so that whatever does is a phrase.
_OPENINGS = frozenset(
    {"every", "each", "at", "on", "in", "the", "last", "hourly", "daily", "between", "from", *_PERIODS, *_ORDINALS}
    | {name for name in _WEEKDAYS if len(name) > 5}
)
_TIME = re.compile(r"([0-9]{1,2})(?::([0-9]{2}))?(?::([0-9]{2}))?(am|pm)?")
_ORDINAL = re.compile(r"([0-9]{1,2})(?:st|nd|rd|th)")


def cron_text(text: str, *, seconds: bool = False, zone: str = "UTC") -> str:
    """The expression that a phrase means; any other text as it is. Raises Invalid (DULY-E101) for a phrase that cron cannot say."""
    if text[:1] in "0123456789*@":
        return text
    opening = next(iter(text.split(None, 1)), "").lower().rstrip(",")
    if opening not in _OPENINGS:
        return text
    if len(text) > LONGEST_PHRASE:
        raise refuse(f"the schedule is {len(text)} characters long; at most {LONGEST_PHRASE} are allowed.", EXAMPLES)
    if not text.isascii():
        raise refuse(f"the schedule {shown(text)} has characters that are not plain ASCII.", EXAMPLES)
    return expression(_Reader(_words(text, zone)).read(), seconds=seconds)


def _words(text: str, zone: str) -> list[str]:
    """The words, in small letters and without the schedule's own zone at their end; commas are words too."""
    said = " ".join(text.lower().replace(",", " , ").split()).rstrip(".").replace("(monday to friday) ", "")
    for ending in (zone_in_words(zone).lower(), zone.lower()):
        if said.endswith(f" {ending}"):
            return said.removesuffix(f" {ending}").split()
    return said.split()


class _Reader:
    """The words of a phrase, and how far they are read."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._at = 0
        self._said = Said()

    def read(self) -> Said:
        """All that the words say. Raises Invalid with the first that is not understood."""
        while self._at < len(self._words):
            self._clause()
        return self._said

    def _clause(self) -> None:
        word = self._take()
        if word in ("every", "each"):
            self._every()
        elif word in ("on", "the", "last") or word in _ORDINALS:
            if word != "on":
                self._at -= 1
            self._on()
        elif word in _WEEKDAY_NAMES:
            self._at -= 1
            self._said.set("weekdays", self._weekdays())
        elif word == "at":
            self._clock()
        elif word in ("between", "from"):
            self._window(word)
        elif word == "of" and self._peek() in ("hour", "hours"):
            self._at += 1
            self._said.set("hours", self._numbers(23))
        elif word == "in":
            self._said.set("months", self._months())
        elif word == "hourly":
            self._said.set("step", (1, "hour"))
        elif word == "daily":
            self._said.set("every_day", True)
        elif word in _PERIODS:
            self._said.set("period", _PERIODS[word])
        elif word != ",":
            raise self._unread(word)

    # --- words ---

    def _peek(self, ahead: int = 0) -> str:
        place = self._at + ahead
        return self._words[place] if place < len(self._words) else ""

    def _take(self) -> str:
        word = self._peek()
        self._at += 1
        return word

    def _skip(self, *words: str) -> bool:
        """Pass over these words if they come next."""
        if tuple(self._words[self._at : self._at + len(words)]) != words:
            return False
        self._at += len(words)
        return True

    def _unread(self, word: str) -> Invalid:
        if not word:
            return refuse("the schedule ends in the middle.", EXAMPLES)
        before = " ".join(self._words[max(0, self._at - 3) : self._at - 1])
        after = f" after {shown(before)}" if before else ""
        hint = EXAMPLES
        if word in ("utc", "time") or "/" in word:
            hint = "Say the zone beside the schedule: tz (timezone in JSON)."
        elif word in ("and", "or", "except"):
            hint = "One schedule is one rule; make two jobs, or use a calendar for days to leave out."
        return refuse(f"{shown(word)}{after} is not understood.", hint)

    def _listing(self, can_follow: frozenset[str] | None = None) -> bool:
        """Pass over what parts two items of a list, if an item follows: a word of these, or a number."""
        ahead = 1 if self._peek() in (",", "and") else 0
        ahead += ahead == 1 and self._peek() == "," and self._peek(1) == "and"
        following = self._peek(ahead)
        if not ahead or not (following[:1].isdigit() if can_follow is None else following in can_follow):
            return False
        self._at += ahead
        return True

    # --- how often, and which days ---

    def _every(self) -> None:
        word = self._peek()
        if word in _WEEKDAY_NAMES:
            self._said.set("weekdays", self._weekdays())
        elif word in _MONTHS:
            self._said.set("months", self._months())
            self._said.set("period", "year")
        elif (word in _ORDINALS or word == "last" or _ORDINAL.fullmatch(word)) and self._peek(1) not in ("minute", "hour", "day"):
            self._month_days()
        else:
            self._step()

    def _step(self) -> None:
        word = self._take()
        count = 1
        if word.isdigit() or word in _NUMBERS:
            count = _NUMBERS.get(word) or _number(word, 1, 9999)
            word = self._take()
        unit = word.removesuffix("s")
        if unit in ("second", "minute", "hour"):
            while count and count % 60 == 0 and unit != "hour":
                count, unit = count // 60, "minute" if unit == "second" else "hour"
            self._said.set("step", (count, unit))
        elif unit in _CALENDAR and count == 1:
            if unit == "day":
                self._said.set("every_day", True)
            else:
                self._said.set("period", unit)
        elif unit in _CALENDAR or word == "other" or word in _ORDINALS or _ORDINAL.fullmatch(word):
            hint = 'Use an interval (every="2d"), or a recurrence rule: FREQ=DAILY;INTERVAL=2 or FREQ=WEEKLY;INTERVAL=2;BYDAY=MO.'
            raise refuse("cron does not count days, weeks, months or years.", hint)
        else:
            raise self._unread(word)

    def _on(self) -> None:
        word = self._peek()
        if word in ("every", "each"):
            return
        if word in _WEEKDAY_NAMES:
            self._said.set("weekdays", self._weekdays())
        elif word in _MONTHS:
            self._at += 1
            self._date(word, self._take())
        elif word.isdigit() or (_ORDINAL.fullmatch(word) and self._peek(1) in _MONTHS):
            self._at += 1
            self._date(self._take(), word)
        else:
            self._month_days()

    def _date(self, month: str, day: str) -> None:
        if month not in _MONTHS:
            raise self._unread(month)
        ordinal = _ORDINAL.fullmatch(day)
        self._said.set("days", [_number(ordinal[1] if ordinal else day, 1, 31)])
        self._said.set("months", [_MONTHS[month]])
        self._skip("of", "every", "leap", "year")

    def _weekdays(self) -> list[int]:
        found: list[int] = []
        while True:
            found += self._weekday_range()
            if not self._listing(_WEEKDAY_NAMES):
                return found

    def _weekday_range(self) -> list[int]:
        word = self._take()
        first, dash, last = word.partition("-")
        if not dash and self._peek() in ("to", "through") and self._peek(1) in _WEEKDAYS:
            self._at += 1
            first, last = word, self._take()
        low, high = _WEEKDAYS.get(first), _WEEKDAYS.get(last or first)
        if low is None or high is None or (last and len(low) + len(high) > 2):
            raise self._unread(word)
        return [(low[0] + nth) % 7 for nth in range((high[0] - low[0]) % 7 + 1)] if last else list(low)

    def _months(self) -> list[int]:
        found: list[int] = []
        while True:
            word = self._take()
            if word not in _MONTHS:
                raise self._unread(word)
            low = high = _MONTHS[word]
            if self._peek() in ("to", "through") and self._peek(1) in _MONTHS:
                self._at += 1
                high = _MONTHS[self._take()]
            found += [(low - 1 + nth) % 12 + 1 for nth in range((high - low) % 12 + 1)]
            if not self._listing(_MONTH_NAMES):
                return found

    def _month_days(self) -> None:
        """`the 1st and the 15th`, `the 1st to 7th`, `the last day`, `the second monday`; then the months they are of."""
        days: list[int] = []
        while True:
            self._skip("the")
            days += self._month_day()
            any(self._skip("of", which, "month") for which in ("the", "every", "each"))
            if not (self._listing(_DAY_OPENINGS) or self._listing()):
                break
        self._said.set("days", days)
        if self._peek() == "of" and self._peek(1) in _MONTHS:
            self._at += 1
            self._said.set("months", self._months())

    def _month_day(self) -> list[int]:
        word = self._take()
        said = self._said
        if word == "last" and self._peek() in ("day", "weekday"):
            said.day_forms.append("L" if self._take() == "day" else "LW")
        elif word == "last" and self._peek() in _ONE_DAY:
            said.weekday_forms.append(f"{_ONE_DAY[self._take()]}L")
        elif word == "weekday" and self._skip("nearest", "the"):
            said.day_forms.append(f"{self._ordinal(self._take())}W")
        elif word == "day" and self._skip("before", "the", "last"):
            said.day_forms.append("L-1")
        elif word == "day" and self._peek(1) == "days":
            said.day_forms.append(f"L-{_number(self._take(), 1, 30)}")
            if not self._skip("days", "before", "the", "last"):
                raise self._unread(self._peek())
        else:
            first = last = self._ordinal(word)
            if self._peek() in _ONE_DAY:
                if first > 5:
                    raise refuse("no month has a sixth of any weekday.", "Say the first to the fifth, or the last.")
                said.weekday_forms.append(f"{_ONE_DAY[self._take()]}#{first}")
                return []
            self._skip("day")
            if self._skip("to") or self._skip("through"):
                self._skip("the")
                last = self._ordinal(self._take())
            return _span(first, last)
        return []

    def _ordinal(self, word: str) -> int:
        if word in _ORDINALS:
            return _ORDINALS.index(word) + 1
        match = _ORDINAL.fullmatch(word)
        if match is None:
            raise self._unread(word)
        return _number(match[1], 1, 31)

    # --- the clock ---

    def _clock(self) -> None:
        for unit, high in (("minute", 59), ("second", 59)):
            if self._skip(unit) or self._skip(f"{unit}s"):
                self._said.set(f"{unit}s", self._numbers(high))
                return
        if self._peek().startswith(":"):
            self._said.set("minutes", [_number(self._take()[1:], 0, 59)])
            return
        times = [self._time()]
        while self._listing(_TIME_NAMES) or self._listing():
            times.append(self._time())
        self._said.set("times", times)

    def _window(self, word: str) -> None:
        if word == "from" and self._peek() in _WEEKDAY_NAMES:
            self._said.set("weekdays", self._weekdays())
            return
        start = self._time()
        joint = self._take()
        if joint not in (("and",) if word == "between" else ("to", "through", "until")):
            raise self._unread(joint)
        self._said.set("window", Window(start, self._time(), joint in ("to", "through")))

    def _numbers(self, high: int) -> list[int]:
        found: list[int] = []
        while True:
            low = top = _number(self._take(), 0, high)
            if self._skip("to"):
                top = _number(self._take(), 0, high)
            found += _span(low, top)
            if not self._listing():
                return found

    def _time(self) -> Time:
        word = self._take()
        if word in _TIME_NAMES:
            return Time(12 if word == "noon" else 0, 0)
        match = _TIME.fullmatch(word)
        if match is None:
            raise self._unread(word)
        half = match[4] or (self._take() if self._peek() in ("am", "pm") else None)
        hour, minute, second = int(match[1]), int(match[2] or 0), int(match[3] or 0)
        if half is not None:
            _number(match[1], 1, 12)
            hour = hour % 12 + (12 if half == "pm" else 0)
        if hour > 23 or minute > 59 or second > 59:
            raise refuse(f"{shown(word)} is not a time of day.", "Write 00:00 to 23:59, 9am or 5:30pm; midnight is 00:00.")
        return Time(hour, minute, second)


_WEEKDAY_NAMES = frozenset(_WEEKDAYS) | {f"{low}-{high}" for low in _WEEKDAYS for high in _WEEKDAYS}
_MONTH_NAMES = frozenset(_MONTHS)
_ONE_DAY = {name: values[0] for name, values in _WEEKDAYS.items() if len(values) == 1 and (len(name) <= 4 or not name.endswith("s"))}
_TIME_NAMES = frozenset({"noon", "midnight"})
_DAY_OPENINGS = frozenset({"the", "last", *_ORDINALS})


def _span(low: int, high: int) -> list[int]:
    if low > high:
        raise refuse(f"{low} to {high} runs backwards.", "Write the smaller number first, or both parts of it.")
    return list(range(low, high + 1))


def _number(text: str, low: int, high: int) -> int:
    if not text.isdigit() or len(text) > 4 or not low <= int(text) <= high:
        raise refuse(f"{shown(text)} is not a number from {low} to {high}.", EXAMPLES)
    return int(text)
