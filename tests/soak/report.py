"""What a run leaves: a verdict per bar for people, a summary for machines, and a picture."""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tests.soak.judge import (
    MIB,
    MOST_DEAD,
    Sample,
    Verdict,
    block_width,
    dead_of,
    judge,
    pages_per_claim,
    percentile,
    process_names,
    series,
)
from tests.soak.plot import Panel, Points, draw
from tests.soak.run import Plan, Result, phases_summary, rolls_summary

SIGNS: Mapping[str, str] = {"held": "✓", "broken": "✗", "undecided": "?"}


def report(plan: Plan, result: Result) -> list[Verdict]:
    """Judge, print, write; answers the verdicts."""
    verdicts = judge(result.samples, plan.phases, steady=plan.steady)
    summary = summary_of(plan, result, verdicts)
    print()
    for verdict in verdicts:
        print(
            f"  {SIGNS[verdict.judgement]} {verdict.bar}: {verdict.measured}"
            + ("" if verdict.judgement == "held" else f"  [{verdict.judgement}]")
        )
    print()
    for name in ("load", "rolls", "lockWaits", "lateness", "pickUp", "claims", "busy", "statements"):
        print(f"  {name}: {json.dumps(summary.get(name))}")
    (plan.out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    (plan.out / "soak.svg").write_text(picture(plan, result), encoding="utf-8")
    print(f"\n  {plan.out}/summary.json, soak.svg, samples.jsonl")
    return verdicts


def summary_of(plan: Plan, result: Result, verdicts: list[Verdict]) -> dict[str, Any]:
    samples = result.samples
    steady = [sample for sample in samples if sample["t"] >= plan.phases.warm]
    return {
        "store": plan.store,
        "minutes": plan.seconds / 60,
        "rate": plan.rate,
        "retentionSec": plan.keep,
        "python": platform.python_version(),
        "phases": phases_summary(plan.phases),
        "verdicts": [
            {"bar": verdict.bar, "judgement": verdict.judgement, "measured": verdict.measured, **verdict.figures} for verdict in verdicts
        ],
        "load": result.load,
        "rolls": rolls_summary(result.rolls),
        "lockWaits": _lock_waits(result.lock_waits),
        "claims": _spread([ms for sample in steady for ms in sample["claims"]]),
        "lateness": _spread([ms for sample in steady for ms in sample["lateness"]]),
        "pickUp": _spread([ms for sample in steady for ms in sample["pick_up"]]),
        "busy": _busy(steady),
        "statements": {
            span: _statements([sample for sample in samples if begin <= sample["t"] < end])
            for span, (begin, end) in (("before", plan.phases.before), ("lateInPin", plan.phases.late_in_pin), ("after", plan.phases.after))
        },
        "largestTables": _largest(samples),
    }


def _spread(values: list[float]) -> dict[str, float]:
    if not values:
        return {}
    return {"p50": round(percentile(values, 0.5), 2), "p99": round(percentile(values, 0.99), 2), "max": round(max(values), 2)}


def _lock_waits(waits: list[dict[str, Any]]) -> dict[str, Any]:
    """Of waits long enough to be logged: how many of each process, and the longest."""
    return {
        "longest": max((wait["ms"] for wait in waits), default=0.0),
        "count": dict(Counter(f"{wait['who']} {wait['lock']}" for wait in waits).most_common(12)),
    }


def _busy(samples: list[Sample]) -> dict[str, float]:
    """The share of one core that each process used."""
    if len(samples) < 2:
        return {}
    first, last = samples[0], samples[-1]
    seconds = last["t"] - first["t"]
    return {
        name: round((last["processes"][name]["cpu"] - first["processes"][name]["cpu"]) / seconds, 3)
        for name in process_names(samples)
        if name in first["processes"] and name in last["processes"]
    }


def _statements(samples: list[Sample]) -> dict[str, dict[str, float]]:
    """Milliseconds and pages per call of the hot statements."""
    found: dict[str, dict[str, float]] = {}
    for name in sorted({name for sample in samples for name in sample.get("statements", {})}):
        total = {
            key: sum(sample["statements"][name][key] for sample in samples if name in sample["statements"])
            for key in ("calls", "ms", "pages")
        }
        if total["calls"]:
            found[name] = {
                "calls": total["calls"],
                "ms": round(total["ms"] / total["calls"], 3),
                "pages": round(total["pages"] / total["calls"], 1),
            }
    return found


def _largest(samples: list[Sample]) -> dict[str, dict[str, int]]:
    """Each table at its largest, and how many dead rows it had at most."""
    found: dict[str, dict[str, int]] = {}
    for sample in samples:
        for name, table in sample.get("tables", {}).items():
            most = found.setdefault(name, dict.fromkeys(table, 0))
            for key, value in table.items():
                most[key] = max(most[key], value)
    return dict(sorted(found.items(), key=lambda item: -item[1]["dead"]))


# ---------------------------------------------------------------- the picture


def picture(plan: Plan, result: Result) -> str:
    """Memory, claim time, dead rows (or the write-ahead log) over time."""
    samples = result.samples
    width = max(block_width(plan.phases) / 4, 2.0)

    def line(value: Callable[[Sample], float | None]) -> Points:
        return series(samples, (0.0, plan.seconds), width, value)

    def spread(what: str, share: float) -> Callable[[Sample], float | None]:
        return lambda sample: percentile(sample[what], share) if sample[what] else None

    memory = {name: line(lambda sample, name=name: _mib(sample["processes"].get(name, {}).get("rss"))) for name in process_names(samples)}
    panels = [
        Panel("Resident memory", "MiB", memory),
        Panel(
            "A claim, timed from outside",
            "ms",
            {"p50": line(spread("claims", 0.5)), "p99": line(spread("claims", 0.99)), "control p50": line(spread("controls", 0.5))},
        ),
        Panel("Lateness of a job of every second", "ms", {"latest": line(spread("lateness", 0.5))}),
    ]
    if plan.store == "sqlite":
        panels.append(Panel("Write-ahead log", "MiB", {"WAL": line(lambda sample: _mib(sample["wal"]))}))
    else:
        panels += [
            Panel("Pages that a claim touches", "pages", {"mean": line(pages_per_claim)}),
            Panel(
                "Dead rows",
                "rows",
                {
                    "all tables": line(lambda sample: dead_of(sample)),
                    "queue": line(lambda sample: dead_of(sample, "ready")),
                    "schedules": line(lambda sample: dead_of(sample, "schedules")),
                    "leases": line(lambda sample: dead_of(sample, "leases")),
                },
                bar=float(MOST_DEAD),
            ),
        ]
    bands = {} if plan.steady else {"an old snapshot is held": plan.phases.pinned}
    return draw(
        f"Duly on {plan.store}, {plan.seconds / 60:g} minutes, {plan.rate} executions/s and 200 schedules", panels, plan.seconds, bands
    )


def _mib(size: float | None) -> float | None:
    return None if size is None else size / MIB
