"""Reports that no run made."""

from __future__ import annotations

from benchmarks.report import Figures, NotMeasured, Report, Result
from benchmarks.scale import SHORT


def result(question: str, system: str, figures: Figures, *, repeat: int = 0, setting: str = "best", is_default: bool = False) -> Result:
    return Result(question=question, system=system, setting=setting, is_default=is_default, repeat=repeat, figures=figures)


def report(*results: Result, not_measured: tuple[NotMeasured, ...] = ()) -> Report:
    return Report(
        began="2026-11-16T00:00:00+00:00",
        machine=dict.fromkeys(("cpu", "memory", "system", "python", "postgres", "redis"), "–"),
        servers={},
        versions={"duly": "0.1.0", "graphile": "0.18.0"},
        scale=SHORT,
        repeats=3,
        results=list(results),
        not_measured=list(not_measured),
    )


def drains(system: str, *rates: float, question: str = "drain") -> list[Result]:
    return [result(question, system, {"per_second": rate, "jobs": 100.0}, repeat=nth) for nth, rate in enumerate(rates)]
