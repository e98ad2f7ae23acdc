"""`python -m tests.simulation --seeds 0:1000`: run seeds, and show the first that fails as small as it gets."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from duly.verify.history import Call, Effect, Event, Fault
from tests.simulation.plan import Plan, as_options, plan_of, with_option
from tests.simulation.run import Outcome, run_seed
from tests.simulation.shrink import shrink
from tests.simulation.totals import Totals, run_many

CHUNK = 20
LAST_EVENTS = 200


def main() -> int:
    """The command; 1 when anything was violated or a state was never reached."""
    options = _options()
    if options.seed is not None:
        return _run_one(options)
    first, _, last = options.seeds.partition(":")
    seeds = range(int(first), int(last))
    began = time.monotonic()
    totals = Totals()
    for part in _parts(seeds, options.jobs):
        totals.merge(part)
        totals.seconds = time.monotonic() - began
        for plan, findings in part.failed:
            print(f"\nseed {plan.seed}: {findings[0]}", flush=True)
        _show_progress(totals, len(seeds))
        if totals.failed and not options.all:
            break
    print(file=sys.stderr)
    if options.json is not None:
        Path(options.json).write_text(json.dumps(totals.as_json(), indent=1) + "\n")
    if options.digests is not None:
        Path(options.digests).write_text("".join(f"{seed} {digest}\n" for seed, digest in sorted(totals.digests.items())))
    blind = totals.unreached() if len(seeds) >= 1000 and not totals.failed else []
    for told in blind:
        print(f"hardly reached: {told}")
    if totals.failed:
        _show_failure(run_seed(totals.failed[0][0]))
    print(f"{totals.seeds} seeds, {totals.fires:,} fires, {totals.events:,} events, {totals.seconds:.0f} s, {len(totals.failed)} violated")
    return 1 if totals.failed or blind else 0


def _parts(seeds: range, jobs: int) -> Iterator[Totals]:
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    if jobs == 1:
        yield from map(run_many, chunks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(run_many, chunks)


def _run_one(options: argparse.Namespace) -> int:
    plan = plan_of(options.seed)
    for change in options.set:
        plan = with_option(plan, change)
    outcome = run_seed(plan)
    if options.verbose:
        print(plan)
        print("\n".join(_told(outcome, plan)))
    if outcome.findings:
        _show_failure(outcome, smaller=not options.set)
        return 1
    digest = f"{outcome.digest & 0xFFFFFFFFFFFFFFFF:016x}"
    print(f"seed {plan.seed}: {outcome.fires} fires, {outcome.steps} steps, digest {digest}, nothing violated")
    return 0


def _show_failure(outcome: Outcome, *, smaller: bool = True) -> None:
    print(f"\nseed {outcome.plan.seed} ({_commit()}), {outcome.plan.mode}:")
    for finding in outcome.findings[:20]:
        print(f"  {finding}")
    small = shrink(outcome) if smaller else outcome
    if small is not outcome:
        print("\nshrunk:")
        for finding in small.findings[:20]:
            print(f"  {finding}")
    print(f"\nthe last {LAST_EVENTS} events:")
    print("\n".join(_told(small, small.plan)[-LAST_EVENTS:]))
    print(f"\nreplay: python -m tests.simulation {as_options(small.plan)} --verbose")


def _told(outcome: Outcome, plan: Plan) -> list[str]:
    """Everything that happened, in the order of the clock on the wall."""
    history = outcome.history
    entries: list[tuple[int, str]] = []
    for event in history.events:
        entries.append((event.at, _event(event)))
    for effect in history.effects:
        entries.append((effect.at, _effect(effect)))
    for call in history.calls:
        entries.append((call.invoked_at, _call(call)))
    for fault in history.faults:
        entries.append((fault.since, _fault(fault, plan)))
    entries.sort(key=lambda entry: entry[0])
    return [f"{(at - plan.start) / 1e6:12.6f}  {text}" for at, text in entries]


def _event(event: Event) -> str:
    about = " ".join(
        f"{name}={value}"
        for name in ("job", "run", "attempt", "fence", "worker", "shard", "epoch")
        if (value := getattr(event, name)) is not None
    )
    return f"S {event.seq} {event.kind} by {event.actor} {about} {event.data}"


def _effect(effect: Effect) -> str:
    return f"E {effect.phase} on {effect.node} {effect.run} attempt={effect.attempt} fence={effect.fence} accepted={effect.accepted}"


def _call(call: Call) -> str:
    return f"C {call.op} {call.status} after {(call.ended_at - call.invoked_at) / 1e6:.3f} s {call.job or ''} {call.key or ''} {call.body}"


def _fault(fault: Fault, plan: Plan) -> str:
    until = "open" if fault.until is None else f"{(fault.until - plan.start) / 1e6:.3f}"
    return f"N {fault.kind} until {until} {' '.join(fault.nodes)} {fault.about or ''}"


def _show_progress(totals: Totals, all_of: int) -> None:
    rate = totals.seeds / max(totals.seconds, 0.001)
    reached = sum(1 for count in totals.reached.values() if count)
    print(
        f"\r{totals.seeds}/{all_of} seeds, {rate:.1f}/s, {len(totals.failed)} violated, {reached} states reached ",
        end="",
        file=sys.stderr,
        flush=True,
    )


def _commit() -> str:
    told = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return told.stdout.strip() or "no commit"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Run seeds of the deterministic simulation.")
    parser.add_argument("--seeds", default="0:1000", help="from:to, to not included")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, help="one seed alone")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="replace a part of the seed's plan")
    parser.add_argument("--verbose", action="store_true", help="tell everything that happened")
    parser.add_argument("--all", action="store_true", help="do not stop at the first violation")
    parser.add_argument("--json", metavar="FILE", help="write the totals there")
    parser.add_argument("--digests", metavar="FILE", help="write what each seed came to there, to compare it with another run")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
