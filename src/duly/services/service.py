"""What the servers have in common: a private process of its own, with its directory, its ports, its log and its end.

Nothing outlives the owner: the kernel ends the process when the owning thread ends, by whatever death, so start it from a thread that
lasts. A directory left by a killed owner is swept by the next start.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import IO, ClassVar, Self

from duly import config
from duly.services import ServiceFailed, ServiceMissing
from duly.services.directories import claim, remove

# Another one may take a port between its choice and its use.
TRIES = 5


class Service(ABC):
    """One server, one owner. Stopping, killing and starting again keep the ports and the directory."""

    # What it is called in messages, and in the name of its directory.
    name: ClassVar[str]
    # What its log says when somebody else has the port.
    port_is_taken: ClassVar[str] = "ddress already in use"
    # What the kernel sends it when its owner dies.
    last_signal: ClassVar[signal.Signals] = signal.SIGKILL
    # How long a start and an end may take, in seconds.
    patience: ClassVar[float] = 30.0

    def __init__(self, *, account: pwd.struct_passwd | None = None) -> None:
        self.port = 0
        self._account = account
        self._directory: Path | None = None
        self._lock: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    # ------------------------------------------------------------ what each has of its own

    @abstractmethod
    def _command(self) -> list[str]:
        """The words that start it in the foreground, on its ports."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether clients are served."""

    def _choose_ports(self) -> None:
        self.port = free_port()

    def _furnish(self) -> None:
        """Make the new directory ready for the first start."""
        if self._account is not None:
            os.chown(self.directory, self._account.pw_uid, self._account.pw_gid)

    def _environment(self) -> dict[str, str]:
        return config.environment_without("DULY_") | {"LC_ALL": "C"}

    # ------------------------------------------------------------ life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def directory(self) -> Path:
        """The temporary directory: its data, and the log."""
        if self._directory is None:
            raise ServiceFailed(f"{self.name} was never started, or is closed")
        return self._directory

    @property
    def log_path(self) -> Path:
        return self.directory / "log"

    @property
    def address(self) -> tuple[str, int]:
        """Where clients connect."""
        return "127.0.0.1", self.port

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The server's process, for those who signal it themselves."""
        return self._running().pid

    def start(self, timeout: float | None = None) -> None:
        """Start, and return once clients are served. Makes the directory and picks the ports the first time."""
        if self.is_running:
            return
        if self._directory is None:
            self._claim()
        self._start(timeout or self.patience)

    def stop(self) -> None:
        """End it in order; one that takes too long is killed."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it without a word."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Let it hang: connections stay open and nobody answers, until `resume`."""
        process = self._running()
        process.send_signal(signal.SIGSTOP)
        # The signal is only sent by now: an answer may be under way until the last thread has stopped.
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let it go on."""
        self._running().send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it at once and remove every trace."""
        atexit.unregister(self.close)
        self.kill()
        if self._directory is not None:
            remove(self._directory)
            self._directory = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def last_words(self, lines: int = 30) -> str:
        """The end of its log."""
        with contextlib.suppress(FileNotFoundError, ServiceFailed):
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])
        return "(no log)"

    # ------------------------------------------------------------ how

    def _claim(self) -> None:
        self._directory, self._lock = claim(f"duly-{self.name.lower()}-")
        atexit.register(self.close)
        self._furnish()

    def _start(self, timeout: float) -> None:
        is_chosen = bool(self.port)
        for _ in range(TRIES):
            if not is_chosen:
                self._choose_ports()
            self._spawn()
            if self._is_up_within(timeout):
                return
            self.kill()
            if self.port_is_taken not in self.last_words():
                break
        raise ServiceFailed(f"{self.name} did not start:\n{self.last_words()}")

    def _spawn(self) -> None:
        words = [*self._prefix(self.last_signal), *self._command()]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=self._environment(),
                # Its own group: a Ctrl-C at the terminal is for its owner, who then stops it in order.
                process_group=0,
            )

    def _is_up_within(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while self.is_running and time.monotonic() < deadline:
            if self._answers():
                return True
            time.sleep(0.02)
        return False

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ServiceFailed(f"{self.name} is not running")
        return self._process

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(number)
            # One that was paused would not hear it.
            process.send_signal(signal.SIGCONT)
        try:
            process.wait(self.patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _prefix(self, on_death: signal.Signals | None = None) -> list[str]:
        """The words to put before a command so that it runs as its account, and ends when this thread does."""
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            if self._account is not None:
                raise ServiceMissing(f"setpriv (util-linux) is needed to run {self.name} as root")
            # Not Linux: atexit is all there is.
            return []
        words = [setpriv]
        if self._account is not None:
            words += ["--reuid", str(self._account.pw_uid), "--regid", str(self._account.pw_gid), "--clear-groups"]
        if on_death is not None:
            words += ["--pdeathsig", on_death.name.removeprefix("SIG")]
        return [*words, "--"] if len(words) > 1 else []


def accepts(address: tuple[str, int]) -> bool:
    """Whether somebody takes connections there."""
    with contextlib.suppress(OSError), socket.create_connection(address, timeout=1.0):
        return True
    return False


def unprivileged(name: str, *accounts: str) -> pwd.struct_passwd | None:
    """Whom to run it as: it refuses to run as root. None when we are not."""
    if os.geteuid() != 0:
        return None
    for account in accounts:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(account)
    raise ServiceMissing(f"running as root, and there is no user {' or '.join(accounts)} to run {name} as")


def free_port() -> int:
    """A port nobody listens on, below the range the kernel hands out, so that it is still ours after a restart."""
    chance = random.SystemRandom()
    while True:
        port = chance.randrange(20_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port


def options(settings: Mapping[str, str], flag: str = "--{name}", value: str = "{value}") -> list[str]:
    """Settings as words of a command line."""
    return [part for name, given in settings.items() for part in (flag.format(name=name), value.format(name=name, value=given))]
