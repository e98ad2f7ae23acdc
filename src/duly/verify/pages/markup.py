"""HTML and SVG from values. Text is escaped wherever it goes in; only what `element` made itself is trusted."""

from __future__ import annotations

from html import escape

# What has no end tag in HTML.
VOID = frozenset({"br", "col", "hr", "meta"})


class Markup(str):
    """Text that is markup already: nothing that came from outside."""

    __slots__ = ()


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """One element. Children that are Markup stay, all others become text; `None` and `False` leave an attribute or a child out.

    `class_` and `for_` lose their underscore, other underscores become hyphens: `stroke_width`, `aria_labelledby`.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        shown = key.rstrip("_").replace("_", "-") if key.islower() else key
        parts.append(f" {shown}" if value is True else f' {shown}="{_escaped(value)}"')
    if name in VOID:
        return Markup("".join([*parts, ">"]))
    inner = joined(*children)
    return Markup("".join([*parts, ">", inner, "</", name, ">"]))


def number(value: float) -> str:
    """A coordinate: a tenth of a pixel is exact enough, and short."""
    return f"{value:.1f}".removesuffix(".0")


def joined(*children: object) -> Markup:
    """Children one after the other, each escaped unless it is Markup."""
    return Markup("".join(_child(child) for child in children))


def _child(value: object) -> str:
    if value is None or value is False:
        return ""
    if isinstance(value, Markup):
        return value
    if isinstance(value, list | tuple):
        return joined(*value)
    return _escaped(value)


def _escaped(value: object) -> str:
    return number(value) if isinstance(value, float) else escape(visible(str(value)))


def visible(text: str) -> str:
    """Text with its hidden characters written out.

    XML allows no control characters, and those that turn the writing direction round could hide what a name says.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char in "\n\t" or _is_plain(char) else f"\\u{ord(char):04x}" for char in text)


def _is_plain(char: str) -> bool:
    return char.isprintable() or char in "\u00a0\u202f\u2009"
