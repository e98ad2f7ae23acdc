"""`$(NAME)` in commands, arguments and variables of containers, as the kubelet expands it before anything runs.

A name that is known stands for its value, an unknown one stays as it is written (a shell may still run it as a command), and `$$` is
one `$`. A variable may use those that are listed before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*\Z")
# What a cluster adds to every pod, for each service that it has.
_OF_SERVICES = re.compile(r"[A-Z0-9_]+_(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT(?:_[A-Z0-9_]+)?)\Z")


class Variables:
    """The variables of one container: those whose value stands in the manifest, and the names of the others."""

    def __init__(self, listed: Iterable[Mapping[str, Any]], *, has_sources: bool) -> None:
        """`has_sources`: it takes in whole Secrets or ConfigMaps too (envFrom), so that a name may be known to the cluster alone."""
        self.literal: dict[str, str] = {}
        self.elsewhere: set[str] = set()
        # What was used and is not known here, in the order in which it was met.
        self.missing: dict[str, None] = {}
        self._has_sources = False
        for one in listed:
            name = str(one.get("name"))
            self.literal.pop(name, None)
            self.elsewhere.discard(name)
            if one.get("valueFrom") is not None:
                self.elsewhere.add(name)
                continue
            text = "" if one.get("value") is None else str(one["value"])
            value, is_whole = self._expanded(text)
            self.literal[name] = value
            if not is_whole:
                self.elsewhere.add(name)
        # A variable may not use what envFrom brings; a command may.
        self._has_sources = has_sources

    def expand(self, words: Sequence[str]) -> list[str]:
        """The words of a command with what is known in place."""
        return [self._expanded(word)[0] for word in words]

    def _expanded(self, text: str) -> tuple[str, bool]:
        """The text, and whether every value in it is known."""
        is_whole = True

        def replaced(match: re.Match[str]) -> str:
            nonlocal is_whole
            name = match[1]
            if name is None:
                return "$"
            if name not in self.elsewhere and name in self.literal:
                return self.literal[name]
            if name in self.elsewhere or (self._has_sources and _NAME.match(name)) or _OF_SERVICES.match(name):
                self.missing[name] = None
                is_whole = False
            return match[0]

        # Only up to the last bracket that closes is there a reference to look for, so that no text makes this slow.
        end = text.rfind(")") + 1
        return _REFERENCE.sub(replaced, text[:end]) + text[end:].replace("$$", "$"), is_whole
