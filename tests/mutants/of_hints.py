"""Bugs that make a hint more than a hint: an index that is believed, or that takes away what others put in."""

from __future__ import annotations

from tests.mutants.mutant import Layer, Mutant

_INDEX = "conformance/test_hot_index.py::"
_HEADS = "conformance/test_ready.py::TestHeads::"

OF_HINTS = (
    Mutant(
        name="filling-the-index-deletes-what-it-does-not-know",
        seeded=13,
        breaks="I19",
        path="adapters/redis/hot_index.py",
        old="  if kind ~= 'zset' and kind ~= 'none' then redis.call('DEL', key) end\n",
        new="  if stamp ~= '' then redis.call('DEL', key) end\n",
        layer=Layer.CONFORMANCE,
        tests=(f"{_INDEX}TestEvery::test_filling_takes_nothing_away_that_was_added[redis]",),
    ),
    Mutant(
        name="only-what-the-index-knows-is-dispatched",
        seeded=14,
        breaks="I7, I19",
        path="roles/dispatcher.py",
        old="        if next_due is None:\n            return self._poll()\n",
        new="        if next_due is None:\n            return 3600.0\n",
        layer=Layer.ROLES,
        tests=("roles/test_hydrator.py::test_a_dispatcher_that_knows_of_nothing_looks_all_the_same",),
        simulation="0:40",
        quick=True,
    ),
    Mutant(
        name="an-emptied-index-is-not-noticed",
        breaks="I19",
        path="adapters/redis/hot_index.py",
        old="  if not filled then gaps = gaps + 1 end\n",
        new="",
        layer=Layer.CONFORMANCE,
        tests=(f"{_INDEX}TestShared::test_an_index_that_lost_something_is_noticed_and_filled_anew[an older dump]",),
    ),
    Mutant(
        name="who-is-new-between-known-queues-is-not-looked-for",
        breaks="I7, I16",
        path="adapters/sql/sql/postgres.sql",
        old="            WHERE route = r.route AND tenant > s.tenant AND tenant < coalesce(k.tenant, 2147483647)\n",
        new="            WHERE route = r.route AND tenant > s.tenant AND k.tenant IS NULL\n",
        layer=Layer.CONFORMANCE,
        tests=(f"{_HEADS}test_a_tenant_that_is_new_is_seen_wherever_it_stands[postgres]",),
    ),
    Mutant(
        name="where-a-queue-began-is-believed-for-an-hour",
        breaks="I7",
        path="domain/heads.py",
        old="now + min(WHOLE_LOOKS_IN * took, LONGEST) if is_worth_it else now",
        new="now + 3600 * LONGEST if is_worth_it else now",
        layer=Layer.DOMAIN,
        tests=("domain/test_heads.py::test_everything_is_looked_at_again_after_twenty_times_what_that_takes",),
    ),
    Mutant(
        name="a-claim-that-finds-nothing-from-its-place-on-gives-up",
        breaks="I7",
        path="adapters/sql/postgres/work.py",
        old="        return None if is_whole else await self.claim(worker, asks, now)\n",
        new="        return None\n",
        layer=Layer.CONFORMANCE,
        tests=(f"{_HEADS}test_what_enters_before_it_is_found_when_there_is_nothing_behind[postgres]",),
    ),
)
