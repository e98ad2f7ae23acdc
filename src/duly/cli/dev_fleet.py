"""`duly dev --fleet`: a whole fleet on loopback, to see it work; `duly dev --services`: only the servers that it would stand on.

Everything is temporary: servers of others in directories of their own, our processes under this one. Ctrl-C ends all of it in
order (workers drain, servers hand over, then what they stood on), and nothing is left behind. Whoever dies is started again.
"""

from __future__ import annotations

import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FrameType

from duly import config
from duly.cli.errors import OK
from duly.cli.output import GREY, YELLOW, paint
from duly.domain.errors import Unavailable
from duly.services import ServiceMissing
from duly.services.available import Servers
from duly.services.service import free_port
from duly.usecases.access import new_secret

SERVERS, WORKERS = 2, 2
FIRST_PORT = 3859
STARTED_WITHIN = 60.0
GRACE = "5s"
# Beyond the grace of the processes themselves; then they are killed.
PATIENCE = 15.0
EVERY = 0.25


@dataclass(slots=True)
class Member:
    """One of our processes: its words, and what it is when it runs."""

    name: str
    words: Sequence[str]
    url: str | None = None
    process: subprocess.Popen[bytes] | None = None
    started_at: float = field(default=0.0)


class Fleet:
    """Our processes on servers of others, until a signal."""

    def __init__(self, servers: Servers, app: str | None) -> None:
        self._key = new_secret(secrets.randbits)
        self._environment = config.environment_without("DULY_") | servers.settings | {"DULY_ADMIN_KEY": self._key}
        self._asked = False
        ports = [_port(FIRST_PORT + nth) for nth in range(SERVERS)]
        self._members = [
            *(
                Member(f"server-{nth}", ["server", "--port", str(port), "--brief", "--grace", GRACE], f"http://127.0.0.1:{port}")
                for nth, port in enumerate(ports, 1)
            ),
            *(Member(f"worker-{nth}", ["worker", *([app] if app else []), "--brief", "--grace", GRACE]) for nth in range(1, WORKERS + 1)),
        ]

    def run(self) -> int:
        """Start everybody, say where they are, and keep them until a signal."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        try:
            # One after the other: the first one makes the schema.
            for member in self._members:
                self._start(member)
                if not self._wait_for(member):
                    break
            if not self._asked:
                self._say()
            while not self._asked:
                time.sleep(EVERY)
                self._revive()
        finally:
            self._end()
        return OK

    def _start(self, member: Member) -> None:
        # A group of its own, so that a Ctrl-C reaches this process only; and it dies with us, by whatever death.
        setpriv = shutil.which("setpriv")
        with_us = [setpriv, "--pdeathsig", "TERM", "--"] if setpriv else []
        command = [*with_us, sys.executable, "-m", "duly.cli.main", *member.words]
        member.process = subprocess.Popen(command, env=self._environment, process_group=0, stdin=subprocess.DEVNULL)
        member.started_at = time.monotonic()

    def _wait_for(self, member: Member) -> bool:
        """Until it answers; a worker says nothing that we could wait for."""
        while member.url is not None and not self._asked:
            if member.process is None or member.process.poll() is not None or time.monotonic() - member.started_at > STARTED_WITHIN:
                raise Unavailable("DULY-E607", f"{member.name} did not come up; what it said stands above.")
            try:
                with urllib.request.urlopen(f"{member.url}/readyz", timeout=2.0):  # noqa: S310 our own address
                    return True
            except OSError:
                time.sleep(EVERY)
        return not self._asked

    def _revive(self) -> None:
        for member in self._members:
            if member.process is not None and member.process.poll() is not None and time.monotonic() - member.started_at > 1.0:
                say(f"! {member.name} ended with exit code {member.process.returncode}; starting it again")
                self._start(member)

    def _say(self) -> None:
        for member in self._members:
            print(f"  {member.name:<12} {member.url or 'pool default'}")
        first = next(member.url for member in self._members if member.url)
        print(f"\nexport DULY_URL={first}\nexport DULY_KEY={self._key}")
        print("\nCtrl-C ends everything; nothing is kept.", flush=True)

    def _end(self) -> None:
        living = [member.process for member in reversed(self._members) if member.process is not None and member.process.poll() is None]
        for process in living:
            process.terminate()
        deadline = time.monotonic() + PATIENCE
        for process in living:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._asked = True


def fleet(app: str | None) -> int:
    """Run a whole fleet until a signal."""
    servers = Servers()
    try:
        _start(servers)
        return Fleet(servers, app).run()
    finally:
        servers.close()
        say("Everything has ended.")


def services() -> int:
    """Run one of each server until a signal, and say how to use them."""
    servers = Servers()
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: asked.append(number))
    try:
        _start(servers)
        print()
        for setting, url in servers.settings.items():
            print(f"export {setting}={url}")
        print("\nCtrl-C ends them; nothing is kept.", flush=True)
        while not asked:
            time.sleep(EVERY)
    finally:
        servers.close()
    return OK


def _start(servers: Servers) -> None:
    try:
        servers.start()
    except ServiceMissing as error:
        raise Unavailable("DULY-E605", f"{error}.", hint="A fleet stands on PostgreSQL.") from error
    for name, url in servers.names.items():
        print(f"  {name:<12} {url}", flush=True)
    for name, reason in servers.missing.items():
        say(f"  {name:<12} left out: {reason}")


def say(text: str) -> None:
    """To whoever looks on."""
    print(paint(text, YELLOW if text.startswith("!") else GREY, sys.stderr), file=sys.stderr, flush=True)


def _port(wanted: int) -> int:
    """The usual one if it is free, so that the address is easy to remember."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            return free_port()
    return wanted
