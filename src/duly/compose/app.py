"""The SDK's application with a way to a store, which is put together when somebody first asks for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, NoReturn

from duly import config
from duly.sdk import app as sdk
from duly.sdk.connection import Connection

if TYPE_CHECKING:
    from duly.compose.mounted import Auth, MountedDashboard

log = logging.getLogger("duly")


class App(sdk.App):
    """Jobs declared in code, on the store that `store` or DULY_STORE names: a SQLite file by default."""

    def __init__(self, name: str, *, store: str | None = None) -> None:
        super().__init__(name, store=store)
        self.is_sealed = config.is_set("DULY_PAYLOAD_KEYS")
        # Opened and closed by the lifespan.
        self.dashboards: list[MountedDashboard] = []

    async def connect(self) -> Connection:
        """Open the store. One that is made here, by a client, has nobody behind it yet: that is said."""
        from duly.compose.node import connection, open_node
        from duly.compose.otlp import open_spans

        settings = config.load(store=self.store)
        node = await open_node(settings, spans=open_spans(settings))
        if settings.store == config.default_store(settings.home) and any(migration.number == 1 for migration in node.migrated):
            log.warning("made a new store in %s; nobody serves it yet: run `duly up` there, or set DULY_STORE", settings.home.absolute())
        return connection(node)

    def lifespan(
        self, *, worker: bool = False, scheduler: bool = False, reference: str | None = None
    ) -> Callable[[Any], AbstractAsyncContextManager[None]]:
        """The lifespan of a web application, `FastAPI(lifespan=app.lifespan())`: the store is open while the server runs.

        With `worker` and `scheduler` it also runs the jobs in this process. `reference` names the application, such as "shop.jobs:app",
        for jobs in child processes. In a lifespan of your own: `async with app.lifespan()(api): yield`.
        """

        def lifespan(_: Any) -> AbstractAsyncContextManager[None]:
            from duly.compose.lifespan import living

            return living(self, worker=worker, scheduler=scheduler, reference=reference)

        return lifespan

    def dev(self, *, host: str | None = None, port: int | None = None) -> NoReturn:
        """Scheduler, worker and dashboard on one port, started again whenever the code changes: what `duly dev` does.

        It takes the place of the script that calls it, under `if __name__ == "__main__":`, and does not return.
        """
        from duly.compose.dev import become_dev

        become_dev(self, host=host, port=port)

    def dashboard(self, *, auth: Auth | None = None) -> MountedDashboard:
        """The dashboard with its API, to be mounted: `api.mount("/duly", app.dashboard())`. Who comes needs a session or a key, as ever.

        `auth` takes the request and answers a `Visitor` for somebody whom your application has logged in, None for everybody else.
        """
        from duly.compose.mounted import MountedDashboard

        made = MountedDashboard(lambda: self.store, auth)
        self.dashboards.append(made)
        return made
