from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from duly.domain.ids import execution_text
from duly.domain.lifecycle import Outcome
from duly.domain.logs import MOST_BYTES, MOST_LINES
from duly.executors.shell import shell_handler
from duly.ports.endings import Failure
from duly.ports.handlers import Attempt, Handler
from tests.executors.attempts import DUE, shell

ENVIRONMENT = {"PATH": os.defpath, "LANG": "C.UTF-8"}


@pytest.fixture
async def handler() -> AsyncIterator[Handler]:
    made = shell_handler(grace=10, environment=ENVIRONMENT, directory=None)
    yield made
    assert made.close is not None
    await made.close()


async def failure_of(handler: Handler, attempt: Attempt) -> Failure:
    with pytest.raises(Failure) as failed:
        await handler.run(attempt)
    return failed.value


def has_ended(pidfd: int, seconds: float = 5) -> bool:
    """Whether the process ends within the time; a zombie that nobody has reaped has ended."""
    try:
        return bool(select.select([pidfd], [], [], seconds)[0])
    finally:
        os.close(pidfd)


async def test_output_becomes_log_lines_and_the_result(handler: Handler) -> None:
    attempt = shell("sh", "-c", "echo one; echo two >&2; printf three")

    result = await handler.run(attempt)

    assert result == {"exitCode": 0, "stdout": "one\nthree"}
    assert sorted(attempt.lines()) == [("error", "two"), ("info", "one"), ("info", "three")]


async def test_arguments_are_text_and_nothing_else(handler: Handler) -> None:
    arguments = ["; echo pwned", "$(id)", "`id`", "a\nb", "--help", "*", "~", "$HOME", "| cat", "é"]

    result = await handler.run(shell(sys.executable, "-c", "import sys; print(ascii(sys.argv[1:]))", *arguments))

    assert result["stdout"] == f"{arguments!a}\n"


