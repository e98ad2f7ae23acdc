"""`duly top`: a live screen where Textual is installed, and frames of text everywhere else."""

from __future__ import annotations

import importlib.util
import sys
import time

from duly.cli import output
from duly.cli.errors import OK
from duly.cli.output import RED, Output, paint
from duly.cli.parsing import Arguments, Command, Parser, remote_options
from duly.cli.remote import connect
from duly.cli.top.frame import draw, frame
from duly.domain.errors import Unavailable
from duly.sdk import calls
from duly.sdk.client import Client
from duly.sdk.cluster import show_cluster


def _every(text: str) -> float:
    value = float(text)
    if not 0.2 <= value <= 3600:
        raise ValueError(text)
    return value


# argparse names the reader in its message.
_every.__name__ = "number of seconds"


def _configure(parser: Parser) -> None:
    parser.add_argument("--every", metavar="SECONDS", type=_every, default=1.0, help="how often it is drawn anew; 1 otherwise")
    parser.add_argument("--once", action="store_true", help="one frame, and no more")
    parser.add_argument("--plain", action="store_true", help="frames of text, without a screen to move on")
    parser.add_argument("--readonly", action="store_true", help="look only: no key changes anything")
    parser.add_argument("--ascii", action="store_true", help="no signs beyond ASCII, for terminals that have no others")
    remote_options(parser)


def _top(arguments: Arguments) -> int:
    out = output.of(arguments)
    is_terminal = sys.stdout.isatty() and not arguments.once
    with connect(arguments) as client:
        if is_terminal and sys.stdin.isatty() and not arguments.plain and out.is_for_people:
            if importlib.util.find_spec("textual") is not None:
                return _screen(client, arguments)
            out.say("For a screen to move on: pip install 'duly[tui]'")
        return _frames(client, out, arguments.every, is_terminal)


def _screen(client: Client, arguments: Arguments) -> int:
    from duly.cli.top.desk import Desk
    from duly.cli.top.screen import Top

    # A wrong address or key is said before the terminal is taken over.
    client.send(calls.show_stats())
    top = Top(Desk(client, is_readonly=arguments.readonly), every=arguments.every, is_ascii=arguments.ascii)
    top.run()
    return top.return_code or OK


def _frames(client: Client, out: Output, every: float, is_terminal: bool) -> int:
    while True:
        try:
            found, stats = client.send(show_cluster()), client.send(calls.show_stats())
        except Unavailable as error:
            # It may come back; who looks on wants to see when.
            if not is_terminal:
                raise
            text = f"{paint('✗', RED)} {error}"
        else:
            text = frame(found, stats, out)
        if not is_terminal:
            print(text, end="", flush=True)
            return OK
        draw(text)
        time.sleep(every)


COMMANDS = {
    "top": Command(
        "A live screen: runs, failures, workers, queues and what fires next. ? shows its keys, q leaves.",
        _configure,
        _top,
        "duly top",
        "The screen needs duly[tui]; without it, and with --plain, frames of text are drawn. In a pipe, or with --once, it prints one.",
    )
}
