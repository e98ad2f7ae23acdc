"""Who asks: a tenant and a role, both taken from the key and from nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from duly.domain.errors import Invalid


class Role(IntEnum):
    """What a key may do. Each of VIEWER, OPERATOR and ADMIN may do what the one before it may; WORKER stands apart."""

    WORKER = 0
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
    # For the audit trail: how it came in (`dashboard` with a session, `proxy` by the word of a proxy, with a key as that one says),
    # under which id it asked, and why, in its own words.
    channel: str = "api"
    request_id: str | None = None
    reason: str | None = None
    # The key and those that it was rotated from; who acts as a worker must be of the family that registered it. Without a key: none.
    family: str = ""
    # What a worker's key may serve; None: every pool.
    pools: frozenset[str] | None = None

    @property
    def has_key(self) -> bool:
        """Whether it showed a key itself, and not a session or a proxy's word."""
        return self.family != ""

    def may_serve(self, pool: str) -> bool:
        """Whether its key opens this pool."""
        return self.pools is None or pool in self.pools

    def may(self, needed: Role) -> bool:
        """Whether the role suffices. A worker's key opens the worker protocol alone; besides it only an ADMIN key does, for a laptop."""
        if needed is Role.WORKER:
            return self.role in (Role.WORKER, Role.ADMIN)
        return self.role >= needed


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody whom the application around the dashboard has logged in, and what they may do in it: "viewer", "operator" or "admin"."""

    name: str
    role: str = "viewer"
    tenant: str = "default"

    def __post_init__(self) -> None:
        if self.role not in VISITING:
            raise Invalid("DULY-E106", f"must be one of {', '.join(VISITING)}.", field="role")


VISITING = {"viewer": Role.VIEWER, "operator": Role.OPERATOR, "admin": Role.ADMIN}

# The ways by which a caller may say it comes. It is a claim: what proves who it is, is the key.
CHANNELS = ("api", "cli", "sdk", "dashboard", "proxy")
# What a server does at its start for whoever started it.
BY_SERVER = "server"

DEFAULT_TENANT = "default"
DEFAULT_TENANT_NUMBER = 1
