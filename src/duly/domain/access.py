"""Who asks: a tenant and a role, both taken from the key and from nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Role(IntEnum):
    """What a key may do."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True)
class Actor:
    """The caller of a use case."""

    tenant: int
    tenant_name: str
    role: Role
    key_id: str

    def may(self, needed: Role) -> bool:
        """Whether the role suffices."""
        return self.role >= needed


DEFAULT_TENANT = "default"
DEFAULT_TENANT_NUMBER = 1
