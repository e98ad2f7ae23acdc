"""Tenants on the wire. A quota that is null, or left out, is none."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, structs

from duly.domain.limits import MOST_SLOTS
from duly.domain.tenants import DEFAULT_WEIGHT, LARGEST_PAYLOAD, LARGEST_WEIGHT, LONGEST_RETENTION, MOST, Quotas, Tenant, Usage
from duly.wire.keys import NewKeyView
from duly.wire.shapes import Shape, View, pattern, shown

TenantName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        description="Letters, digits and . _ -, starting with a letter or digit.",
        examples=["acme"],
        extra_json_schema=pattern("^[A-Za-z0-9][A-Za-z0-9._-]*$"),
    ),
]
Weight = Annotated[int, Meta(ge=1, le=LARGEST_WEIGHT, description="Its share of a busy fleet, beside the weights of the others.")]
Many = Annotated[int, Meta(ge=0, le=MOST)]
Slots = Annotated[int, Meta(ge=1, le=MOST_SLOTS)]
Bytes = Annotated[int, Meta(ge=2, le=LARGEST_PAYLOAD)]
Days = Annotated[int, Meta(ge=1, le=LONGEST_RETENTION)]


class QuotasShape(Shape, kw_only=True):
    """What a tenant may use: live jobs, executions that wait, that run at once, that come in within a minute, the bytes of one
    payload, and for how many days what has finished is kept."""

    max_jobs: Many | None = None
    max_queued: Many | None = None
    max_concurrent: Slots | None = None
    max_fires_per_minute: Slots | None = None
    max_payload_bytes: Bytes | None = None
    retention_days: Days | None = None


class TenantShape(Shape, kw_only=True):
    """A tenant to be made."""

    name: TenantName
    weight: Weight = DEFAULT_WEIGHT
    quotas: QuotasShape | None = None


class TenantChangeShape(Shape, kw_only=True):
    """What becomes of a tenant: what is left out stays; quotas are replaced as a whole."""

    weight: Weight | None = None
    quotas: QuotasShape | None = None


class QuotasView(View, kw_only=True):
    """What a tenant may use; null: as much as there is."""

    max_jobs: int | None
    max_queued: int | None
    max_concurrent: int | None
    max_fires_per_minute: int | None
    max_payload_bytes: int | None
    retention_days: int | None


class UseView(View, kw_only=True):
    """How much of something is used, beside its quota."""

    used: int
    quota: int | None


class UsageView(View, kw_only=True):
    """What a tenant uses now: live jobs, executions that wait and that run, and what came in within the last minute."""

    jobs: UseView
    queued: UseView
    running: UseView
    fires_per_minute: UseView


class TenantView(View, kw_only=True):
    """A tenant as it is read."""

    name: str
    weight: int
    quotas: QuotasView
    version: int
    created_at: str | None
    # Where it lives, in an installation that has more than one store.
    store: str | None = None


class TenantDetailView(TenantView, kw_only=True):
    """A tenant with what it uses."""

    usage: UsageView


class NewTenantView(TenantView, kw_only=True):
    """A tenant that was just made, with its first key: keep its secret, it is not shown again."""

    key: NewKeyView


def quotas_of(shape: QuotasShape) -> Quotas:
    """The quotas, checked."""
    return Quotas(**structs.asdict(shape))


def tenant_view(tenant: Tenant) -> TenantView:
    """A tenant as the wire shows it. One that was there from the beginning has no time of its making."""
    quotas = tenant.quotas
    return TenantView(
        name=tenant.name,
        weight=tenant.weight,
        quotas=QuotasView(
            max_jobs=quotas.max_jobs,
            max_queued=quotas.max_queued,
            max_concurrent=quotas.max_concurrent,
            max_fires_per_minute=quotas.max_fires_per_minute,
            max_payload_bytes=quotas.max_payload_bytes,
            retention_days=quotas.retention_days,
        ),
        version=tenant.version,
        created_at=shown(tenant.created_at) if tenant.created_at else None,
        store=tenant.store,
    )


def detail_view(tenant: Tenant, usage: Usage) -> TenantDetailView:
    """The same with what it uses."""
    quotas = tenant.quotas
    return TenantDetailView(
        **structs.asdict(tenant_view(tenant)),
        usage=UsageView(
            jobs=UseView(used=usage.jobs, quota=quotas.max_jobs),
            queued=UseView(used=usage.queued, quota=quotas.max_queued),
            running=UseView(used=usage.running, quota=quotas.max_concurrent),
            fires_per_minute=UseView(used=usage.fires, quota=quotas.max_fires_per_minute),
        ),
    )


def new_view(tenant: Tenant, key: NewKeyView) -> NewTenantView:
    """The same with its first key."""
    return NewTenantView(**structs.asdict(tenant_view(tenant)), key=key)
