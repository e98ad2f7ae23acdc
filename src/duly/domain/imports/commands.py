"""Commands of other systems as Duly runs them: an argument list, or a shell when the text needs one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from duly.domain.imports.draft import Decision, name_of

# What only a shell understands: pipes, redirections, variables, patterns, lists, tests, and words that are part of one.
_SHELL_SIGNS = re.compile(r"[|&;<>()$`*?\[\]{}~!#\n]")
_SHELL_WORDS = frozenset({".", "source", "cd", "export", "exec", "if", "for", "while", "test", "[", "ulimit", "umask", "set", "eval"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_RUNNERS = frozenset(
    {
        "bash",
        "sh",
        "zsh",
        "dash",
        "env",
        "flock",
        "nice",
        "ionice",
        "sudo",
        "timeout",
        "chronic",
        "python",
        "python3",
        "perl",
        "ruby",
        "php",
    }
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")

SHELL = Decision(
    "shell", "It needs a shell (sh -c), where a mistake in a value becomes a command. Accept it with --allow-shell, or put it in a script."
)


def needs_a_shell(command: str) -> bool:
    """Whether the text means something else to a shell than to `exec`."""
    bare = re.sub(r"'[^']*'", "''", command)
    if _SHELL_SIGNS.search(re.sub(r'"[^"$`\\]*"', '""', bare)):
        return True
    try:
        words = shlex.split(command)
    except ValueError:
        return True
    return not words or words[0] in _SHELL_WORDS or _ASSIGNMENT.match(words[0]) is not None


def target_of(
    command: str, *, shell: str = "/bin/sh", pool: str = "default", env: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], bool]:
    """The target that runs a command, and whether it takes a shell."""
    takes_shell = needs_a_shell(command)
    argv = [shell, "-c", command] if takes_shell else shlex.split(command)
    return {"pool": pool, "shell": argv} | ({"env": dict(env)} if env else {}), takes_shell


def fitting(variables: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Those variables that a job may have, and the names of the others."""
    kept = {
        name: value for name, value in variables.items() if _NAME.match(name) and not name.upper().startswith("DULY_") and "\0" not in value
    }
    return kept, sorted(variables.keys() - kept.keys())


def name_from(command: str) -> str:
    """A name for a command: its program or script, without directory and ending."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    for before, word in zip(["", *words], words, strict=False):
        if before == "cd":
            continue
        if (
            word in ("&&", "||", ";", "|", "cd", "[", "test", "-x", "-d", "-e", "-n", "!", "exec", ".")
            or _ASSIGNMENT.match(word)
            or word.startswith("-")
        ):
            continue
        path = PurePosixPath(word.rstrip(";"))
        if path.name in _RUNNERS or (
            word.startswith("/") and not path.suffix and path.name in ("", "var", "tmp", "srv", "opt", "home", "system")
        ):
            continue
        if path.name and not path.name.isdigit():
            return name_of(path.stem if path.suffix in (".sh", ".py", ".pl", ".rb", ".php") else path.name)
    return "job"
