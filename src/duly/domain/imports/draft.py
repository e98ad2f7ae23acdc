"""A draft: one entry of another system as a job, with what is undecided about it, or the reason why it cannot be one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

# Seconds since 1970 UTC at which the old system fires, in (after, until], in order. One that stands twice fires twice.
OldFires = Callable[[int, int], list[int]]

LONGEST_NAME = 128
_UNFIT = re.compile(r"[^A-Za-z0-9._:/@-]+")


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person has to say before an entry becomes a job: the key that accepts it, and the question."""

    key: str
    question: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One entry. `body` is the job as the API takes it; None when `cannot` says why there is none."""

    name: str
    where: str
    source: str
    body: dict[str, Any] | None = None
    decisions: tuple[Decision, ...] = ()
    notes: tuple[str, ...] = ()
    cannot: str | None = None
    paused: bool = False
    old: OldFires | None = field(default=None, compare=False, repr=False)

    def undecided(self, accepted: Iterable[str]) -> tuple[Decision, ...]:
        """What is still open when these keys are accepted; `all` accepts everything."""
        known = set(accepted)
        return () if "all" in known else tuple(one for one in self.decisions if one.key not in known)


def cannot(name: str, where: str, source: str, reason: str) -> Draft:
    """An entry that has no equal here."""
    return Draft(name=name_of(name), where=where, source=source, cannot=reason)


def name_of(text: str, otherwise: str = "job") -> str:
    """A text as a job may be named."""
    cleaned = _UNFIT.sub("-", text).strip("-._:/@")
    return cleaned[:LONGEST_NAME].rstrip("-") or otherwise


def with_names_apart(drafts: Sequence[Draft], prefix: str = "") -> list[Draft]:
    """No two with the same name: the first keeps it, the second is called name-2. The same source always gets the same names."""
    taken: set[str] = set()
    found: list[Draft] = []
    for draft in drafts:
        name, nth = f"{prefix}{draft.name}"[:LONGEST_NAME], 1
        while name in taken:
            nth += 1
            name = f"{prefix}{draft.name}"[: LONGEST_NAME - len(str(nth)) - 1] + f"-{nth}"
        taken.add(name)
        body = None if draft.body is None else {"name": name, **{key: value for key, value in draft.body.items() if key != "name"}}
        found.append(replace(draft, name=name, body=body))
    return found
