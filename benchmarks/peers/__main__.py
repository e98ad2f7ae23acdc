"""Measure the peers beside Duly: `python -m benchmarks.peers --short`, and without `--short` in earnest."""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
from pathlib import Path

from benchmarks.peers.install import HOME
from benchmarks.peers.plots import write_plots
from benchmarks.peers.questions import QUESTIONS
from benchmarks.peers.run import measure
from benchmarks.peers.systems import SYSTEMS
from benchmarks.peers.table import markdown
from benchmarks.report import chosen, read
from benchmarks.scale import FULL, SHORT


def main() -> None:
    """Measure, and write down what was found."""
    by_name = {system.name: system for system in SYSTEMS}
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--short", action="store_true", help="just to see that everything works")
    parser.add_argument("--only", metavar="SYSTEMS", help=f"of {', '.join(by_name)}")
    parser.add_argument("--questions", metavar="QUESTIONS", help=f"of {', '.join(QUESTIONS)}")
    parser.add_argument("--repeat", type=int, metavar="N", help="3, or 1 with --short")
    parser.add_argument("--jobs", type=int, metavar="N", help="at most so many jobs in a drain")
    parser.add_argument("--lead", type=float, metavar="SECONDS", help="enqueue jobs with a due time so long before; more on a busy machine")
    parser.add_argument("--out", type=Path, default=HOME / "results", help="for results.json, results.md and plots (default: %(default)s)")
    parser.add_argument("--home", type=Path, default=HOME, help="where the peers were installed (default: %(default)s)")
    parser.add_argument("--again", action="store_true", help="measure nothing: make the table and the plots anew from results.json")
    options = parser.parse_args()
    # Whoever ends us ends the servers and the workers, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    options.out.mkdir(parents=True, exist_ok=True)
    results = options.out / "results.json"
    if options.again:
        report = read(results)
    else:
        scale = SHORT if options.short else FULL
        changes = {name: value for name, value in (("most_jobs", options.jobs), ("lead", options.lead)) if value is not None}
        report = measure(
            chosen(options.questions, QUESTIONS),
            chosen(options.only, by_name),
            repeats=options.repeat or (1 if options.short else 3),
            scale=dataclasses.replace(scale, **changes),
            home=options.home.absolute(),
            say=lambda words: print(words, flush=True),
            out=results,
        )
    text = markdown(report)
    (options.out / "results.md").write_text(text)
    plots = write_plots(report, options.out)
    print(f"\n{text}\n{results}, results.md, {', '.join(plots)}")
    sys.exit(report.status)


if __name__ == "__main__":
    main()