async def test_a_command_sees_only_the_environment_that_it_is_given(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_WORKER", "canary")
    attempt = shell("env")

    result = await handler.run(attempt)

    assert dict(line.split("=", 1) for line in result["stdout"].splitlines()) == ENVIRONMENT | {
        "DULY_EXECUTION_ID": execution_text(attempt.id),
        "DULY_JOB": "nightly",
        "DULY_ATTEMPT": "1",
        "DULY_FENCE": "42",
        "DULY_IDEMPOTENCY_KEY": "acme/nightly/2026-01-01T00:00:00Z",
        "DULY_SCHEDULED_AT": "2026-01-01T00:00:00Z",
    }
    assert attempt.due_at == DUE


@pytest.mark.parametrize("payload", [{"region": "eu", "name": "Zoë"}, [1, None], {"long": "x" * 300_000}, 0])
async def test_the_payload_is_on_standard_input(handler: Handler, tmp_path: Path, payload: object) -> None:
    await handler.run(shell("cp", "/dev/stdin", str(tmp_path / "copy"), payload=payload))

    assert msgspec.json.decode((tmp_path / "copy").read_bytes()) == payload


async def test_without_a_payload_standard_input_is_an_empty_object(handler: Handler) -> None:
    assert (await handler.run(shell("cat")))["stdout"] == "{}"


async def test_a_command_that_never_reads_its_input_succeeds(handler: Handler) -> None:
    assert (await handler.run(shell("true", payload="x" * 1_000_000)))["exitCode"] == 0


async def test_another_exit_status_fails_with_the_end_of_the_error_output(handler: Handler) -> None:
    failure = await failure_of(handler, shell("sh", "-c", "yes error | head -n 5000 >&2; echo broken >&2; exit 3"))

    assert (failure.type, str(failure), failure.retry) == ("ExitStatus", "exited with status 3", True)
    assert failure.detail is not None
    assert failure.detail.endswith("error\nbroken\n")
    assert len(failure.detail) == 4096


async def test_a_signal_is_named(handler: Handler) -> None:
    assert str(await failure_of(handler, shell("sh", "-c", "kill -9 $$"))) == "was killed by signal 9 (SIGKILL)"


async def test_a_command_that_is_not_there_is_not_tried_again(handler: Handler) -> None:
    failure = await failure_of(handler, shell("no-such-command"))

    assert (failure.type, failure.retry) == ("CommandNotFound", False)
    assert "no-such-command" in str(failure)


async def test_a_cancel_is_not_swallowed_when_the_command_could_not_start(handler: Handler) -> None:
    task = asyncio.create_task(handler.run(shell("no-such-command")))
    await asyncio.sleep(0)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("argv", [["/etc"], ["/etc/passwd"], ["echo", "a\0b"], ["echo", "x" * 3_000_000]])
async def test_a_command_that_cannot_run_is_not_tried_again(handler: Handler, argv: list[str]) -> None:
    failure = await failure_of(handler, shell(*argv))

    assert (failure.type, failure.retry) == ("CommandNotRunnable", False)


async def test_a_missing_directory_is_not_taken_for_a_missing_command(tmp_path: Path) -> None:
    handler = shell_handler(environment=ENVIRONMENT, directory=str(tmp_path / "gone"))

    assert (await failure_of(handler, shell("true"))).type == "DirectoryNotFound"
    assert handler.close is not None
    await handler.close()


async def test_commands_run_in_the_given_directory(tmp_path: Path) -> None:
    handler = shell_handler(environment=ENVIRONMENT, directory=str(tmp_path))

    assert (await handler.run(shell("pwd")))["stdout"] == f"{tmp_path.resolve()}\n"
    assert handler.close is not None
    await handler.close()


async def test_a_flood_of_output_is_bounded_and_says_so(handler: Handler) -> None:
    attempt = shell("sh", "-c", "yes | head -n 100000; echo the end")

    result = await handler.run(attempt)

    lines = attempt.lines()
    assert len(lines) == MOST_LINES + 1
    assert lines[-1][0] == "warning"
    assert result["stdout"].endswith("y\nthe end\n")


async def test_one_endless_line_is_bounded_too(handler: Handler) -> None:
    attempt = shell("sh", "-c", "head -c 5000000 /dev/zero")

    await handler.run(attempt)

    assert sum(len(message) for level, message in attempt.lines() if level == "info") <= MOST_BYTES
    assert all("\0" not in message for _, message in attempt.lines())


async def test_bytes_that_are_no_text_are_replaced(handler: Handler) -> None:
    attempt = shell("printf", r"a\377b\000c\r\n")

    await handler.run(attempt)

    assert attempt.lines() == [("info", "a\ufffdb\ufffdc")]


async def test_cancel_asks_the_command_and_its_children_to_stop(handler: Handler) -> None:
    attempt = shell("sh", "-c", 'trap "echo bye; exit 1" TERM; sleep 600 & echo "pid $!"; wait')
    task = asyncio.create_task(handler.run(attempt))
    grandchild = os.pidfd_open(int(await attempt.line("pid ")))

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ("info", "bye") in attempt.lines()
    assert has_ended(grandchild)


async def test_cancel_kills_a_command_that_does_not_listen_and_its_children() -> None:
    handler = shell_handler(grace=0.05, environment=ENVIRONMENT)
    attempt = shell("sh", "-c", """trap "" TERM; sh -c 'trap "" TERM; echo "pid $$"; sleep 600; sleep 600' & while :; do wait; done""")
    task = asyncio.create_task(handler.run(attempt))
    grandchild = os.pidfd_open(int(await attempt.line("pid ")))

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert has_ended(grandchild)
    assert handler.close is not None
    await handler.close()


async def test_a_command_that_is_asked_takes_its_time_until_it_is_asked_again() -> None:
    impatient = shell_handler(grace=0, environment=ENVIRONMENT)
    attempt = shell("sh", "-c", "trap 'echo asked' TERM; echo ready; while true; do sleep 0.05; done")
    task = asyncio.create_task(impatient.run(attempt))
    await attempt.line("ready")

    attempt.stop = Outcome.CANCELLED
    task.cancel()
    await attempt.line("asked")
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert impatient.close is not None
    await impatient.close()


async def test_a_second_cancel_cuts_the_grace_short(handler: Handler) -> None:
    attempt = shell("sh", "-c", 'trap "echo asked" TERM; echo ready; while :; do sleep 0.01; done')
    task = asyncio.create_task(handler.run(attempt))
    await attempt.line("ready")

    task.cancel()
    await attempt.line("asked")
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)


