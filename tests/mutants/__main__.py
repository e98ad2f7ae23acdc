"""`python -m tests.mutants`: seeds every mutant in turn and demands that it dies. Exit code 1 when one lives."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.mutants.catalogue import MUTANTS, UNSEEDED
from tests.mutants.mutant import Mutant
from tests.mutants.runner import Ran, run

SOUND_BUDGET = 900.0


def main(arguments: Sequence[str]) -> int:
    """Run the chosen mutants, one line each, and write the table when asked to."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these (all when none is named)")
    parser.add_argument("--quick", action="store_true", help="only those that die in seconds")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--markdown", type=Path, help="write the table there, if all of them were run")
    parser.add_argument("--verbose", action="store_true", help="show what pytest said of a mutant that lives")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - {mutant.name for mutant in MUTANTS}
    if unknown:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    chosen = [m for m in MUTANTS if (not options.names or m.name in options.names) and (m.quick or not options.quick)]

    wanted = list(dict.fromkeys(test for mutant in chosen for test in mutant.tests))
    print(f"{len(chosen)} mutants; first their {len(wanted)} tests without any", flush=True)
    sound = run(wanted, None, SOUND_BUDGET)
    if not sound.passed:
        print(f"The tests fail without a mutant ({sound.why}):\n{sound.output}")
        return 1
    print(f"  all pass ({sound.seconds:.0f} s)", flush=True)

    results: dict[str, Ran] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = {pool.submit(run, mutant.tests, mutant, mutant.budget): mutant for mutant in chosen}
        for nth, done in enumerate(as_completed(runs), 1):
            mutant, ran = runs[done], done.result()
            results[mutant.name] = ran
            verdict = f"killed by {ran.killed_by}" if ran.killed_by else f"LIVES ({ran.why})"
            print(f"{nth:3}/{len(chosen)} {mutant.name:44} {mutant.layer:12} {ran.seconds:5.1f} s  {verdict}", flush=True)
            if options.verbose and not ran.killed_by:
                print(ran.output, flush=True)

    living = [mutant.name for mutant in chosen if not results[mutant.name].killed_by]
    print(f"{len(chosen) - len(living)} of {len(chosen)} killed" + (f"; alive: {', '.join(living)}" if living else ""))
    if options.markdown is not None and len(chosen) == len(MUTANTS):
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(markdown(chosen, results), encoding="utf-8")
    return 1 if living else 0


def markdown(chosen: Sequence[Mutant], results: dict[str, Ran]) -> str:
    """The table for the documentation."""
    lines = [
        "# Mutants",
        "",
        "Each line is a bug that was put into a copy of Duly on purpose, and the test that noticed. `make mutants` writes this page;",
        "`tests/mutants` has the edits. A number is the bug's place in the list of those that must die. Only a failed test counts,",
        "and the same tests pass without the bug.",
        "",
        "| # | mutant | breaks | layer | killed by | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for mutant in sorted(chosen, key=lambda mutant: (mutant.seeded is None, mutant.seeded or 0, mutant.name)):
        ran = results[mutant.name]
        killer = f"`{ran.killed_by}`" if ran.killed_by else f"**lives**: {ran.why}"
        lines.append(f"| {mutant.seeded or ''} | {mutant.name} | {mutant.breaks} | {mutant.layer} | {killer} | {ran.seconds:.1f} |")
    lines += ["", "Not seeded yet:", "", "| # | mutant | why not |", "|---|---|---|"]
    lines += [f"| {item.seeded} | {item.name} | {item.reason} |" for item in UNSEEDED]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
