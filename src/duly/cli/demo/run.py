"""Running the demo: a town with a past, and a server in front of it, until a signal. Nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from duly.cli import journal, welcome
from duly.cli.errors import OK
from duly.cli.output import GREY, paint
from duly.cli.parsing import Arguments
from duly.cli.serve import stop_on_signals
from duly.domain.errors import Invalid

if TYPE_CHECKING:
    from duly import config
    from duly.cli.demo.town import Town

APP = "duly.cli.demo.shop:app"
PAST = timedelta(hours=4)
# It has its own jobs, its own store and its own workers.
_NOT_HERE = ("app", "store", "home", "pool", "label", "slots", "children", "shell", "no_worker", "grace")
_FLAGS = {"app": "an application", "shell": "--allow-shell"}
# Who serves this pool in the past is not there any more: the next one waits, and the overview says so.
LOST_POOL = "gpu"


def demo(arguments: Arguments) -> int:
    """Live through some hours, then go on as fast as somebody likes."""
    for name in _NOT_HERE:
        if getattr(arguments, name):
            said = _FLAGS.get(name, f"--{name.replace('_', '-')}")
            hint = "It has its own jobs, its own store and its own workers: leave the rest out."
            raise Invalid("DULY-E604", f"--demo and {said} contradict one another.", hint=hint)
    home = Path(tempfile.mkdtemp(prefix="duly-demo-"))
    try:
        return _run(arguments, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _run(arguments: Arguments, home: Path) -> int:
    # Only whoever wants a demo pays for what simulates it.
    from duly.cli.demo.door import settings_in

    flags = {name: getattr(arguments, name) for name in ("host", "port")}
    settings = settings_in(home, log_level=arguments.log_level or "warning", **flags)
    journal.set_up(settings)
    town = settled(PAST)
    if arguments.speed:
        town.set_speed(arguments.speed)
    trouble = asyncio.run(_serve(town, settings, brief=arguments.brief))
    if trouble is not None:
        raise trouble
    print("Stopped.", file=sys.stderr, flush=True)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    # Handlers in the middle of something hold threads, which nothing waits for.
    shutil.rmtree(home, ignore_errors=True)
    os._exit(OK)


def settled(past: timedelta) -> Town:
    """A town in which the shop has lived for so long, until now."""
    from duly.adapters.system.clock import SystemClock
    from duly.cli.demo.shop import app
    from duly.cli.demo.town import Town
    from duly.domain.instants import SECOND

    _say(f"A shop of {len(app.declared)} jobs lives through its last hours; this takes some seconds.")
    now = SystemClock().now() // SECOND * SECOND
    town = Town(app, now - past // timedelta(microseconds=1))
    town.live(past)
    town.lose(LOST_POOL)
    return town


async def _serve(town: Town, settings: config.Settings, *, brief: bool) -> BaseException | None:
    """Until a signal. What has ended time, if it was not that."""
    from duly.cli.demo.door import api_in, node_in
    from duly.cli.demo.shop import app
    from duly.compose.first_key import bootstrap_key, login_link
    from duly.compose.service import Service
    from duly.http.server import ApiServer

    node = node_in(town, settings)
    api, services = api_in(town, node)
    stop = asyncio.Event()
    stop_on_signals(stop, "Stopping: time stands still.")
    service = Service(node, ("api", "dispatcher", "sweeper", "alerter", "pruner", "worker"), app)
    service.new_key = await bootstrap_key(node)
    server = ApiServer(api, host=settings.host, port=settings.port)
    serving = asyncio.create_task(server.serve_until(stop))
    listening = asyncio.create_task(server.listening())
    await asyncio.wait({serving, listening}, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        listening.cancel()
        await serving
    service.api = server
    if sys.stdout.isatty() and not brief:
        service.login_link = await login_link(node, services, server.url)
    running = asyncio.get_running_loop()
    town.start(lambda: running.call_soon_threadsafe(stop.set))
    (welcome.brief if brief else welcome.say)(service, APP)
    try:
        await serving
    finally:
        await asyncio.to_thread(town.stop)
    return town.trouble


def _say(text: str) -> None:
    print(paint(text, GREY, sys.stderr), file=sys.stderr, flush=True)
