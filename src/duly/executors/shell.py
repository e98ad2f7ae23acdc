"""Commands: an argv list, run without a shell, in a session of its own and with a bare environment.

No argument is ever interpreted: `;`, `$()` and newlines are text. A command gains no
privileges (PR_SET_NO_NEW_PRIVS, inherited from the thread that starts it, so nothing runs
between fork and exec), sees only the environment it is given, reads the payload as JSON
from its standard input, and does not outlive its attempt: when it has exited, what it
left in its process group gets the grace to finish printing and is then killed.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, Any

from duly.domain.ids import execution_text
from duly.domain.instants import to_rfc3339
from duly.domain.target import SHELL_HANDLER
from duly.executors.groups import ProcessGroup, describe_exit
from duly.executors.guard import Guard
from duly.executors.output import Lines, open_pipe
from duly.executors.payload import payload_json
from duly.ports.endings import Failure
from duly.ports.handlers import Attempt, Handler

PR_SET_NO_NEW_PRIVS = 38

LIMITS = {
    "cpu": resource.RLIMIT_CPU,
    "memory": resource.RLIMIT_AS,
    "files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
    "size": resource.RLIMIT_FSIZE,
}
# The memory of a command has secrets in it; nobody should find them in a file.
NO_CORES = {resource.RLIMIT_CORE: 0}

# The host is short of something, or the file is being written: the same command may run later.
SHORTAGES = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY})


def shell_handler(
    *,
    grace: float = 5.0,
    environment: Mapping[str, str] | None = None,
    directory: str | None = None,
    limits: Mapping[str, int] | None = None,
) -> Handler:
    """Run `target.shell` in `directory` with `environment`, `target.env`, the DULY_ variables of the attempt, and nothing else.

    A command that is asked to stop gets SIGTERM, its whole group, and SIGKILL when it is asked again; one whose task is cancelled
    without a reason gets SIGKILL after `grace` seconds. `limits` are what it may use: cpu, memory, files, processes, size.
    """
    shell = _Shell(grace, dict(environment or {}), directory, limits or {})
    return Handler(SHELL_HANDLER, shell.run, shell.close)


class _Shell:
    def __init__(self, grace: float, environment: dict[str, str], directory: str | None, limits: Mapping[str, int]) -> None:
        self._grace = grace
        self._environment = environment
        self._directory = directory
        self._limits = NO_CORES | {LIMITS[name]: most for name, most in limits.items()}
        self._guard = Guard()
        # One thread, because the mark is the thread's: whatever it starts inherits it, and the worker itself stays as it is.
        self._starter = ThreadPoolExecutor(1, "duly-start", initializer=_give_up_new_privileges)

    async def run(self, attempt: Attempt) -> dict[str, Any]:
        argv = attempt.version.spec.target.shell
        if not argv:
            raise Failure("The job has no command.", type="CommandNotFound", retry=False)
        process, cancelled = await self._start(argv, attempt)
        stdout, stderr = Lines(attempt, "info"), Lines(attempt, "error")
        pipes = open_pipe(process.stdout, stdout.feed), open_pipe(process.stderr, stderr.feed)
        group = ProcessGroup(process, *pipes, before_reaping=self._guard.forget)
        try:
            try:
                if cancelled:
                    raise asyncio.CancelledError
                await group.exited.wait()
            except asyncio.CancelledError:
                # Asked to stop, it may take its time: whoever asked cancels again when the time is over, and that kills.
                await group.stop(self._grace if attempt.stop is None else None)
                raise
            status = await group.finish(self._grace)
        finally:
            stdout.finish()
            stderr.finish()
        if status != 0:
            raise Failure(describe_exit(status), type="ExitStatus", detail=stderr.tail or None)
        return {"exitCode": 0, "stdout": stdout.tail}

    async def close(self) -> None:
        self._starter.shutdown(wait=False)
        await asyncio.to_thread(self._guard.close)

    async def _start(self, argv: Sequence[str], attempt: Attempt) -> tuple[subprocess.Popen[bytes], bool]:
        """The process, and whether the attempt was cancelled meanwhile: what has been started must be known to be stopped."""
        starting = asyncio.get_running_loop().run_in_executor(self._starter, self._popen, argv, attempt)
        cancelled = False
        while not starting.done():
            try:
                await asyncio.wait([starting])
            except asyncio.CancelledError:
                cancelled = True
        if cancelled and starting.exception() is not None:
            raise asyncio.CancelledError
        try:
            return starting.result(), cancelled
        except FileNotFoundError as exc:
            if self._directory is not None and exc.filename == self._directory:
                raise Failure(f"The directory for commands, {self._directory}, does not exist.", type="DirectoryNotFound") from None
            raise Failure(f"{argv[0]!r} was not found on this worker.", type="CommandNotFound", retry=False) from None
        except (OSError, ValueError) as exc:
            retry = isinstance(exc, OSError) and exc.errno in SHORTAGES
            raise Failure(f"{argv[0]!r} cannot be run: {exc}", type="CommandNotRunnable", retry=retry) from None

    def _popen(self, argv: Sequence[str], attempt: Attempt) -> subprocess.Popen[bytes]:
        self._guard.start()
        with payload_file(attempt) as stdin:
            process = subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment | attempt.target.env | attempt_environment(attempt),
                cwd=self._directory,
                bufsize=0,
                start_new_session=True,
            )
        self._guard.watch(process.pid)
        _limit(process.pid, self._limits)
        return process


def _limit(pid: int, limits: Mapping[int, int]) -> None:
    """Set from outside, when the command has just begun: nothing of ours runs between fork and exec. Linux only."""
    if sys.platform == "linux":
        # It may already be gone.
        with suppress(ProcessLookupError):
            for kind, most in limits.items():
                hard = resource.prlimit(pid, kind)[1]
                most = most if hard == resource.RLIM_INFINITY else min(most, hard)
                resource.prlimit(pid, kind, (most, most))


def attempt_environment(attempt: Attempt) -> dict[str, str]:
    """The attempt, as a command sees it."""
    return {
        "DULY_EXECUTION_ID": execution_text(attempt.id),
        "DULY_JOB": attempt.version.spec.name,
        "DULY_ATTEMPT": str(attempt.attempt),
        "DULY_FENCE": str(attempt.fence),
        "DULY_IDEMPOTENCY_KEY": attempt.idempotency_key,
        "DULY_SCHEDULED_AT": to_rfc3339(attempt.scheduled_at),
    }


def payload_file(attempt: Attempt) -> IO[bytes]:
    """The payload as a file at its beginning: unlike a pipe it needs nobody to write while the command reads, or does not."""
    file: IO[bytes] = tempfile.TemporaryFile() if sys.platform != "linux" else os.fdopen(os.memfd_create("payload"), "w+b")  # noqa: SIM115
    file.write(payload_json(attempt))
    file.seek(0)
    return file


def _give_up_new_privileges() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
