"""Duly inside a web process: its store is open for as long as the server runs, and with it a worker and a scheduler, if wanted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from duly import config
from duly.compose.app import App
from duly.compose.node import open_node, publish
from duly.compose.service import Service
from duly.domain.errors import Invalid
from duly.ports.handlers import ExecutorKind

log = logging.getLogger("duly")

SCHEDULER = ("dispatcher", "sweeper", "pruner")


@asynccontextmanager
async def living(app: App, *, worker: bool, scheduler: bool, reference: str | None) -> AsyncIterator[None]:
    """Open the store, publish the jobs, run what is wanted; at the end the worker drains and everything is let go.

    Raises what opening the store raises, so that a server which cannot reach it does not start.
    """
    settings = config.load(store=app.store)
    roles = [*(SCHEDULER if scheduler else ()), *(("worker",) if worker else ())]
    if worker and reference is None:
        _refuse_processes(app)
    node = await open_node(settings)
    stop, started = asyncio.Event(), asyncio.Event()
    running: asyncio.Task[None] | None = None
    try:
        if roles:
            service = Service(node, roles, app, reference)
            running = asyncio.create_task(service.run(stop, lambda _: started.set()), name="duly-lifespan")
            running.add_done_callback(lambda task: _say_why(task, stop))
            waiting = asyncio.create_task(started.wait())
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if running.done():
                running.result()
        else:
            await publish(app, node)
        for dashboard in app.dashboards:
            await dashboard.open()
        yield
    finally:
        for dashboard in app.dashboards:
            await dashboard.close()
        stop.set()
        if running is not None:
            await asyncio.gather(running, return_exceptions=True)
        await app.close()
        await node.close()


def _say_why(running: asyncio.Task[None], stop: asyncio.Event) -> None:
    """The web server goes on when a role of ours has ended; somebody has to hear of it."""
    if not running.cancelled() and not stop.is_set() and (error := running.exception()) is not None:
        log.error("Duly has ended in this process; its requests go on without it", exc_info=error)


def _refuse_processes(app: App) -> None:
    for name, call in app.calls().items():
        if call.kind is ExecutorKind.PROCESS:
            hint = 'Say where your application is, app.lifespan(worker=True, reference="shop.jobs:app"), or run `duly worker`.'
            raise Invalid("DULY-E118", f"job {name!r} runs in a child process, which has to import it.", field="reference", hint=hint)
