"""I14: a child begins after its parents, once, and only if its rule is met. Judged where headers name parents, and where they name the
run and the step: what its parents are is then read from what the client asked for, not from what the store made of it."""

from __future__ import annotations

from typing import Any

from duly.verify.checker.book import Book
from duly.verify.checker.codes import CANCELLED, DEAD, SKIPPED, SUCCEEDED
from duly.verify.checker.index import Index, Run
from duly.verify.checker.lives import Life

_FAILED = frozenset({DEAD, CANCELLED, SKIPPED})


def judge(index: Index, lives: dict[str, Life], book: Book) -> None:
    """Every run that has parents."""
    _flows(index, lives, book)
    seen: dict[tuple[object, ...], str] = {}
    children = [run for run in index.runs.values() if run.data.get("parents")]
    for run in children:
        book.look("I14")
        parents: list[str] = run.data["parents"]
        key = (run.job, run.data.get("step"), tuple(sorted(parents)))
        if key in seen:
            book.broken("I14", f"{run.id} and {seen[key]} are the same child of the same parents", job=run.job, run=run.id)
        seen[key] = run.id
        _rule(run, [index.runs.get(parent) for parent in parents], str(run.data.get("rule") or "all_succeeded"), book)
    _acyclic({run.id: list(run.data["parents"]) for run in children}, book)


def _rule(run: Run, parents: list[Run | None], rule: str, book: Book) -> None:
    """The grant comes after the ends that the rule needs; what can never be met is skipped."""
    grant = run.grants[0] if run.grants else None
    ends = [None if parent is None or not parent.ends else parent.ends[0] for parent in parents]
    if grant is not None:
        before = [end.data["state"] for end in ends if end is not None and end.seq < grant.seq]
        met = {
            "all_succeeded": before.count(SUCCEEDED) == len(parents),
            "all_done": len(before) == len(parents),
            "any_failed": any(state in _FAILED for state in before),
        }.get(rule, True)
        if not met:
            says = f"{run.id} was granted when {len(before)} of its {len(parents)} parents had ended, against {rule}"
            book.broken("I14", says, at=grant.at, job=run.job, run=run.id, seqs=(grant.seq,))
    elif run.ends and rule == "all_succeeded" and run.ends[0].data["state"] not in _FAILED:
        book.broken("I14", f"{run.id} ended without a grant", at=run.ends[0].at, job=run.job, run=run.id)
    failed = any(end is not None and end.data["state"] in _FAILED for end in ends)
    if rule == "all_succeeded" and failed and run.ends and run.ends[0].data["state"] not in (SKIPPED, CANCELLED):
        says = f"a parent of {run.id} came to no success, and it was not skipped"
        book.broken("I14", says, at=run.ends[0].at, job=run.job, run=run.id, seqs=(run.ends[0].seq,))


def _acyclic(parents: dict[str, list[str]], book: Book) -> None:
    done: set[str] = set()
    for start in parents:
        path: dict[str, None] = {}
        stack = [(start, iter(parents.get(start, ())))]
        path[start] = None
        while stack:
            id, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                stack.pop()
                del path[id]
                done.add(id)
            elif following in path:
                book.broken("I14", f"{following} is its own ancestor", run=following)
                return
            elif following not in done:
                path[following] = None
                stack.append((following, iter(parents.get(following, ()))))


def _flows(index: Index, lives: dict[str, Life], book: Book) -> None:
    """Every run that consists of steps."""
    steps: dict[str, dict[tuple[int, int | None], Run]] = {}
    for run in index.runs.values():
        if run.is_step:
            book.look("I14")
            key = (int(run.data["step"]), run.data.get("nth"))
            made = steps.setdefault(str(run.data["flow"]), {})
            if key in made:
                says = f"{run.id} and {made[key].id} are the same step of {run.data['flow']}"
                book.broken("I14", says, job=run.job, run=run.id)
            made[key] = run
    for id, made in steps.items():
        flow = index.runs.get(id)
        if flow is None or flow.created is None:
            book.broken("I14", f"steps belong to {id}, which the store never had", run=id)
        elif any(nth is not None for _, nth in made):
            _items(flow, made, book)
        else:
            life = lives.get(flow.job or "")
            plan = life.plan_of(flow.data.get("versionId")) if life is not None else None
            if plan is not None and plan.body.get("steps"):
                _steps(flow, made, plan.body["steps"], book)


