"""Commands and their options: a thin layer over argparse that speaks like the rest of Duly."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from duly.cli.errors import did_you_mean
from duly.domain.errors import Invalid

Arguments = argparse.Namespace
USAGE = "DULY-E604"
FORMATS = ("table", "wide", "json", "jsonl", "yaml", "csv", "tsv", "name")


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

    @property
    def option_names(self) -> set[str]:
        """The options so far."""
        return {option for action in self.options for option in action.option_strings}

    @property
    def arguments(self) -> list[argparse.Action]:
        """What is given by its place and not by a name."""
        return [action for action in self._actions if not action.option_strings]

    @property
    def options(self) -> list[argparse.Action]:
        """What is given by a name."""
        return [action for action in self._actions if action.option_strings]

    @property
    def told_options(self) -> list[argparse.Action]:
        """Those that people are told of."""
        return [action for action in self.options if action.help != argparse.SUPPRESS]

    def error(self, message: str) -> NoReturn:
        """What is wrong with the words, and how they go."""
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            options = self.option_names
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

    def parser(self) -> Parser:
        """What reads its words."""
        parser = Parser(self.path, self.summary, self.epilogue)
        self.configure(parser)
        if self.changes:
            reason_option(parser)
            dry_run_option(parser)
        return parser

    def run(self, words: Sequence[str]) -> int:
        """Parse the words and do it. With `takes_rest`, what follows `--` is left as it is, in `rest`."""
        parser = self.parser()
        own, rest = list(words), []
        if self.takes_rest and "--" in own:
            end = own.index("--")
            own, rest = own[:end], own[end + 1 :]
        arguments = parser.parse_intermixed_args(own)
        arguments.rest = rest
        if getattr(arguments, "watch", None) is not None:
            from duly.cli.repeating import watch

            if self.changes:
                raise Invalid(USAGE, f"`{self.path}` changes something, and is not repeated.", field="--watch")
            return watch(arguments.watch, lambda: self.action(arguments))
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
            print(self.otherwise.parser().format_help())
            print("Also:")
        else:
            print(f"{self.summary}\n\nUsage: {self.path} COMMAND [OPTIONS]\n")
        width = max(len(name) for name in self.commands)
        for name, command in self.commands.items():
            print(f"  {self.path} {name:<{width}}  {command.summary}")


Tree = Command | Group


def later(module: str, function: str) -> Callable[[Any], Any]:
    """A function of another module of the command line, which is imported when it is called: for verbs that need more than the others
    of their noun."""

    def call(argument: Any) -> Any:
        return getattr(import_module(f"duly.cli.{module}"), function)(argument)

    return call


def reason_option(parser: Parser) -> None:
    """For what changes something: why."""
    names = [name for name in ("-m", "--reason") if name not in parser.option_names]
    parser.add_argument(*names, metavar="TEXT", dest="why", help="why, for the audit trail")


def dry_run_option(parser: Parser) -> None:
    """For what changes something and has no dry run of its own: the change is shown, and not sent."""
    if "--dry-run" not in parser.option_names:
        parser.add_argument("--dry-run", action="store_true", dest="withhold", help="say what would be sent, and send nothing that changes")


def connection_options(parser: Parser) -> None:
    """Which server to talk to."""
    parser.add_argument("--server", metavar="URL", help="the server; DULY_URL otherwise, or http://127.0.0.1:3859")
    parser.add_argument("--context", metavar="NAME", help="a context instead of the one in use; see `duly context`")


def output_options(parser: Parser) -> None:
    """How answers are printed."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="FORMAT",
        choices=FORMATS,
        help="table, wide, json, jsonl, yaml, csv, tsv or name; otherwise a table on a terminal and tsv in a pipe",
    )
    parser.add_argument("--fields", metavar="A,B", help="only these, by the names of the columns or of the API")
    parser.add_argument("--watch", metavar="TIME", nargs="?", const="2s", help="again and again, every 2s or as often as you say")
    parser.add_argument("--utc", action="store_true", help="show times in UTC")
    if "--tz" not in parser.option_names:
        parser.add_argument("--tz", metavar="ZONE", dest="shown_tz", help="show times in this zone; this machine's otherwise")
    parser.add_argument("--json", action="store_const", const="json", dest="output", help="the same as -o json")
    parser.add_argument("-q", "--quiet", action="store_true", help="no remarks on standard error")
    parser.add_argument("--no-color", action="store_true", help="no colours; NO_COLOR does the same")


def remote_options(parser: Parser) -> None:
    """For every command that asks a server."""
    connection_options(parser)
    output_options(parser)


def count(text: str) -> int:
    """A number of things to show."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 100_000:
        raise ValueError(text)
    return int(text)


# argparse names the reader in its message.
count.__name__ = "count"
