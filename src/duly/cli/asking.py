"""Asking the person at the terminal before something wide or final. Nobody is asked where nobody sits."""

from __future__ import annotations

import sys

from duly import config
from duly.cli.parsing import Arguments, Parser
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


def yes_option(parser: Parser) -> None:
    """For what may change much at once."""
    if "--yes" not in parser.option_names:
        parser.add_argument("-y", "--yes", action="store_true", help="do not ask, though the context is a protected one such as prod")


def demand(arguments: Arguments, question: str) -> None:
    """Ask before a wide change by way of a protected context, unless --yes was given. Raises Conflict unless the answer is yes."""
    if arguments.yes or arguments.server is not None:
        return
    name = config.protected_context(arguments.context)
    if name is not None and not agreed(f"{name.upper()}: {question}"):
        raise Conflict("DULY-E604", "It was not agreed to.", hint="Nothing was changed.")