def _items(group: Run, made: dict[tuple[int, int | None], Run], book: Book) -> None:
    """A mapped step ends after the last of its items, and succeeds only if all of them have."""
    end = group.ends[0] if group.ends else None
    if end is None or end.data["state"] not in (SUCCEEDED, DEAD):
        return
    width = int(group.begun.data.get("width") or 0) if group.begun is not None else len(made)
    ended = [run for run in made.values() if run.ends and run.ends[0].seq < end.seq]
    if len(ended) < width:
        says = f"{group.id} ended when {len(ended)} of its {width} items had"
        book.broken("I14", says, at=end.at, job=group.job, run=group.id, seqs=(end.seq,))
    if end.data["state"] == SUCCEEDED and any(run.state != SUCCEEDED for run in ended):
        book.broken("I14", f"{group.id} succeeded, and an item of it did not", at=end.at, job=group.job, run=group.id, seqs=(end.seq,))


def _steps(flow: Run, made: dict[tuple[int, int | None], Run], declared: list[dict[str, Any]], book: Book) -> None:
    """Each step against its parents, and the run against its steps."""
    places = {str(step["name"]): nth for nth, step in enumerate(declared)}
    for nth, step in enumerate(declared):
        run = made.get((nth, None))
        names = [*step.get("dependsOn", ()), *([step["map"]] if step.get("map") else ())]
        if run is not None and names and not step.get("compensates"):
            _step_rule(
                run, [made.get((places[name], None)) for name in dict.fromkeys(names)], str(step.get("trigger") or "all_succeeded"), book
            )
    end = flow.ends[0] if flow.ends else None
    if end is None:
        return
    for run in made.values():
        grant = next((grant for grant in run.grants if grant.seq > end.seq), None)
        if grant is not None:
            book.broken("I14", f"{run.id} was granted after its run had ended", at=grant.at, job=flow.job, run=run.id, seqs=(grant.seq,))
    if end.data["state"] == SUCCEEDED:
        left = [step["name"] for nth, step in enumerate(declared) if (nth, None) not in made or not made[nth, None].ends]
        if left:
            book.broken("I14", f"{flow.id} succeeded without {left[0]}", at=end.at, job=flow.job, run=flow.id, seqs=(end.seq,))


def _step_rule(run: Run, parents: list[Run | None], rule: str, book: Book) -> None:
    """It is made after the ends that its rule needs, and what its rule forbids is skipped."""
    created = run.created
    assert created is not None
    ends = [None if parent is None or not parent.ends else parent.ends[0] for parent in parents]
    before = [end.data["state"] for end in ends if end is not None and end.seq < created.seq]
    if run.is_skipped:
        if rule == "all_done":
            book.broken("I14", f"{run.id} was skipped, and nothing can rule it out", at=created.at, job=run.job, run=run.id)
        return
    if run.state == CANCELLED and not run.grants:
        return
    met = {
        "all_succeeded": before.count(SUCCEEDED) == len(parents),
        "all_done": len(before) == len(parents),
        "any_succeeded": SUCCEEDED in before,
        "any_failed": any(state in _FAILED for state in before),
    }.get(rule, True)
    if not met:
        says = f"{run.id} was made when {len(before)} of its {len(parents)} parents had ended, against {rule}"
        book.broken("I14", says, at=created.at, job=run.job, run=run.id, seqs=(created.seq,))
