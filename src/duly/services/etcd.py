"""A real etcd, private to whoever started it: one member, with its data in a temporary directory.

    with Etcd() as server:
        settings = config.load({"DULY_LEASES": server.url})

Stopping and starting again keeps the data and the ports.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException

from duly import config
from duly.services import ServiceFailed, ServiceMissing
from duly.services.service import Service, free_port

MISSING = "no etcd found: install the package etcd-server, or run scripts/install-test-services"


def find_binary() -> str:
    """The server's program. Raises ServiceMissing."""
    found = shutil.which("etcd")
    if found is None:
        raise ServiceMissing(MISSING)
    return found


class Etcd(Service):
    """One member. With `words`, more options of its command line; with TLS among them, `scheme` is https."""

    name = "etcd"

    def __init__(self, words: Sequence[str] = (), *, scheme: str = "http") -> None:
        super().__init__()
        self._binary = find_binary()
        self._peer_port = self._health_port = 0
        self._words = tuple(words)
        self._scheme = scheme

    @property
    def url(self) -> str:
        """What DULY_LEASES takes."""
        return f"{'etcds' if self._scheme == 'https' else 'etcd'}://127.0.0.1:{self.port}"

    def wipe(self) -> None:
        """Forget everything; only while it is not running. It comes back empty, as another cluster."""
        if self.is_running:
            raise ServiceFailed("stop it first")
        shutil.rmtree(self.directory / "data", ignore_errors=True)

    def _choose_ports(self) -> None:
        self.port, self._peer_port, self._health_port = free_port(), free_port(), free_port()

    def _command(self) -> list[str]:
        client, peer = f"{self._scheme}://127.0.0.1:{self.port}", f"http://127.0.0.1:{self._peer_port}"
        return [
            *(self._binary, "--name", "one", "--data-dir", str(self.directory / "data"), "--initial-cluster", f"one={peer}"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            # Without TLS too, so that whoever starts it can always tell that it is up.
            *("--listen-metrics-urls", f"http://127.0.0.1:{self._health_port}"),
            *self._words,
        ]

    def _environment(self) -> dict[str, str]:
        return config.environment_without("ETCD_")

    def _answers(self) -> bool:
        with contextlib.closing(HTTPConnection("127.0.0.1", self._health_port, timeout=1)) as connection:
            try:
                connection.request("GET", "/health")
                return b'"true"' in connection.getresponse().read()
            except (OSError, HTTPException):
                return False
