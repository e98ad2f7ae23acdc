"""Text of others, made harmless for a terminal and for a file of lines: it can neither take over the one nor begin a line in the other."""

from __future__ import annotations


def visible(text: str) -> str:
    """The text with everything that is not printed written out: `\\x1b` for an escape, `\\n` for the end of a line."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def indented(text: str, by: str = "    ") -> str:
    """The same with its lines kept, each but the first moved in, so that none of them can pass for a line of somebody else's."""
    return ("\n" + by).join(visible(line.replace("\t", "    ")) for line in text.split("\n"))
