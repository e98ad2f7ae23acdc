"""How a report stands: the sentence at its top, and the plain counts under it.

It says no more than the report has: an invariant that was looked at nowhere did not hold, and a count that is not there is not zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from duly.verify.pages.quantities import count, many
from duly.verify.report import Report, Status, Verdict

# What counts that everything was read rightly; it is not one of the promises.
SANITY = "I0"

MUST_BE_ZERO = {"lost": "lost", "twice": "fired twice", "early": "early", "staleAccepted": "stale writes accepted"}
REFUSED = {"staleRefused": "stale writes refused", "zombies": "zombies refused"}


@dataclass(frozen=True)
class Number:
    """One number with its name. `wrong`: it should be zero and is not."""

    name: str
    value: str
    wrong: bool = False


def standing(verdict: Verdict) -> Status:
    """Findings break it, whatever it says; and what was looked at nowhere was not judged."""
    if verdict.findings or verdict.status == "broken":
        return "broken"
    return "held" if verdict.status == "held" and verdict.judged else "not judged"


def overall(report: Report) -> Status:
    """Broken if anything is; held if something was judged."""
    stands = {standing(verdict) for verdict in report.verdicts}
    if "broken" in stands or any(report.counts.get(key) for key in MUST_BE_ZERO):
        return "broken"
    return "held" if any(standing(verdict) == "held" for verdict in _promises(report)) else "not judged"


def headline(report: Report) -> str:
    """The verdict in one sentence."""
    promises = _promises(report)
    judged = sum(standing(verdict) != "not judged" for verdict in promises)
    match overall(report):
        case "held":
            return f"Held: {judged} of {many(len(promises), 'invariant')} judged, none broken"
        case "not judged":
            return "Not judged: this run shows nothing, neither good nor bad"
        case "broken":
            broken = [verdict for verdict in report.verdicts if standing(verdict) == "broken"]
            if not broken:
                wrong = [f"{name} {count(report.counts[key])}" for key, name in MUST_BE_ZERO.items() if report.counts.get(key)]
                return f"BROKEN: {', '.join(wrong)}, though no invariant says so"
            if len(broken) == 1:
                return f"BROKEN: {broken[0].invariant} {broken[0].title}"
            names = [verdict.invariant for verdict in broken]
            return f"BROKEN: {', '.join(names[:-1])} and {names[-1]}; {judged} of {many(len(promises), 'invariant')} judged"


def numbers(report: Report) -> list[Number]:
    """What everybody asks first."""
    found = [_counted(report, key, name, zero=True) for key, name in MUST_BE_ZERO.items()]
    return found + [_counted(report, key, name, zero=False) for key, name in REFUSED.items()]


def volume(report: Report) -> list[str]:
    """How much there was to look at. Targets that nobody could be held to are named apart: a run full of them shows little."""
    names = {
        "jobs": "jobs",
        "targets": "targets",
        "optional": "targets that could be missed",
        "fires": "fires",
        "runs": "runs",
        "attempts": "attempts",
    }
    return [f"{count(report.counts[key])} {name}" for key, name in names.items() if key in report.counts]


def unjudged(report: Report) -> list[Verdict]:
    """The invariants that this run says nothing about."""
    return [verdict for verdict in report.verdicts if standing(verdict) == "not judged"]


def _counted(report: Report, key: str, name: str, *, zero: bool) -> Number:
    number = report.counts.get(key)
    return Number(name, "not counted" if number is None else count(number), wrong=zero and bool(number))


def _promises(report: Report) -> list[Verdict]:
    return [verdict for verdict in report.verdicts if verdict.invariant != SANITY]
