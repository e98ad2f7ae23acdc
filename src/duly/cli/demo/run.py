"""Running the demo: a store in a directory of its own, some hours of history in it, and `duly up` on it until a signal."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from duly import config
from duly.cli.dev import Restarts, words_for_up
from duly.cli.output import GREY, paint
from duly.cli.parsing import Arguments
from duly.domain.errors import Invalid

APP = "duly.cli.demo.shop:app"
PAST = timedelta(hours=4)
FILE = "demo.db"


def demo(arguments: Arguments) -> int:
    """Live through some hours, then run at real speed. Nothing is left behind."""
    for name in ("app", "store", "home"):
        if getattr(arguments, name):
            hint = "It has its own jobs and its own store: leave the rest out."
            raise Invalid("DULY-E604", f"--demo and {name if name == 'app' else f'--{name}'} contradict one another.", hint=hint)
    home = Path(tempfile.mkdtemp(prefix="duly-demo-"))
    try:
        count = prepare(home, PAST)
        _say(f"The shop has lived through {PAST // timedelta(hours=1)} hours: {count:,} executions. From now on it runs at real speed.")
        arguments.app, arguments.home, arguments.store = APP, str(home), store_url(home)
        arguments.log_level = arguments.log_level or "warning"
        words = words_for_up(arguments)
        return Restarts([sys.executable, "-m", "duly.cli.main", "up", *words], str(Path(__file__).parent)).run()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def prepare(home: Path, past: timedelta) -> int:
    """A store with that much history; how many executions it has."""
    # Only whoever wants a demo pays for what simulates it.
    from duly.cli.demo.past import live_through
    from duly.cli.demo.shop import app

    _say("A shop of forty jobs lives through its last hours; this takes some seconds.")
    asyncio.run(_make(config.load(home=str(home), store=store_url(home))))
    return live_through(app, past, home / FILE)


def store_url(home: Path) -> str:
    """Where the demo's store is."""
    return f"sqlite:///{home / FILE}"


async def _make(settings: config.Settings) -> None:
    """A new store with its tables."""
    from duly import compose

    for node in await compose.open_nodes(settings):
        await node.close()


def _say(text: str) -> None:
    print(paint(text, GREY, sys.stderr), file=sys.stderr, flush=True)
