"""I14: a child begins after its parents, once, and only if its rule is met. Judged where headers name parents."""

from __future__ import annotations

from duly.verify.checker.book import Book
from duly.verify.checker.codes import CANCELLED, DEAD, SKIPPED, SUCCEEDED
from duly.verify.checker.index import Index, Run

_FAILED = frozenset({DEAD, CANCELLED, SKIPPED})


def judge(index: Index, book: Book) -> None:
    """Every run that has parents."""
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
