"""Asking the person at the terminal before something wide or final. Nobody is asked where nobody sits."""

from __future__ import annotations

import sys

from duly.domain.errors import Conflict


def somebody_is_there() -> bool:
    """Whether a question would be read and answered by a person."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str) -> bool:
    """Ask; anything but yes is no. Raises Conflict where nobody can be asked."""
    if not somebody_is_there():
        raise Conflict("DULY-E604", f"{question} Nobody is there to be asked.", hint="Nothing was changed. --yes says yes beforehand.")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
