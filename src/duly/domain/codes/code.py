"""What a code is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """One code: its HTTP status, a title, and the way out."""

    code: str
    status: int
    title: str
    fix: str
