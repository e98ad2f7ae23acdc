"""Payloads that are JSON and cannot be decoded all the same."""

from __future__ import annotations

from dataclasses import dataclass

# What an execution with such a payload dies of.
UNREADABLE = "PayloadUnreadable"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for such a payload: it has a number beyond a double, or a thousand levels."""

    why: str
