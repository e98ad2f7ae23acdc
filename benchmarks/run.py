"""One run of Duly's own benchmarks: every question on every store, in turns, and what came of it."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import importlib.metadata
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.harness import ROOT, STORES, Scratch, Stores
from benchmarks.question import Case, Question
from benchmarks.report import Figures, Report, Say, Turn, begun, chosen, read, take
from benchmarks.scale import BRIEF, FULL, Scale
from benchmarks.summary import TITLES, markdown, write_plots
from benchmarks.variants import USUAL, VARIANTS, Variant

OUT = ROOT / ".bench" / "own"
CHANGES = {
    "jobs": ("most_jobs", int, "at most so many executions in a drain"),
    "lead": ("lead", float, "seconds that everybody has to get ready before something is due; more on a busy machine"),
    "herd": ("herd_jobs", int, "how many jobs fire in one second"),
    "fires": ("fires_a_second", int, "how many fires a second are asked for"),
    "kills": ("kills", int, "how often a dispatcher is killed"),
    "limit": ("limit", float, "seconds after which a measurement is given up"),
}
"""Options that change one number of the scale."""


def plan(
    questions: Sequence[Question], stores: Sequence[str], variants: Sequence[Variant], cases: str | None, repeats: int, *, short: bool
) -> Iterator[tuple[Question, Case, str, Variant, int]]:
    """A B C, A B C: whatever the machine does in a minute, it does to all cases of a question."""
    for question in questions:
        for repeat in range(1 if short and question.is_long else repeats):
            for case in question.cases:
                if cases is not None and not any(word.strip() in case.name for word in cases.split(",")):
                    continue
                for store in case.stores:
                    if store in stores:
                        yield from ((question, case, store, variant, repeat) for variant in variants if store in variant.stores)


def measure(
    questions: Sequence[Question],
    stores: Sequence[str],
    *,
    variants: Sequence[Variant],
    cases: str | None,
    repeats: int,
    scale: Scale,
    say: Say,
    out: Path,
) -> Report:
    """Ask everything; what is found is written down after every turn."""
    report = begun(scale, repeats, {"duly": importlib.metadata.version("duly")})
    with Stores() as made:

        def turn(question: Question, case: Case, store: str, variant: Variant, repeat: int) -> Turn:
            def ask() -> Figures:
                with made.fresh(store, variant) as scratch:
                    return asyncio.run(_awaited(case, scratch, scale))

            setting = f"{case.name}, {variant.name}" if variant.name else case.name
            return Turn(question=question.name, system=store, setting=setting, title=TITLES[store], repeat=repeat, ask=ask)

        turns = [turn(*each) for each in plan(questions, stores, variants, cases, repeats, short=scale.is_short)]
        take(turns, report, say=say, out=out)
    return report


async def _awaited(case: Case, scratch: Scratch, scale: Scale) -> Figures:
    return await case.ask(scratch, scale)


def main(question: Question) -> None:
    """One question by itself: what its file does when it is run."""
    run({question.name: question}, f"python -m benchmarks.{question.name}", question.title)


def run(questions: Mapping[str, Question], program: str, about: str | None) -> None:
    """The command line of one question or of all."""
    options, began = _options(questions, program, about), time.monotonic()
    # Whoever ends us ends the servers and the workers, too: as at Ctrl-C, which an event loop passes on.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    options.out.mkdir(parents=True, exist_ok=True)
    results = options.out / "results.json"
    if options.again:
        report = read(results)
    else:
        report = measure(
            chosen(options.questions, questions),
            options.store or STORES,
            variants=USUAL if options.variants is None else chosen(options.variants, VARIANTS),
            cases=options.cases,
            repeats=options.repeat or (5 if options.full else 2),
            scale=_scale(options),
            say=lambda words: print(words, flush=True),
            out=results,
        )
    text = markdown(report, questions)
    (options.out / "results.md").write_text(text)
    plots = write_plots(report, questions, options.out)
    print(f"\n{text}\n{options.out}: results.json, results.md, {', '.join(plots)}; {(time.monotonic() - began) / 60:.0f} minutes")
    sys.exit(report.status)


def _options(questions: Mapping[str, Question], program: str, about: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=program, description=about)
    parser.add_argument("--full", action="store_true", help="in earnest: longer, more often, about two hours for all")
    parser.add_argument("--questions", metavar="QUESTIONS", help=f"of {', '.join(questions)}")
    parser.add_argument("--cases", metavar="WORDS", help="only cases whose name has one of these words, separated by commas")
    parser.add_argument("--store", choices=STORES, action="append", help="both unless it is said; may be repeated")
    parser.add_argument(
        "--variants", metavar="VARIANTS", help=f"of {', '.join(name or '(as it comes)' for name in VARIANTS)}; unless said, the first three"
    )
    parser.add_argument("--repeat", type=int, metavar="N", help="2, and once what takes long; 5 with --full")
    for name, (_, kind, words) in CHANGES.items():
        parser.add_argument(f"--{name}", type=kind, metavar="N", help=words)
    parser.add_argument("--out", type=Path, default=OUT, help="for results.json, results.md and plots (default: %(default)s)")
    parser.add_argument("--again", action="store_true", help="measure nothing: make the table and the plots anew from results.json")
    return parser.parse_args()


def _scale(options: argparse.Namespace) -> Scale:
    given = {field: value for name, (field, _, _) in CHANGES.items() if (value := getattr(options, name)) is not None}
    return dataclasses.replace(FULL if options.full else BRIEF, **given)
