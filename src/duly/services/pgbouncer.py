"""A real PgBouncer before a PostgreSQL, private to whoever started it.

    with Postgres() as server, PgBouncer(server) as pooler:
        connection = await asyncpg.connect(pooler.dsn("ledger"), statement_cache_size=0)

It pools by transaction, as fleets do, with few server connections, so that what leans on a session shows at once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from duly import config
from duly.services import ServiceMissing
from duly.services.postgres import USER, Postgres
from duly.services.service import Service, accepts, unprivileged

PLACES = ("/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer", "/opt/homebrew/bin/pgbouncer")

SETTINGS: Mapping[str, str] = {
    "listen_addr": "127.0.0.1",
    "auth_type": "any",
    "pool_mode": "transaction",
    "default_pool_size": "4",
    "max_client_conn": "500",
    "server_lifetime": "600",
    "log_connections": "0",
    "log_disconnections": "0",
}


def find_binary() -> Path:
    """Where PgBouncer is. Raises ServiceMissing."""
    found = shutil.which("pgbouncer") or next((place for place in PLACES if os.access(place, os.X_OK)), None)
    if found is None:
        raise ServiceMissing("no pgbouncer found: run scripts/install-test-services, or install the package pgbouncer")
    return Path(found)


class PgBouncer(Service):
    """One pooler. What stops it cuts its clients off, as they are when its machine is restarted."""

    name = "PgBouncer"

    def __init__(self, server: Postgres, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(account=unprivileged(self.name, "nobody"))
        self._binary = find_binary()
        self._settings = {**SETTINGS, **(settings or {})}
        self._server = server

    @property
    def url(self) -> str:
        """The pooler's own address; `dsn` names a database behind it."""
        return self.dsn()

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def _command(self) -> list[str]:
        file = self.directory / "pgbouncer.ini"
        settings = {**self._settings, "listen_port": str(self.port), "unix_socket_dir": ""}
        databases = f"[databases]\n* = host=127.0.0.1 port={self._server.port} user={USER}\n"
        file.write_text(f"{databases}\n[pgbouncer]\n" + "".join(f"{name} = {value}\n" for name, value in settings.items()))
        return [str(self._binary), str(file)]

    def _environment(self) -> dict[str, str]:
        return config.environment_without("PG")

    def _answers(self) -> bool:
        return accepts(self.address)
