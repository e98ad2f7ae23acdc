"""Real `duly` processes: commands that end, and servers that are driven by what they print."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.services import warm

DULY = (sys.executable, "-m", "duly.cli.main")


def environment(home: Path, **more: str) -> dict[str, str]:
    """A surrounding of our own: nothing that the developer has set reaches the command."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DULY_") and name != "NO_COLOR"}
    return {**kept, "DULY_HOME": str(home), "TZ": "UTC", **more}


@dataclass(frozen=True)
class Answer:
    """What a command that has ended printed."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """Standard output as TSV, without its header."""
        return [line.split("\t") for line in self.out.splitlines()[1:]]


def duly(*words: str, env: Mapping[str, str], cwd: Path | None = None, stdin: str | None = None) -> Answer:
    """Run one command to its end, in a process of its own."""
    return Answer(*warm.run(words, env, cwd, stdin or ""))


@dataclass
class Running:
    """A long-running command. Standard output and standard error come as one stream of lines."""

    process: warm.Warm
    home: Path
    lines: list[str] = field(default_factory=list)

    @classmethod
    def start(cls, *words: str, home: Path, cwd: Path | None = None, **more: str) -> Running:
        return cls(warm.Warm(words, environment(home, PYTHONUNBUFFERED="1", **more), cwd), home)

    def until(self, text: str) -> str:
        """Read until a line contains the text; the line."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if text in line:
                return line.rstrip("\n")
        raise AssertionError(f"it ended without saying {text!r}:\n" + "\n".join(self.lines))

    def ready(self) -> Running:
        """Read until it says that it is up."""
        self.until("Ctrl-C stops it")
        return self

    @property
    def printed(self) -> str:
        return "\n".join(self.lines)

    @property
    def url(self) -> str:
        """The address that it printed."""
        return next(line.split()[1] for line in self.lines if line.startswith("  api "))

    @property
    def client_environment(self) -> dict[str, str]:
        return environment(self.home, DULY_URL=self.url)

    def duly(self, *words: str, stdin: str | None = None) -> Answer:
        """Run a command against it."""
        return duly(*words, env=self.client_environment, stdin=stdin)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """Read what is left and wait for its end."""
        assert self.process.stdout is not None
        self.lines += [line.rstrip("\n") for line in self.process.stdout]
        return self.process.wait(timeout=60)

    def kill(self) -> None:
        """No goodbye."""
        self.process.kill()
        self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()


def lines_of(text: str) -> Sequence[str]:
    return [line.rstrip() for line in text.splitlines()]
