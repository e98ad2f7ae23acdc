"""Commands and their options: a thin layer over argparse that speaks like the rest of Duly."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from duly.cli.errors import did_you_mean
from duly.domain.errors import Invalid

Arguments = argparse.Namespace
USAGE = "DULY-E604"


class Parser(argparse.ArgumentParser):
    """Raises a DulyError where argparse would end the process, and never guesses at shortened options."""

    def __init__(self, path: str, summary: str, epilogue: str | None = None) -> None:
        super().__init__(
            prog=path,
            description=summary,
            epilog=epilogue,
            allow_abbrev=False,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=26, width=110),
        )
        self.path = path

    def error(self, message: str) -> NoReturn:
        """What is wrong with the words, and how they go."""
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            options = [option for action in self._actions for option in action.option_strings]
            word = unknown.split()[0]
            hint = did_you_mean(word.partition("=")[0], options)
            raise Invalid(USAGE, f"`{self.path}` does not take {word!r}.", hint=hint or f"`{self.path} -h` shows what it takes.")
        raise Invalid(USAGE, f"{message[:1].upper()}{message[1:]}.", hint=" ".join(self.format_usage().split()).replace("usage:", "Usage:"))


class Command(NamedTuple):
    """One command: what it is, how its words are read, and what it does. `run` returns the exit code.

    One that `changes` something on a server takes a reason, for the audit trail.
    """

    summary: str
    configure: Callable[[Parser], Any]
    action: Callable[[Arguments], int]
    path: str
    epilogue: str | None = None
    takes_rest: bool = False
    changes: bool = False

    def run(self, words: Sequence[str]) -> int:
        """Parse the words and do it. With `takes_rest`, what follows `--` is left as it is, in `rest`."""
        parser = Parser(self.path, self.summary, self.epilogue)
        self.configure(parser)
        if self.changes:
            parser.add_argument("--reason", metavar="TEXT", dest="why", help="why, for the audit trail")
        own, rest = list(words), []
        if self.takes_rest and "--" in own:
            end = own.index("--")
            own, rest = own[:end], own[end + 1 :]
        arguments = parser.parse_intermixed_args(own)
        arguments.rest = rest
        return self.action(arguments)


class Group(NamedTuple):
    """A noun with its verbs. `otherwise` takes what is none of them; with `is_whole` also the noun alone."""

    summary: str
    path: str
    commands: Mapping[str, Command]
    otherwise: Command | None = None
    is_whole: bool = False

    def run(self, words: Sequence[str]) -> int:
        """Hand the words to the verb that they start with."""
        if words and words[0] in self.commands:
            return self.commands[words[0]].run(words[1:])
        if self.otherwise is not None and self.is_whole and not words:
            return self.otherwise.run(words)
        if not words or words[0] in ("-h", "--help"):
            self._help()
            return 0 if words else 2
        if self.otherwise is not None:
            return self.otherwise.run(words)
        hint = did_you_mean(words[0], self.commands) or f"There are: {', '.join(self.commands)}."
        raise Invalid(USAGE, f"`{self.path}` has no {words[0]!r}.", hint=hint)

    def _help(self) -> None:
        if self.otherwise is not None:
            parser = Parser(self.path, self.otherwise.summary, self.otherwise.epilogue)
            self.otherwise.configure(parser)
            print(parser.format_help())
            print("Also:")
        else:
            print(f"{self.summary}\n\nUsage: {self.path} COMMAND [OPTIONS]\n")
        width = max(len(name) for name in self.commands)
        for name, command in self.commands.items():
            print(f"  {self.path} {name:<{width}}  {command.summary}")


Tree = Command | Group


def connection_options(parser: Parser) -> None:
    """Which server to talk to."""
    parser.add_argument("--server", metavar="URL", help="the server; DULY_URL otherwise, or http://127.0.0.1:3859")


def output_options(parser: Parser) -> None:
    """How answers are printed."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="FORMAT",
        choices=("table", "json", "jsonl", "tsv", "name"),
        help="table, json, jsonl, tsv or name; otherwise a table on a terminal and tsv in a pipe",
    )
    parser.add_argument("--json", action="store_const", const="json", dest="output", help="the same as -o json")
    parser.add_argument("-q", "--quiet", action="store_true", help="no remarks on standard error")
    parser.add_argument("--no-color", action="store_true", help="no colours; NO_COLOR does the same")


def remote_options(parser: Parser) -> None:
    """For every command that asks a server."""
    connection_options(parser)
    output_options(parser)
