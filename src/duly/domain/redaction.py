"""Redaction: what must not be read is masked before a text is kept or shown.

A `Veil` knows values and finds them as they are and as they travel: in base64 (also as a part of a longer text),
percent-encoded, in hexadecimal, escaped in JSON or by Python. `without_credentials` knows no values but their usual
places: keys of Duly, Authorization and cookies, the password of a URL, parameters called token, secret, password and so on.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from json import dumps, loads
from typing import Any
from urllib.parse import quote, quote_plus

MASK = "••••••"

# Shorter values would mask half of every text; so do lines of a longer one.
SHORTEST = 4
SHORTEST_LINE = 8
# What a veil that learns keeps in mind, newest last.
MOST_VALUES = 1_000

_WORDS = r"(?:token|secret|passw(?:or)?d|passphrase|signature|credential|api[_-]?key|access[_-]?key|private[_-]?key)"
_SIGNS = ("token", "secret", "pass", "signature", "credential", "key")
# Where credentials usually stand, with what is in every text that has one there: most texts are done after that look.
_PLACES: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...] = (
    # A key of Duly has digits in it; the names of its functions have none.
    (("duly_",), re.compile(r"(duly_)(?=[A-Za-z_-]*[0-9])[0-9A-Za-z_-]{16,}"), rf"\1{MASK}"),
    # Authorization: Bearer …, 'authorization': 'Basic …'
    (
        ("authorization",),
        re.compile(r"""(authorization["']?\s*[:=]\s*["']?(?:(?:basic|bearer|digest|token)\s+)?)[^\s"',;]+""", re.IGNORECASE),
        rf"\1{MASK}",
    ),
    (("cookie",), re.compile(r"""(cookie["']?\s*[:=]\s*["']?)[^\r\n"']+""", re.IGNORECASE), rf"\1{MASK}"),
    (("@",), re.compile(r"""(://[^\s:/?#@"']*):[^\s/?#@"']+(?=@)"""), rf"\1:{MASK}"),
    # token=…, ?access_token=…, "client_secret": "…"
    (_SIGNS, re.compile(rf"""({_WORDS}=)[^\s&#"'<>;,)}}\]]+""", re.IGNORECASE), rf"\1{MASK}"),
    (_SIGNS, re.compile(rf"""({_WORDS}["']\s*:\s*["'])[^"']+""", re.IGNORECASE), rf"\1{MASK}"),
    (("key=", "sig=", "pwd="), re.compile(r"""([?&](?:key|sig|pwd)=)[^\s&#"'<>]+""", re.IGNORECASE), rf"\1{MASK}"),
)


def without_credentials(text: str) -> str:
    """The text with what stands in the usual places of credentials masked."""
    lower = text.lower()
    for signs, place, kept in _PLACES:
        for sign in signs:
            if sign in lower:
                text = place.sub(kept, text)
                break
    return text


_SECRET_NAME = re.compile(rf"(?:[\w-]*{_WORDS}|pwd|(?:proxy-)?authorization|(?:set-)?cookie)\Z", re.IGNORECASE)


def without_named(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a log line with the text of those masked whose name says that it is a credential, and credentials in the others."""
    return {name: _without_named(name, value) for name, value in fields.items()}


def _without_named(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return MASK if _SECRET_NAME.match(name) else without_credentials(value)
    if isinstance(value, dict):
        return {key: _without_named(str(key), item) for key, item in value.items()}
    return [_without_named(name, item) for item in value] if isinstance(value, list) else value


# What every JSON text has in which something is masked.
_ANY_SIGN = (*{sign for signs, _, _ in _PLACES for sign in signs}, "pwd")


def json_without_credentials(text: str) -> str:
    """JSON that people read, an error or progress, with what looks like a credential masked in its texts."""
    lower = text.lower()
    # A backslash may write any sign in another way.
    if "\\u" not in lower and not any(sign in lower for sign in _ANY_SIGN):
        return text
    decoded = loads(text)
    kept = _without_named("", decoded)
    return text if kept == decoded else dumps(kept, ensure_ascii=False)


class Veil:
    """Hides known values. It may learn more; then it keeps the latest."""

    __slots__ = ("_forms", "_values")

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: dict[str, tuple[str, ...]] = {}
        # Longest first: a form may be a part of another.
        self._forms: list[str] = []
        self.learn(values)

    @property
    def longest(self) -> int:
        """The length of the longest form that it knows."""
        return len(self._forms[0]) if self._forms else 0

    @property
    def values(self) -> list[str]:
        """What it hides."""
        return list(self._values)

    def learn(self, values: Iterable[str]) -> None:
        """Hide these too."""
        new = {value: forms(value) for value in values if len(value) >= SHORTEST and value not in self._values}
        if not new:
            return
        self._values |= new
        for value in list(self._values)[:-MOST_VALUES]:
            del self._values[value]
        self._forms = sorted({form for known in self._values.values() for form in known}, key=len, reverse=True)

    def over(self, text: str) -> str:
        """The text with every known value masked."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return text

    def over_end(self, text: str, most: int) -> str:
        """The end of a text that may begin in the middle of a value: no part of one is left at its beginning."""
        cut = max(len(text) - most, 0)
        for form in self._forms if cut else ():
            start = text.find(form, max(cut - len(form) + 1, 0), cut + len(form) - 1)
            if 0 <= start < cut:
                cut = start + len(form)
        return self.over(text[cut:])

    def over_start(self, text: str) -> str:
        """A text that may have been cut in the middle of a value: no part of one is left at its end."""
        shown = self.over(text)
        begun = 0
        for form in self._forms:
            for length in range(min(len(form) - 1, len(shown)), max(SHORTEST, begun + 1) - 1, -1):
                if shown.endswith(form[:length]):
                    begun = length
                    break
        return shown[: len(shown) - begun]

    def over_value(self, value: Any) -> Any:
        """Decoded JSON with every known value masked, in keys and in numbers too."""
        return self.over_each(value, self.over)

    def over_json(self, text: str) -> str:
        """The same for JSON text."""
        if not self._forms:
            return text
        decoded = loads(text)
        hidden = self.over_value(decoded)
        return text if hidden == decoded else dumps(hidden, ensure_ascii=False)

    @staticmethod
    def over_each(value: Any, over: Callable[[str], str]) -> Any:
        """Apply a mask to each text of decoded JSON."""
        if isinstance(value, str):
            return over(value)
        if isinstance(value, dict):
            return {over(key) if isinstance(key, str) else key: Veil.over_each(item, over) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [Veil.over_each(item, over) for item in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value if over(str(value)) == str(value) else MASK
        return value


def forms(value: str) -> tuple[str, ...]:
    """A value as it is, line by line, and as it travels."""
    found: dict[str, None] = {}
    lines = [line.strip() for line in value.splitlines()]
    for part in [value, value.strip(), *(line for line in lines if len(line) >= SHORTEST_LINE)]:
        if len(part) < SHORTEST:
            continue
        raw = part.encode("utf-8", "surrogatepass")
        # Hosts are written in lower case, whatever was sent.
        spellings = [part, part.lower(), dumps(part)[1:-1], dumps(part, ensure_ascii=False)[1:-1], repr(part)[1:-1]]
        spellings += [quote(raw, safe=""), quote(raw), quote_plus(raw), raw.hex(), raw.hex().upper(), *_in_base64(raw)]
        found.update(dict.fromkeys(spelling for spelling in spellings if len(spelling) >= SHORTEST))
    return tuple(found)


def _in_base64(raw: bytes) -> Iterable[str]:
    """What every base64 text has that holds these bytes, wherever in it they begin."""
    for offset, skipped in ((0, 0), (1, 2), (2, 3)):
        # The first and the last characters mix in what stands beside the value.
        left = (offset + len(raw)) * 8 // 6
        text = b64encode(b"\0" * offset + raw).decode()[skipped:left]
        if len(text) >= SHORTEST_LINE:
            yield text
            yield text.replace("+", "-").replace("/", "_")
