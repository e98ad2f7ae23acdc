"""Bugs in the hand-over from step to step."""

from __future__ import annotations

from tests.mutants.mutant import Layer, Mutant

_TESTS = "conformance/test_workflows.py::"
_LITE = "[sqlite-inline]"
_CONDUCTOR = "usecases/conduct/conductor.py"

OF_WORKFLOWS = (
    Mutant(
        name="a-join-counts-itself-as-the-last",
        seeded=19,
        breaks="I14",
        path=_CONDUCTOR,
        old="            ends |= await self.reader.ends(flow, graph, unknown)\n",
        new="            ends |= {name: End(State.SUCCEEDED) for name in unknown}\n",
        layer=Layer.CONFORMANCE,
        tests=(f"{_TESTS}test_a_join_waits_for_the_last_of_its_parents{_LITE}",),
        simulation="0:60",
        quick=True,
    ),
    Mutant(
        name="a-lost-hand-over-stays-lost",
        breaks="I1, I14",
        path=_CONDUCTOR,
        old="        for run in runs:\n            await self.look_at(run)\n",
        new="",
        layer=Layer.CONFORMANCE,
        tests=(f"{_TESTS}test_a_hand_over_that_was_lost_is_made_up_for_by_the_rounds[sqlite-inline-root]",),
        simulation="0:60",
    ),
    Mutant(
        name="a-gap-between-items-is-passed-over",
        breaks="I14",
        path=_CONDUCTOR,
        old="if id.int != first.int + nth), len(found))",
        new="if id.int < first.int + nth), len(found))",
        layer=Layer.CONFORMANCE,
        tests=(f"{_TESTS}test_a_map_joins_after_the_last_item_whichever_that_is{_LITE}",),
    ),
    Mutant(
        name="a-cancelled-run-goes-on",
        breaks="I13",
        path=_CONDUCTOR,
        old="        if flow.is_cancelled:\n            await self._stop(flow, todo)\n            return\n",
        new="",
        layer=Layer.CONFORMANCE,
        tests=(f"{_TESTS}test_cancelling_a_run_cancels_all_of_it{_LITE}",),
    ),
    Mutant(
        name="a-failed-parent-counts-as-done",
        breaks="I14",
        path="domain/workflow/advance.py",
        old="            if broken:\n                return Move.SKIP, Because.UPSTREAM\n            if any(end.state is State.SKIPPED",
        new="            if any(end.state is State.SKIPPED",
        layer=Layer.DOMAIN,
        tests=("domain/test_workflow.py::test_a_skip_goes_down_the_whole_path_with_its_reason",),
    ),
    Mutant(
        name="a-run-gives-its-place-up-when-it-begins",
        breaks="I11",
        path="adapters/sql/sql/flows.sql",
        old="DELETE FROM slots WHERE id = :id AND gate IN (SELECT gate FROM gates WHERE kept) RETURNING gate;",
        new="DELETE FROM slots WHERE id = :id RETURNING gate;",
        layer=Layer.CONFORMANCE,
        tests=(f"{_TESTS}test_a_job_runs_no_more_runs_at_a_time_than_it_may{_LITE}",),
    ),
)
