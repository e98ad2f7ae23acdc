"""Workflows as values: what a graph may be, what follows from the ends of its steps, and that joins fire once in any order."""

from __future__ import annotations

import random
from itertools import product
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.errors import Invalid
from duly.domain.lifecycle import State
from duly.domain.target import Target
from duly.domain.workflow.advance import Because, End, Graph, Move, advance, below, ending, failures, leaves, meets
from duly.domain.workflow.check import MOST_PARENTS, MOST_STEPS, check_steps, in_order
from duly.domain.workflow.conditions import holds, parse_condition
from duly.domain.workflow.ids import WHOLE, item_id, item_number, step_id, step_job_id
from duly.domain.workflow.inputs import payload_for
from duly.domain.workflow.step import Approval, Rule, Step

WORK = Target(handler="work")
RUN = UUID("0198c2d1-0000-7000-8000-000000000001")
S, F, C = End(State.SUCCEEDED), End(State.DEAD), End(State.CANCELLED)
UP, BRANCH = End(State.SKIPPED, Because.UPSTREAM), End(State.SKIPPED, Because.BRANCH)
RUN_IT, WAIT = (Move.RUN, None), (Move.WAIT, None)


def step(name: str, *after: str, **changes: object) -> Step:
    return Step(**({"name": name, "after": after, "target": WORK} | changes))  # type: ignore[arg-type]


def skip(because: Because) -> tuple[Move, Because]:
    return Move.SKIP, because


# One parent: every rule, every end.
@pytest.mark.parametrize(
    ("rule", "end", "expected"),
    [
        (Rule.ALL_SUCCEEDED, None, WAIT),
        (Rule.ALL_SUCCEEDED, S, RUN_IT),
        (Rule.ALL_SUCCEEDED, F, skip(Because.UPSTREAM)),
        (Rule.ALL_SUCCEEDED, C, skip(Because.UPSTREAM)),
        (Rule.ALL_SUCCEEDED, UP, skip(Because.UPSTREAM)),
        (Rule.ALL_SUCCEEDED, BRANCH, skip(Because.BRANCH)),
        (Rule.ALL_DONE, None, WAIT),
        (Rule.ALL_DONE, S, RUN_IT),
        (Rule.ALL_DONE, F, RUN_IT),
        (Rule.ALL_DONE, C, RUN_IT),
        (Rule.ALL_DONE, UP, RUN_IT),
        (Rule.ALL_DONE, BRANCH, RUN_IT),
        (Rule.ANY_SUCCEEDED, None, WAIT),
        (Rule.ANY_SUCCEEDED, S, RUN_IT),
        (Rule.ANY_SUCCEEDED, F, skip(Because.UPSTREAM)),
        (Rule.ANY_SUCCEEDED, C, skip(Because.UPSTREAM)),
        (Rule.ANY_SUCCEEDED, UP, skip(Because.UPSTREAM)),
        (Rule.ANY_SUCCEEDED, BRANCH, skip(Because.BRANCH)),
        (Rule.ANY_FAILED, None, WAIT),
        (Rule.ANY_FAILED, S, skip(Because.UNNEEDED)),
        (Rule.ANY_FAILED, F, RUN_IT),
        (Rule.ANY_FAILED, C, RUN_IT),
        (Rule.ANY_FAILED, UP, RUN_IT),
        (Rule.ANY_FAILED, BRANCH, skip(Because.UNNEEDED)),
    ],
)
def test_each_rule_answers_each_end_of_a_parent(rule: Rule, end: End | None, expected: tuple[Move, Because | None]) -> None:
    assert meets(rule, [end]) == expected


@pytest.mark.parametrize(("first", "second"), list(product((None, S, F, C, UP, BRANCH), repeat=2)))
def test_two_parents_are_judged_alike_in_either_order(first: End | None, second: End | None) -> None:
    for rule in Rule:
        assert meets(rule, [first, second]) == meets(rule, [second, first])


def test_a_rule_over_all_waits_for_the_last_and_a_rule_over_any_does_not() -> None:
    assert meets(Rule.ALL_SUCCEEDED, [S, None]) == WAIT
    assert meets(Rule.ALL_DONE, [F, None]) == WAIT
    assert meets(Rule.ANY_SUCCEEDED, [S, None]) == RUN_IT
    assert meets(Rule.ANY_FAILED, [None, F]) == RUN_IT


def test_a_skip_goes_down_the_whole_path_with_its_reason() -> None:
    graph = Graph(
        [step("a"), step("b", "a"), step("c", "b"), step("clean", "c", rule=Rule.ALL_DONE), step("alarm", "c", rule=Rule.ANY_FAILED)]
    )

    found = advance(graph, {"a": F})

    assert found.skipped == {"b": Because.UPSTREAM, "c": Because.UPSTREAM}
    assert found.ready == ["clean", "alarm"]
    assert not found.is_over


