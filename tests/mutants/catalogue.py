"""Every mutant, and those of the list that have nothing to be seeded into yet."""

from __future__ import annotations

from tests.mutants.mutant import Unseeded
from tests.mutants.of_decisions import OF_DECISIONS
from tests.mutants.of_hints import OF_HINTS
from tests.mutants.of_roles import OF_ROLES
from tests.mutants.of_the_ledger import OF_THE_LEDGER
from tests.mutants.of_workflows import OF_WORKFLOWS

MUTANTS = (*OF_THE_LEDGER, *OF_DECISIONS, *OF_ROLES, *OF_HINTS, *OF_WORKFLOWS)

UNSEEDED = (Unseeded(12, "an offset is committed before the claim", "the claim by name and the offset are tested with a real broker"),)
