"""Every mutant, and those of the list that have nothing to be seeded into yet."""

from __future__ import annotations

from tests.mutants.mutant import Unseeded
from tests.mutants.of_decisions import OF_DECISIONS
from tests.mutants.of_roles import OF_ROLES
from tests.mutants.of_the_ledger import OF_THE_LEDGER

MUTANTS = (*OF_THE_LEDGER, *OF_DECISIONS, *OF_ROLES)

UNSEEDED = (
    Unseeded(12, "an offset is committed before the claim", "there is no Kafka transport yet"),
    Unseeded(
        13, "the hydrator deletes ids that it does not know", "there is no Redis index yet; the one in memory holds instants, not ids"
    ),
    Unseeded(14, "only what Redis knows is dispatched", "there is no Redis index yet"),
    Unseeded(19, "a join of workflow steps counts without a lock", "there are no workflows yet"),
)