def test_a_branch_that_is_not_taken_is_skipped_and_the_run_succeeds() -> None:
    graph = Graph(
        [step("a"), step("big", "a", when="a.result.rows > 10"), step("after_big", "big"), step("small", "a", when="a.result.rows <= 10")]
    )

    found = advance(graph, {"a": End(State.SUCCEEDED, result={"rows": 3})})

    assert found.skipped == {"big": Because.CONDITION, "after_big": Because.BRANCH}
    assert found.ready == ["small"]
    over = {"a": S, "big": End(State.SKIPPED, Because.CONDITION), "after_big": BRANCH, "small": S}
    assert advance(graph, over).is_over
    assert ending(graph, over).state is State.SUCCEEDED


def test_a_failure_is_the_runs_unless_somebody_takes_care_of_it() -> None:
    graph = Graph([step("a"), step("b", "a"), step("rescue", "b", rule=Rule.ANY_FAILED)])
    ends = {"a": F, "b": UP}

    assert failures(graph, ends | {"rescue": S}) == []
    assert ending(graph, ends | {"rescue": F}).failed == ("a", "rescue")
    assert ending(graph, ends | {"rescue": C}).state is State.DEAD


def test_what_succeeded_is_undone_latest_first_once_all_else_has_ended() -> None:
    graph = Graph(
        [
            step("reserve"),
            step("charge", "reserve"),
            step("ship", "charge"),
            step("refund", compensates="charge"),
            step("unreserve", compensates="reserve"),
            step("recall", compensates="ship"),
        ]
    )
    ends = {"reserve": S, "charge": S, "ship": F}

    first = advance(graph, ends)
    ends["recall"] = End(State.SKIPPED, Because.UNNEEDED)
    second = advance(graph, ends | {"refund": S})

    assert first.ready == ["refund"]
    assert first.skipped == {"recall": Because.UNNEEDED}
    assert not first.is_over
    assert second.ready == ["unreserve"]
    assert advance(graph, ends | {"refund": S, "unreserve": S}).is_over


