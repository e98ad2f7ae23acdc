"""A private PostgreSQL with a synchronous standby, crashed and failed over on purpose.

What a commit was acknowledged for is on both disks, so a failover loses nothing: the promise that is tested is the one of quorum
commits. A failover stops the primary as a crash would, promotes the standby, and makes a new standby of the new primary.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

from duly.services import ServiceFailed
from duly.services.postgres import Postgres

DATABASE = "duly"
SETTINGS: Mapping[str, str] = {
    "max_connections": "120",
    "shared_buffers": "64MB",
    "max_wal_senders": "4",
    "wal_keep_size": "256MB",
    "wal_retrieve_retry_interval": "200ms",
}
_FOLLOWS = "SELECT count(*) FROM pg_stat_replication WHERE application_name = 'standby' AND state = 'streaming' AND sync_state = '{}'"


class Duo:
    """The primary and its standby. Everything here blocks: call it from one thread that lasts."""

    def __init__(self, *, standby: bool = True) -> None:
        self._wants_standby = standby
        self.primary = Postgres(SETTINGS)
        self.standby: Postgres | None = None

    def start(self) -> str:
        """Start both; the DSN of the primary's database, as it is now."""
        self.primary.start()
        dsn = self.primary.create_database(DATABASE)
        self.follow()
        return dsn

    def follow(self) -> None:
        """See to a standby that every commit waits for."""
        if not self._wants_standby or self.standby is not None:
            return
        standby = Postgres(SETTINGS, follows=self.primary)
        standby.start()
        self.standby = standby
        # First it follows, then commits wait for it: the other way round they would wait for it to catch up.
        self._wait_until_followed("async")
        self._demand("standby")
        self._wait_until_followed("sync")

    def crash(self) -> None:
        """The primary ends as it would with its machine."""
        self.primary.stop("immediate")

    def start_again(self) -> None:
        """The primary comes back, on the same port, and recovers."""
        self.primary.start()

    def fail_over(self) -> None:
        """The primary is gone for good and the standby takes its place, without a standby of its own yet."""
        if self.standby is None:
            raise ServiceFailed("there is no standby to fail over to")
        lost, self.primary, self.standby = self.primary, self.standby, None
        lost.stop("immediate")
        # It would wait for a standby that does not exist yet.
        self.primary.promote()
        self._demand("")
        lost.close()

    @property
    def dsn(self) -> str:
        """Where the database is now."""
        return self.primary.dsn(DATABASE)

    def close(self) -> None:
        """Stop both and remove every trace."""
        for server in (self.standby, self.primary):
            if server is not None:
                with contextlib.suppress(ServiceFailed):
                    server.close()

    def _demand(self, standby: str) -> None:
        """Which standby commits wait for."""
        self.primary.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standby}'")
        self.primary.execute("SELECT pg_reload_conf()")

    def _wait_until_followed(self, how: str, timeout: float = 60.0) -> None:
        deadline = time.monotonic() + timeout
        while self.primary.execute(_FOLLOWS.format(how)) != "1":
            if time.monotonic() > deadline:
                raise ServiceFailed(f"the standby does not follow:\n{self.standby.last_words() if self.standby else ''}")
            time.sleep(0.05)
