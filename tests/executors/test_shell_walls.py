"""What keeps a command in its place: text stays text, secrets stay hidden, limits hold."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from duly import config
from duly.compose.work import build_registry
from duly.domain.errors import Invalid
from duly.domain.job import Target
from duly.domain.redaction import Veil
from duly.domain.secrets import MASK
from duly.executors.output import TAIL
from duly.executors.shell import shell_handler
from duly.ports.endings import Failure
from duly.ports.handlers import Handler
from tests.executors.attempts import attempt_of, shell

CANARY = "canary-91c04d7f2a"
INJECTIONS = [
    "; touch pwned", "&& touch pwned", "|| touch pwned", "| tee pwned", "& touch pwned", "$(touch pwned)", "`touch pwned`", "${IFS}touch",
    "a\ntouch pwned", "a\r\ntouch pwned", "> pwned", ">> pwned", "< /etc/passwd", "2>pwned", "'; touch pwned; '", '"; touch pwned; "', "\\",
    "*", "?", "[a-z]", "{a,b}", "~", "~root", "$HOME", "$0", "$$", "!!", "#comment", "--help", "--version", "-c", "-e", "--", "@file",
    "%s%n", "%PATH%", "\t", "", " ", "a b", "é", "\u202e", "\x1b[31m", "-oProxyCommand=touch pwned", "() { :; }; touch pwned",
]  # fmt: skip


@pytest.fixture
async def handler(tmp_path: Path) -> AsyncIterator[Handler]:
    made = shell_handler(environment={"PATH": os.defpath}, directory=str(tmp_path), limits={"files": 64, "cpu": 7, "memory": 1 << 30})
    yield made
    assert made.close is not None
    await made.close()


async def test_no_argument_is_more_than_text(handler: Handler, tmp_path: Path) -> None:
    result = await handler.run(shell(sys.executable, "-c", "import sys; print(ascii(sys.argv[1:]))", *INJECTIONS))

    assert len(INJECTIONS) >= 40
    assert result["stdout"] == f"{INJECTIONS!a}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("injection", [text for text in INJECTIONS if text.strip() and "\0" not in text])
async def test_nor_is_the_name_of_a_command(handler: Handler, tmp_path: Path, injection: str) -> None:
    with pytest.raises(Failure) as failed:
        await handler.run(shell(f"echo {injection}"))

    assert (failed.value.type, failed.value.retry) == ("CommandNotFound", False)
    assert list(tmp_path.iterdir()) == []


async def test_nor_is_a_variable(handler: Handler, tmp_path: Path) -> None:
    variables = {f"V{nth}": text for nth, text in enumerate(INJECTIONS)}
    attempt = attempt_of(
        Target(
            shell=(sys.executable, "-c", "import os; print(ascii({k: os.environ[k] for k in os.environ if k[0] == 'V'}))"), env=variables
        )
    )

    assert (await handler.run(attempt))["stdout"] == f"{variables!a}\n"
    assert list(tmp_path.iterdir()) == []


async def test_a_job_cannot_speak_for_duly(handler: Handler) -> None:
    attempt = attempt_of(Target(shell=("sh", "-c", "echo $DULY_FENCE $PATH"), env={"DULY_FENCE": "99", "PATH": "/bin:/usr/bin"}))

    assert (await handler.run(attempt))["stdout"] == "42 /bin:/usr/bin\n"


async def test_what_a_command_prints_of_its_secrets_is_hidden(handler: Handler) -> None:
    attempt = attempt_of(Target(shell=("sh", "-c", 'echo "token $TOKEN"; echo "no $TOKEN" >&2; exit 3')))
    attempt.extras.veil = Veil([CANARY])
    attempt.extras.target = Target(shell=attempt.version.spec.target.shell, env={"TOKEN": CANARY})

    with pytest.raises(Failure) as failed:
        await handler.run(attempt)

    assert sorted(attempt.lines()) == [("error", f"no {MASK}"), ("info", f"token {MASK}")]
    assert failed.value.detail == f"no {MASK}\n"


@pytest.mark.parametrize("length", range(TAIL - 20, TAIL + 2, 3))
async def test_the_end_of_the_output_begins_with_no_half_of_a_secret(handler: Handler, length: int) -> None:
    attempt = attempt_of(Target(shell=(sys.executable, "-c", f"print({CANARY!r} * 3, 'x' * {length}, sep='', end='')")))
    attempt.extras.veil = Veil([CANARY])

    printed = (await handler.run(attempt))["stdout"]

    assert len(printed) <= TAIL + len(MASK)
    assert not any(CANARY[nth:] in printed for nth in range(len(CANARY) - 4))


async def test_limits_hold_and_no_core_is_written(handler: Handler, tmp_path: Path) -> None:
    program = (
        "import resource, time\n"
        # Set from outside, a moment after the start.
        "while resource.getrlimit(resource.RLIMIT_AS)[0] != 1 << 30: time.sleep(0.01)\n"
        "print(*(resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_CORE, resource.RLIMIT_NOFILE, resource.RLIMIT_CPU)))"
    )

    assert (await handler.run(shell(sys.executable, "-c", program)))["stdout"] == "0 64 7\n"
    assert resource.getrlimit(resource.RLIMIT_CPU)[0] != 7, "the worker's own limits are as they were"
    with pytest.raises(Failure, match="killed by signal 6"):
        await handler.run(shell("sh", "-c", "sleep 0.1; kill -ABRT $$"))
    assert list(tmp_path.iterdir()) == []


def test_limits_are_read_with_their_sizes() -> None:
    settings = config.load({"DULY_SHELL_LIMITS": "cpu=60, memory=512M,size=2g, processes=1k"})

    assert settings.shell_limits == {"cpu": 60, "memory": 512 << 20, "size": 2 << 30, "processes": 1024}
    for text in ("cpu", "cpu=", "cpu=-1", "disk=1", "memory=1T", "cpu=x", "cpu=0", "memory=M"):
        with pytest.raises(Invalid) as refused:
            config.load({"DULY_SHELL_LIMITS": text})
        assert refused.value.field == "DULY_SHELL_LIMITS"


@pytest.mark.parametrize(
    ("environment", "allowed"),
    [
        ({}, False),
        ({"DULY_SHELL_POOLS": "batch"}, False),
        ({"DULY_SHELL_POOLS": "batch, default"}, True),
        ({"DULY_SHELL_POOLS": "*"}, False),
        ({"DULY_SHELL_POOLS": "batch", "DULY_POOL": "batch"}, True),
    ],
)
async def test_commands_are_off_unless_the_pool_is_named(environment: dict[str, str], allowed: bool) -> None:
    registry = build_registry(config.load(environment), None, None)

    assert ("duly.shell" in registry.names()) is allowed
    for handler in registry.by_name.values():
        if handler.close is not None:
            await handler.close()
