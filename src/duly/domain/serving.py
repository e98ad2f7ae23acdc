"""Who may run what: a worker offers a pool, labels and handlers; a route needs one of each."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from duly.domain.errors import Invalid
from duly.domain.job import LABEL, NAME, POOL, satisfies


@dataclass(frozen=True, slots=True)
class Needs:
    """What a route asks of a worker; `labels` in their canonical text."""

    pool: str
    labels: str
    handler: str


class Misfit(StrEnum):
    """Which part of a route a worker cannot serve."""

    POOL = "pool"
    LABELS = "labels"
    HANDLER = "handler"


def misfits(pool: str, labels: dict[str, str], handlers: Collection[str], needs: Needs) -> frozenset[Misfit]:
    """What keeps a worker from a route; nothing: it serves it. Workers choose their routes by this, and `why` explains by it."""
    found: set[Misfit] = set()
    if pool != needs.pool:
        found.add(Misfit.POOL)
    if not satisfies(labels, needs.labels):
        found.add(Misfit.LABELS)
    if needs.handler not in handlers:
        found.add(Misfit.HANDLER)
    return frozenset(found)


def check_worker(name: str, pool: str, labels: dict[str, str], handlers: Collection[str]) -> None:
    """Refuse what no worker can be called or offer: no job could ever ask for it."""
    for field, said in (("name", [name]), ("handlers", handlers)):
        for one in said:
            if not NAME.match(one):
                raise Invalid("DULY-E114", f"{one[:40]!r} is not a name.", field=field)
    if not POOL.match(pool):
        raise Invalid("DULY-E114", f"{pool[:40]!r} is not a pool name.", field="pool", hint="1 to 64 letters, digits and . _ -")
    for key, value in labels.items():
        if not LABEL.match(key) or (value and not LABEL.match(value)):
            raise Invalid("DULY-E114", f"{key[:40]!r} is not a label.", field="labels", hint='For example {"region": "eu", "gpu": ""}.')


def missing_labels(offered: dict[str, str], labels: str) -> list[str]:
    """The labels of a route that a worker does not have, in their order."""
    return [label for label in labels.split(",") if label and not satisfies(offered, label)]
