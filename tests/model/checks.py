"""What must hold in every state and on every step, whatever the guards in the ledger believe.

The numbers are those of the guarantees. `of_state` looks at a state alone; `of_step` at what a step did, against the state before.
"""

from __future__ import annotations

from collections.abc import Iterator

from duly.domain.lifecycle import COSTS_AN_ATTEMPT, Outcome, is_final, may_become
from tests.model.ledger import LOST, RETRY, Event, Ledger, state_of
from tests.model.protocol import World


def of_state(world: World) -> Iterator[str]:
    """What is wrong with this state."""
    ledger = world.ledger
    targets = [run.target for run in ledger.runs]
    if len(set(targets)) < len(targets):
        yield "I2: a target has two executions"
    places = [row.run for lease in ledger.leases for row in lease.members]
    if len(set(places)) < len(places):
        yield "I4: an execution stands in two live leases"
    places += [row.run for row in (*ledger.ready, *ledger.timers)]
    for nth, run in enumerate(ledger.runs):
        if len(run.outcomes) > 1:
            yield f"I3: run {nth} has two outcomes"
        elif places.count(nth) + len(run.outcomes) != 1:
            yield f"I18: run {nth} stands in {places.count(nth) + len(run.outcomes)} places"
        if sum(end.outcome in COSTS_AN_ATTEMPT for end in run.ends) > RETRY.max_attempts:
            yield f"I10: run {nth} failed more often than it may"
        if sum(end.outcome is Outcome.WORKER_LOST for end in run.ends) > RETRY.max_losses:
            yield f"I10: run {nth} was lost more often than it may"
    for row in (*ledger.ready, *ledger.timers):
        if row.attempt != len(ledger.runs[row.run].ends) + 1:
            yield f"I10: run {row.run} waits for attempt {row.attempt} after {len(ledger.runs[row.run].ends)}"
        if row.failures != sum(end.outcome in COSTS_AN_ATTEMPT for end in ledger.runs[row.run].ends):
            yield f"I10: run {row.run} is charged {row.failures} failures"
    yield from _trust(world)


def _trust(world: World) -> Iterator[str]:
    """Nobody's work is given away while they trust themselves: two handlers of one execution are never both trusted."""
    ledger = world.ledger
    live = {(lease.fence, row.run) for lease in ledger.leases for row in lease.members}
    for nth, worker in enumerate(world.workers):
        if not worker.trust:
            continue
        if ledger.lives[worker.number] == LOST:
            yield f"T: worker {nth} trusts itself and is buried"
        elif ledger.lives[worker.number] <= 0:
            yield f"T: worker {nth} trusts itself past its time"
        for held in worker.held:
            if held.report is None and (held.fence, held.row.run) not in live:
                yield f"T: worker {nth} runs {held.row.run} under a lease that is gone"


def of_step(before: Ledger, events: tuple[Event, ...], after: Ledger) -> Iterator[str]:
    """What is wrong with this step."""
    held = {row.run: lease.fence for lease in before.leases for row in lease.members}
    for event in events:
        match event.kind:
            case "epoch":
                if event.number <= before.epoch:
                    yield f"I9: epoch {event.number} follows {before.epoch}"
            case "fired" | "promoted" | "moved":
                if event.number < before.epoch:
                    yield f"I9: a write under epoch {event.number} at epoch {before.epoch}"
                if event.kind == "fired" and any(run.target == event.about for run in before.runs):
                    yield f"I2: target {event.about} fires again"
                if event.kind == "fired" and event.about > before.clock:
                    yield f"I6: target {event.about} fires at {before.clock}"
                if event.kind == "promoted" and event.detail:
                    yield f"I6: a retry {event.detail} turns before its time"
                if event.kind == "moved" and event.about <= before.next_target:
                    yield f"I2: the schedule goes back from {before.next_target} to {event.about}"
            case "granted":
                if event.number <= before.fence:
                    yield f"I4: fence {event.number} follows {before.fence}"
                if before.runs[event.about].wish == 2:
                    yield f"I13: run {event.about} is leased after its cancel was answered"
                if before.runs[event.about].outcomes:
                    yield f"I3: run {event.about} is leased after its end"
            case "ended" | "saved":
                if held.get(event.about) != event.number:
                    yield f"I5: {event.kind} under fence {event.number}, which does not hold run {event.about}"
                if event.kind == "saved" and before.runs[event.about].checkpoint > after.runs[event.about].checkpoint:
                    yield f"I15: checkpoint {event.detail} follows {before.runs[event.about].checkpoint}"
    for nth, run in enumerate(before.runs):
        was, now = state_of(before, nth), state_of(after, nth)
        if was is not now and not may_become(was, now):
            yield f"I18: run {nth} goes from {was.name} to {now.name}"
        if run.outcomes and after.runs[nth].outcomes != run.outcomes and is_final(was):
            yield f"I3: run {nth} ends again"
