"""A command that need not import anything first says and does what a new one does."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.processes import DULY, environment
from tests.services import warm


@pytest.mark.parametrize(
    "words",
    [
        ("version",),
        ("cron", "30 2 * * *", "--tz", "Europe/Berlin", "--after", "2026-03-28"),
        ("help", "E204"),
        ("nonsense",),
        ("cron", "61 * * * *"),
        ("config", "show", "--origin"),
    ],
    ids=" ".join,
)
def test_it_answers_as_a_new_process_does(words: tuple[str, ...], tmp_path: Path) -> None:
    env = environment(tmp_path / "home", DULY_PORT="4711", TZ="Asia/Kathmandu")

    new = subprocess.run([*DULY, *words], env=env, cwd=tmp_path, input="", capture_output=True, text=True)

    assert warm.run(words, env, tmp_path, "") == (new.returncode, new.stdout, new.stderr)


def test_it_is_a_process_that_signals_reach(tmp_path: Path) -> None:
    command = warm.Warm(["up", "--port", "0"], environment(tmp_path / "home", PYTHONUNBUFFERED="1"), tmp_path)
    assert command.stdout is not None

    with command.stdout as lines:
        assert any("Ctrl-C stops it" in line for line in lines)
        assert Path(f"/proc/{command.pid}/cwd").resolve() == tmp_path
        assert command.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            command.wait(timeout=0.01)
        command.kill()

        assert command.wait(timeout=60) == -signal.SIGKILL
    # It is over: nobody is hit by a signal that comes too late.
    command.terminate()