async def test_a_program_below_a_shell_gets_the_grace_to_clean_up(handler: Handler) -> None:
    cleaning = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
try:
    os.write(1, b"ready\\n")
    time.sleep(600)
finally:
    time.sleep(0.1)
    os.write(1, b"cleaned up\\n")
"""
    attempt = shell("sh", "-c", '"$@"; true', "sh", sys.executable, "-c", cleaning)
    task = asyncio.create_task(handler.run(attempt))
    await attempt.line("ready")

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ("info", "cleaned up") in attempt.lines()


async def test_a_cancel_before_the_start_leaves_nothing_behind(handler: Handler) -> None:
    already = children()
    attempt = shell("sh", "-c", "echo $$; sleep 600")
    task = asyncio.create_task(handler.run(attempt))
    await asyncio.sleep(0)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert len(children() - already) <= 1  # the guard


async def test_what_a_command_leaves_behind_ends_with_it(handler: Handler, tmp_path: Path) -> None:
    """The one left behind holds a FIFO open for writing and has given up its output, so only its end closes the FIFO."""
    os.mkfifo(tmp_path / "life")
    life = os.open(tmp_path / "life", os.O_RDONLY | os.O_NONBLOCK)

    await handler.run(shell("sh", "-c", 'exec 3>"$1"; sleep 600 >/dev/null 2>&1 &', "sh", str(tmp_path / "life")))

    os.set_blocking(life, True)
    assert await asyncio.wait_for(asyncio.to_thread(os.read, life, 1), 5) == b""
    os.close(life)


async def test_what_is_left_behind_may_print_its_last_lines(handler: Handler) -> None:
    attempt = shell("sh", "-c", "(sleep 0.1; echo late) &")

    await handler.run(attempt)

    assert attempt.lines() == [("info", "late")]


async def test_no_zombies_and_no_descriptors_are_left(handler: Handler) -> None:
    already = children()
    await handler.run(shell("true"))
    before = len(os.listdir("/proc/self/fd"))

    for _ in range(5):
        await handler.run(shell("true"))
        await failure_of(handler, shell("false"))
        await failure_of(handler, shell("no-such-command"))

    assert len(os.listdir("/proc/self/fd")) == before
    assert len(children() - already) == 1  # the guard


async def test_a_command_leads_its_own_session_and_gains_no_privileges(handler: Handler) -> None:
    own = Path("/proc/self/status").read_text().partition("NoNewPrivs:")[2][:2]

    result = await handler.run(shell("sh", "-c", "grep NoNewPrivs /proc/self/status; cut -d' ' -f6 /proc/$$/stat; echo $$"))

    privileges, session, pid = result["stdout"].splitlines()
    assert privileges.split() == ["NoNewPrivs:", "1"]
    assert session == pid
    assert own == Path("/proc/self/status").read_text().partition("NoNewPrivs:")[2][:2]


async def test_a_command_dies_with_its_worker_and_so_do_its_children(tmp_path: Path) -> None:
    program = """
import asyncio, os
from duly.executors.shell import shell_handler
from tests.executors.attempts import shell

async def main():
    attempt = shell("sh", "-c", 'sleep 600 & echo "pid $!"; wait')
    task = asyncio.create_task(shell_handler(environment={"PATH": os.defpath}).run(attempt))
    print(await attempt.line("pid "), flush=True)
    await task

asyncio.run(main())
"""
    worker = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env={"PYTHONPATH": os.pathsep.join(sys.path)})
    assert worker.stdout is not None
    with worker.stdout:
        grandchild = os.pidfd_open(int(worker.stdout.readline()))

    worker.send_signal(signal.SIGKILL)
    worker.wait()

    assert has_ended(grandchild)


async def test_uvloop_runs_and_stops_commands_too() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        handler = shell_handler(environment=ENVIRONMENT)
        assert (await handler.run(shell("echo", "hello")))["stdout"] == "hello\n"
        attempt = shell("sh", "-c", "echo ready; sleep 600")
        task = asyncio.create_task(handler.run(attempt))
        await attempt.line("ready")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert handler.close is not None
        await handler.close()

    await asyncio.to_thread(uvloop.run, main())


def children() -> set[str]:
    """The child processes of this one, zombies included; a server that other tests have started is among them."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if stat.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                found.add(stat.parent.name)
    return found
