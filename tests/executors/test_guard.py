from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterator

import pytest

from duly.executors.guard import Guard


@pytest.fixture
def command() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


@pytest.fixture
def guard() -> Iterator[Guard]:
    made = Guard()
    yield made
    made.close()


def test_what_is_watched_when_the_worker_goes_is_killed(command: subprocess.Popen[bytes], guard: Guard) -> None:
    guard.watch(command.pid)

    guard.close()

    assert command.wait(5) == -signal.SIGKILL


def test_what_was_forgotten_is_left_alone(command: subprocess.Popen[bytes], guard: Guard) -> None:
    guard.watch(command.pid)
    guard.forget(command.pid)

    guard.close()

    assert command.poll() is None


def test_a_guard_that_was_killed_is_replaced_and_told_everything(command: subprocess.Popen[bytes], guard: Guard) -> None:
    guard.watch(command.pid)
    assert guard._process is not None
    os.kill(guard._process.pid, signal.SIGKILL)
    pidfd = os.pidfd_open(guard._process.pid)
    select.select([pidfd], [], [], 5)
    os.close(pidfd)

    guard.start()
    guard.close()

    assert command.wait(5) == -signal.SIGKILL


def test_a_guard_ignores_the_signals_that_ask_everybody_to_stop(command: subprocess.Popen[bytes], guard: Guard) -> None:
    guard.watch(command.pid)
    other = subprocess.Popen(["true"])
    other.wait()
    guard.watch(other.pid)  # already gone: nothing to kill
    assert guard._process is not None

    guard._process.terminate()
    guard.close()

    assert command.wait(5) == -signal.SIGKILL
