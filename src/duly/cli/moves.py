"""`duly tenant move`: from one store to another. It works on the stores themselves, so it runs where the servers' duly.toml is."""

from __future__ import annotations

import asyncio
import sys

from duly import config
from duly.cli.errors import OK
from duly.cli.parsing import Arguments, Parser
from duly.domain.durations import parse_duration
from duly.domain.errors import Invalid

EXAMPLES = """
The tenant's work stops for the time of the copy; what runs is waited for, what is due meanwhile fires afterwards as its catch-up
policy says. Requests that change something are answered with 503 and Retry-After. Interrupted, it goes on when it is repeated.

examples:
  duly tenant move acme --to eu                  with the last 30 days of its history
  duly tenant move acme --to eu --history 365d   with a year of it
  duly tenant move acme --undo                   as long as it has not arrived
"""


def configure_move(parser: Parser) -> None:
    """What `duly tenant move` takes."""
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--to", metavar="STORE", help="the store where it shall live, by its name in duly.toml")
    parser.add_argument("--undo", action="store_true", help="take an interrupted move back; the tenant wakes where it was")
    parser.add_argument(
        "--history", metavar="TIME", help="how far back finished executions go along, such as 90d; DULY_RETENTION otherwise"
    )
    parser.add_argument("--wait", metavar="TIME", default="10m", help="how long running work is waited for; 10m unless it says otherwise")
    parser.add_argument(
        "--settle", metavar="TIME", default="30s", help="how long the old copy stays after the switch, for requests under way; 30s"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, as far as it can be known, and do nothing")


def move(arguments: Arguments) -> int:
    """Run the command."""
    if (arguments.to is None) != bool(arguments.undo):
        raise Invalid("DULY-E604", "takes --to STORE, or --undo.", field="duly tenant move")
    settings = config.load()
    if not settings.all_stores:
        hint = "List the stores in duly.toml, as [[stores]]; DULY_CONFIG names another file."
        raise Invalid("DULY-E264", "There is one store only.", field="DULY_CONFIG", hint=hint)
    asyncio.run(_move(settings, arguments))
    return OK


async def _move(settings: config.Settings, arguments: Arguments) -> None:
    from duly import compose
    from duly.usecases.moves import MovePlan

    history = settings.retention if arguments.history is None else parse_duration(arguments.history, field="--history")
    patience = parse_duration(arguments.wait, field="--wait")
    trust_ends = parse_duration(arguments.settle, field="--settle")
    nodes = await compose.open_nodes(settings, migrate=not arguments.dry_run)
    try:
        moves = compose.moves_of(nodes)
        if arguments.dry_run:
            print(await moves.foresee(arguments.name, arguments.to))
        elif arguments.undo:
            await moves.undo(arguments.name, _tell)
        else:
            plan = MovePlan(to=arguments.to, history=history, patience=patience, trust_ends=trust_ends)
            await moves.move(arguments.name, plan, _tell)
    finally:
        for node in nodes:
            await node.close()


def _tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
