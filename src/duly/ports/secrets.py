"""Secrets, as a worker reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from duly.domain.secrets import Reference


class Secrets(Protocol):
    """Where the secrets are that payloads and definitions name."""

    async def read(self, reference: Reference) -> str:
        """The value, as it is now. Raises Failure that names the reference and never the value: not to be retried when the
        worker may not read it or it is not there, to be retried when reading broke."""

    def hide(self, values: Iterable[str]) -> None:
        """These are secrets too: they came with a payload. No log of this process shows them from now on."""
