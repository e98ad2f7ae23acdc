"""The dashboard inside another ASGI application: the same API and pages, the same doors, on connections of their own."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import signal
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from duly import config
from duly.adapters.system.clock import system_entropy
from duly.compose.doors import doorkeeper_of
from duly.compose.first_key import bootstrap_key
from duly.compose.node import Node
from duly.compose.stores import open_nodes, services_of
from duly.domain.access import Visitor
from duly.domain.rates import Rate
from duly.roles import loop
from duly.roles.timekeeper import Timekeeper

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from duly.http.app import Api
    from duly.http.services import Services

# Whom the application around us has logged in, if it says so. It takes the request.
Auth = Callable[[Any], Visitor | Awaitable[Visitor | None] | None]
STOPS = (signal.SIGINT, signal.SIGTERM)


def api_on(nodes: Sequence[Node]) -> tuple[Api, Services]:
    """The API over these stores, with the dashboard's pages, as the settings say."""
    from duly.dashboard.pages import pages
    from duly.http.app import create_api

    services, settings = services_of(nodes), nodes[0].settings
    rate = Rate(settings.rate_limit, settings.rate_burst) if settings.rate_limit else None
    return create_api(services, rate=rate, pages=pages()), services


class MountedDashboard:
    """An ASGI application to be mounted: `api.mount("/duly", app.dashboard())`.

    Mounting opens nothing: who comes needs a key or a session, or is a visitor whom `auth` names. It is opened by the lifespan around it,
    or by the first request, and closed by `close`.
    """

    def __init__(self, store: Callable[[], str | None], auth: Auth | None = None) -> None:
        self._store = store
        self._auth = auth
        self._api: Api | None = None
        self._opening = asyncio.Lock()
        self._stop = asyncio.Event()
        self._nodes: list[Node] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._handlers: dict[int, Any] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the lifespan of a server that has nothing else."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        api = self._api or await self.open()
        if self._auth is not None and scope["type"] == "http":
            # No header can say this: it is not in what came over the wire.
            scope = {**scope, "duly.visitor": partial(self._visitor, dict(scope))}
        await api(scope, receive, send)

    async def open(self) -> Api:
        """Open the store, see to the first key, and keep the clock and the doors. Raises what opening a store raises."""
        async with self._opening:
            if self._api is not None:
                return self._api
            self._stop = asyncio.Event()
            self._nodes = await open_nodes(config.load(store=self._store()))
            try:
                await bootstrap_key(self._nodes[0])
                api, services = api_on(self._nodes)
            except BaseException:
                await self._let_go()
                raise
            for node, of in zip(self._nodes, (services, *services.neighbours), strict=True):
                for role in (Timekeeper(node.clock, node.store.health), doorkeeper_of(node, of)):
                    self._tasks.append(asyncio.create_task(loop.run(role, node.clock, self._stop, system_entropy)))
            self._listen_for_the_end(api)
            self._api = api
            return api

    async def close(self) -> None:
        """End open streams and let everything go."""
        async with self._opening:
            if self._api is not None:
                self._api.close()
                self._api = None
            await self._let_go()

    async def _let_go(self) -> None:
        self._stop.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for node in self._nodes:
            with contextlib.suppress(Exception):
                await node.close()
        self._tasks, self._nodes = [], []
        for number, (ours, before) in self._handlers.items():
            if signal.getsignal(number) is ours:
                signal.signal(number, before)
        self._handlers = {}

    def _listen_for_the_end(self, api: Api) -> None:
        """Servers wait for open answers before they tell the lifespan, and a stream does not end by itself: it hears the signal first."""
        if threading.current_thread() is not threading.main_thread():
            return
        running = asyncio.get_running_loop()
        for number in STOPS:
            before = signal.getsignal(number)
            if not callable(before) or before is signal.default_int_handler:
                continue

            def ours(number: int, frame: FrameType | None, before: Callable[..., Any] = before) -> None:
                running.call_soon_threadsafe(api.close)
                before(number, frame)

            signal.signal(number, ours)
            self._handlers[number] = (ours, before)

    async def _visitor(self, scope: Scope) -> Visitor | None:
        from starlette.requests import Request

        assert self._auth is not None
        found = self._auth(Request(scope))
        return await found if inspect.isawaitable(found) else found

    async def _live(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] == "lifespan.startup":
            try:
                await self.open()
            except Exception as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            await send({"type": "lifespan.startup.complete"})
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})
