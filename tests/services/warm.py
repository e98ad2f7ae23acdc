"""`duly` commands as processes of their own that have everything imported already.

Most of what a short command takes is the importing, and hundreds of tests run one. So one process imports the command line and waits; for
every command it forks, and the child becomes that command: with its own environment, directory, streams and exit code, and signals that
reach it. What tests how a command starts, or what it takes, runs `python -m duly.cli.main`.

    python -m tests.services.warm DESCRIPTOR        # a socket over which commands come
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

ROOT = Path(__file__).parents[2]
MOST_BYTES = 200_000
LOOK_EVERY = 1.0
# What commands import when they run, beside the modules that define them.
LATER = ("duly.cli.welcome", "duly.cli.supervisor", "duly.cli.application", "duly.compose", "duly.http.app", "uvloop", "uvicorn", "asyncpg")


class Warm:
    """A command that runs, as `subprocess.Popen` shows one: its lines, with those of standard error among them, are read from `stdout`."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str], cwd: Path | None, streams: Sequence[int] | None = None) -> None:
        self.args = [sys.executable, "-m", "duly.cli.main", *words]
        self.returncode: int | None = None
        self.stdout: IO[str] | None = None
        with contextlib.ExitStack() as open_here:
            if streams is None:
                ours, theirs = os.pipe()
                nothing = os.open(os.devnull, os.O_RDONLY)
                open_here.callback(os.close, theirs)
                open_here.callback(os.close, nothing)
                self.stdout = open(ours, encoding="utf-8")  # noqa: SIM115 closed by whoever reads it
                streams = (nothing, theirs, theirs)
            ours, theirs = os.pipe()
            open_here.callback(os.close, theirs)
            self._told = os.fdopen(ours, "rb", buffering=0)
            request = {"words": list(words), "env": dict(env), "cwd": str(cwd or Path.cwd())}
            socket.send_fds(_nursery(), [json.dumps(request).encode()], [*streams, theirs])
        self._lock = threading.Lock()
        self._said = b""
        while b"\n" not in self._said:
            self._hear(None)
        self.pid = int(self._said.split(b"\n")[0])

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, when it has ended."""
        until = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            left = LOOK_EVERY if until is None else min(LOOK_EVERY, until - time.monotonic())
            if left <= 0:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            # Not behind the lock: meanwhile somebody else may send a signal.
            with contextlib.suppress(ValueError):
                select.select([self._told], [], [], left)
        assert self.returncode is not None
        return self.returncode

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        with self._lock:
            if self.returncode is None:
                self._hear(0.0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """To the command itself, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def _hear(self, timeout: float | None) -> bool:
        """Read what is said of it: its number first, its exit code at last. False when nothing was said in time."""
        if not select.select([self._told], [], [], timeout)[0]:
            return False
        heard = self._told.read(100)
        self._said += heard
        number, _, code = self._said.partition(b"\n")
        if not heard and not number:
            raise RuntimeError("the process that forks commands is gone")
        if b"\n" in code or not heard:
            # Nothing: whoever waited for it was killed, and cannot say.
            self.returncode = int(code) if code.strip() else -signal.SIGKILL
            self._told.close()
        return True


def run(words: Sequence[str], env: Mapping[str, str], cwd: Path | None, stdin: str) -> tuple[int, str, str]:
    """Run a command to its end: its exit code, and what it wrote to both of its streams."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        code = Warm(words, env, cwd, [given.fileno(), out.fileno(), err.fileno()]).wait()
        return code, _read(out), _read(err)


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")


@functools.cache
def _nursery() -> socket.socket:
    """The way to the process that forks, which ends when we do."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    env = {name: value for name, value in os.environ.items() if not name.startswith("DULY_")}
    command = [sys.executable, "-m", "tests.services.warm", str(theirs.fileno())]
    process = subprocess.Popen(command, env=env, cwd=ROOT, pass_fds=[theirs.fileno()], start_new_session=True)
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# ------------------------------------------------------------ the process that forks


def serve(door: socket.socket) -> None:
    """Import, then a child for every command, until nobody can ask any more."""
    main = importlib.import_module("duly.cli.main")
    for name in sorted({f"duly.cli.{module}" for module in main.MODULES.values()} - {"duly.cli.top", "duly.cli.verify"}) + list(LATER):
        importlib.import_module(name)
    gc.freeze()
    if len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("an import has started a thread: nothing can be forked from here")
    path = _without_ours(sys.path)
    # Those who wait for a command are nobody's to wait for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, streams, _, _ = socket.recv_fds(door, MOST_BYTES, 4)
        if not message:
            return
        if os.fork() == 0:
            door.close()
            _accompany(json.loads(message), streams, path)
        for stream in streams:
            os.close(stream)


def _accompany(request: dict[str, Any], streams: Sequence[int], path: Sequence[str]) -> NoReturn:
    """Fork the command, and tell of its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *standard, told = streams
    pid = os.fork()
    if pid == 0:
        os.close(told)
        _become(request, standard, path)
    for stream in standard:
        os.close(stream)
    with contextlib.suppress(BrokenPipeError):
        os.write(told, b"%d\n" % pid)
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):
        os.write(told, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _become(request: dict[str, Any], standard: Sequence[int], path: Sequence[str]) -> NoReturn:
    """Be the command, as the interpreter would run it, to the end."""
    from duly.cli import main

    for ours, given in enumerate(standard):
        os.dup2(given, ours)
        os.close(given)
    env, code = request["env"], 1
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.chdir(request["cwd"])
    sys.path[:] = [os.getcwd(), *filter(None, env.get("PYTHONPATH", "").split(os.pathsep)), *path]
    sys.argv = [str(main.__file__), *request["words"]]
    # Who starts itself again does it by this.
    sys.orig_argv = [sys.executable, "-m", main.__name__, *request["words"]]
    at_once = bool(env.get("PYTHONUNBUFFERED"))
    sys.stdin = io.TextIOWrapper(open(0, "rb"), encoding="utf-8")  # noqa: SIM115 they stay open to the end
    sys.stdout = io.TextIOWrapper(open(1, "wb", buffering=0 if at_once else -1), encoding="utf-8", write_through=at_once)  # noqa: SIM115
    sys.stderr = io.TextIOWrapper(open(2, "wb"), encoding="utf-8", errors="backslashreplace", line_buffering=True)  # noqa: SIM115
    try:
        code = main.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with contextlib.suppress(Exception):
            if sys.stdout is not None:
                sys.stdout.flush()
        os._exit(code)


def _without_ours(path: Sequence[str]) -> list[str]:
    """Where modules are found, without what a command brings itself: its directory and what its environment names."""
    named = set(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    return [place for place in path[1:] if place not in named]


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