def test_a_run_that_succeeds_undoes_nothing() -> None:
    graph = Graph([step("charge"), step("refund", compensates="charge")])

    found = advance(graph, {"charge": S})

    assert found.skipped == {"refund": Because.UNNEEDED}
    assert found.is_over


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([step("a"), step("a")], "DULY-E150"),
        ([step("1a")], "DULY-E150"),
        ([step("item")], "DULY-E150"),
        ([step("a", "b")], "DULY-E151"),
        ([step("a", map="b")], "DULY-E151"),
        ([step("a"), step("b", "a", inputs={"x": "c.rows"})], "DULY-E151"),
        ([step("a", "a")], "DULY-E152"),
        ([step("a", "c"), step("b", "a"), step("c", "b")], "DULY-E152"),
        ([step("a", rule=Rule.ANY_FAILED)], "DULY-E153"),
        ([step("a"), step("b", compensates="a"), step("c", "b")], "DULY-E153"),
        ([step("a"), step("b", "a", when="__import__('os')")], "DULY-E154"),
        ([step("a"), step("b", "a", when="c.state == 1")], "DULY-E154"),
        ([step(f"s{n}") for n in range(MOST_STEPS + 1)], "DULY-E155"),
        ([step("s0"), *(step(f"s{n}", f"s{n - 1}") for n in range(1, 1_001))], "DULY-E155"),
        ([*(step(f"p{n}") for n in range(MOST_PARENTS + 1)), step("j", *(f"p{n}" for n in range(MOST_PARENTS + 1)))], "DULY-E155"),
        ([step("a", target=None)], "DULY-E156"),
        ([step("a", workflow="other")], "DULY-E156"),
        ([step("a"), step("b", map="a", approval=Approval())], "DULY-E156"),
        ([step("a", max_parallel=3)], "DULY-E156"),
        ([step("a", delay=5, approval=Approval())], "DULY-E156"),
    ],
)
def test_what_cannot_be_a_workflow_is_refused_with_its_code(steps: list[Step], code: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_steps(steps)

    assert refused.value.code == code


@pytest.mark.parametrize(
    "text", ["a.result.rows[0]() > 1", "lambda: 1", "a if b else c", "[x for x in a]", "a + 1", "f'{a}'", "a := 1", "(" * 200, "a.b" * 400]
)
def test_a_condition_is_of_its_small_language_or_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_condition(text)


def test_conditions_compare_and_what_is_not_there_is_null() -> None:
    known = {"load-eu": {"state": "SUCCEEDED", "result": {"rows": [1, 2]}}, "payload": {"regions": ["eu"]}}

    assert holds('steps["load-eu"].result.rows[1] == 2 and "eu" in payload.regions', known)
    assert holds("not payload.missing and payload.missing.deeper == None", known)
    assert not holds("payload.regions > 3 or 3 in payload.missing", known)
    assert holds('-1 < steps["load-eu"].result.rows[0] <= 1', known)


@st.composite
def graphs(draw: st.DrawFn) -> list[Step]:
    """Any acyclic graph, every rule in it, declared in any order."""
    count = draw(st.integers(1, 9))
    steps = []
    for nth in range(count):
        parents = sorted(draw(st.sets(st.integers(0, nth - 1), max_size=4))) if nth else []
        rule = draw(st.sampled_from(list(Rule))) if parents else Rule.ALL_SUCCEEDED
        steps.append(step(f"s{nth}", *(f"s{parent}" for parent in parents), rule=rule))
    return draw(st.permutations(steps))


@given(graphs())
def test_the_order_puts_every_step_after_its_parents(steps: list[Step]) -> None:
    check_steps(steps)
    place = {step.name: nth for nth, step in enumerate(in_order(steps))}

    assert all(place[parent] < place[step.name] for step in steps for parent in step.parents)


@given(graphs(), st.integers(0, 1 << 30))
def test_every_run_ends_and_each_step_once_in_any_order_of_completion(steps: list[Step], seed: int) -> None:
    graph, chance = Graph(steps), random.Random(seed)
    ends: dict[str, End] = {}
    made: set[str] = set()

    for _ in range(10 * len(steps)):
        found = advance(graph, ends)
        ends |= {name: End(State.SKIPPED, because) for name, because in found.skipped.items()}
        assert not made & found.skipped.keys(), "what runs is never skipped afterwards"
        made |= set(found.ready)
        live = sorted(made - ends.keys())
        if found.is_over:
            break
        assert live, "somebody is always under way until it is over"
        ends[chance.choice(live)] = chance.choice((S, F, C))

    assert found.is_over
    assert ends.keys() == {step.name for step in steps}
    assert advance(graph, ends).ready == []


@given(graphs(), st.integers(0, 1 << 30))
def test_a_rule_over_all_parents_comes_to_the_same_in_any_order(steps: list[Step], seed: int) -> None:
    graph = Graph(
        [Step(name=one.name, after=one.after, target=WORK, rule=Rule.ALL_DONE if one.after else Rule.ALL_SUCCEEDED) for one in steps]
    )
    fate = {one.name: random.Random(seed + nth).choice((S, F)) for nth, one in enumerate(steps)}
    orders: list[dict[str, End]] = []
    for order in range(2):
        ends: dict[str, End] = {}
        while not (found := advance(graph, ends)).is_over:
            name = random.Random(seed + order + len(ends)).choice(found.ready)
            ends[name] = fate[name]
        orders.append(ends)

    assert orders[0] == orders[1] == fate


def test_ids_are_computed_and_items_lie_side_by_side_before_their_step() -> None:
    assert step_id(RUN, 3) == step_id(RUN, 3) != step_id(RUN, 4)
    items = [item_id(RUN, 3, nth) for nth in range(3)]
    assert [id.int - items[0].int for id in items] == [0, 1, 2]
    assert items[-1] < step_id(RUN, 3)
    assert item_number(items[2]) == 2
    assert item_number(step_id(RUN, 3)) == WHOLE
    assert step_id(RUN, 3).version == 8
    assert step_id(RUN, 3).int >> 80 == RUN.int >> 80
    assert step_job_id(RUN, "a") != step_job_id(RUN, "b")


def test_inputs_come_from_items_parents_and_the_runs_payload() -> None:
    one = step(
        "b",
        "a",
        map="a",
        inputs={"path": "item", "rows": "a.rows", "day": "payload.day", "gone": "payload.gone"},
        payload='{"mode":"fast"}',
    )

    assert (
        payload_for(one, '{"day":"monday"}', "x.csv", {"a": {"rows": 7}}) == '{"mode": "fast", "path": "x.csv", "rows": 7, "day": "monday"}'
    )
    assert payload_for(step("b", map="a"), None, {"id": 1}, {}) == '{"id": 1}'
    assert payload_for(step("b"), '{"id":1}', None, {}) == '{"id":1}'
    assert payload_for(step("b", payload="{}"), '{"id":1}', None, {}) is None


def test_what_comes_after_a_step_is_found_for_a_retry() -> None:
    graph = Graph([step("a"), step("b", "a"), step("c", "b"), step("d", "a")])

    assert below(graph, ["b"]) == {"b", "c"}
    assert leaves(graph) == ["d", "c"]
