"""Asking whether a tenant's quotas have room for more, inside the transaction that writes it: the same text on both engines.

Whoever asks holds the tenant's row of `headroom` until it commits, so of many who ask at once each sees what the others were
granted. Only tenants that have the quota are asked about: all others take no lock and pay nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from duly.adapters.sql.engine import Action, Call, one
from duly.domain.errors import TooLarge, TooMany
from duly.domain.execution import Fire, NewExecution
from duly.domain.headroom import Answer, Headroom, too_many_fires, too_many_jobs, too_many_queued, wait_for_window
from duly.domain.ids import ExecutionId
from duly.domain.instants import SECOND, Instant
from duly.ports.dispatch import Admission

# Kinds of headroom.
JOBS, QUEUED = 0, 1
# How far back a second may count at most.
WINDOW = 61


def admit_jobs(tenant: int, wanted: int, now: Instant) -> Action[None]:
    """Make room for so many more live jobs. Raises TooMany or TooLarge, and then nothing of the transaction may stay."""
    if one((yield Call("quotas_now", {"tenant": tenant})))["max_jobs"] is None:
        return
    room = yield from _hold(tenant, JOBS)
    quota = one((yield Call("quotas_now", {"tenant": tenant})))["max_jobs"]
    if quota is None:
        return
    if not (yield from _has_room("count_live_jobs", room, tenant, wanted, quota, now)):
        raise too_many_jobs(quota, wanted)
    room.granted += wanted
    yield from _keep(room, tenant, JOBS)


def admit_executions(tenant: int, sizes: Sequence[int], now: Instant) -> Action[list[TooMany | TooLarge | None]]:
    """Make room for several calls, each whole or not at all, in their order. Answers the refusals; None is admitted."""
    room = yield from _hold(tenant, QUEUED)
    quotas = one((yield Call("quotas_now", {"tenant": tenant})))
    queued, rate = quotas["max_queued"], quotas["max_fires_per_minute"]
    starts: dict[int, int] = {}
    second = now // SECOND
    if rate is not None:
        rows = yield Call("fires_since", {"tenant": tenant, "second": second - WINDOW})
        starts = {row["second"]: row["count"] for row in rows}
    answers: list[TooMany | TooLarge | None] = []
    admitted = 0
    for wanted in sizes:
        refusal: TooMany | TooLarge | None = None
        if queued is not None and not (yield from _has_room("count_queued", room, tenant, wanted, queued, now, admitted)):
            refusal = too_many_queued(queued, wanted)
        elif rate is not None and (wait := wait_for_window(starts, wanted, rate, now)) is not None:
            refusal = too_many_fires(rate, wanted, wait)
        else:
            room.granted += wanted
            starts[second] = starts.get(second, 0) + wanted
            admitted += wanted
        answers.append(refusal)
    if queued is not None:
        yield from _keep(room, tenant, QUEUED)
    if rate is not None and admitted:
        yield Call("note_fires", {"tenant": tenant, "second": second, "count": admitted})
    return answers


def enqueue_admitted(
    calls: Sequence[Sequence[NewExecution]], now: Instant, write: Callable[[Sequence[NewExecution]], Action[dict[ExecutionId, ExecutionId]]]
) -> Action[Admission]:
    """Let `write` write those calls of one tenant for which there is room."""
    refusals = yield from admit_executions(calls[0][0].tenant, [len(call) for call in calls], now)
    admitted = [item for call, refusal in zip(calls, refusals, strict=True) if refusal is None for item in call]
    return Admission(refusals, (yield from write(admitted)) if admitted else {})


def admit_each(executions: Iterable[NewExecution], now: Instant) -> Action[None]:
    """Make room for those of them whose tenants have quotas. Raises TooMany or TooLarge, and then nothing of the transaction may stay."""
    for tenant, wanted in sorted(Counter(item.tenant for item in executions if item.within_quota).items()):
        [refusal] = yield from admit_executions(tenant, [wanted], now)
        if refusal is not None:
            raise refusal


def note_fires(fires: Iterable[Fire], now: Instant) -> Action[None]:
    """Scheduled fires are promises: they count, and are never refused."""
    gated = [fire for fire in fires if fire.gates and fire.skip is None]
    if not gated:
        return
    counted = Counter(fire.tenant for fire in gated if any(gate.kept and gate.lasts is not None for gate in fire.gates))
    for tenant, count in sorted(counted.items()):
        yield Call("note_fires", {"tenant": tenant, "second": now // SECOND, "count": count})


def _hold(tenant: int, kind: int) -> Action[Headroom]:
    """The headroom, locked until the transaction ends."""
    row = one((yield Call("lock_headroom", {"tenant": tenant, "kind": kind})))
    if row is None:
        yield Call("make_headroom", {"tenant": tenant, "kind": kind})
        row = one((yield Call("lock_headroom", {"tenant": tenant, "kind": kind})))
    return Headroom(row["counted"], row["granted"], row["counted_at"])


def _keep(room: Headroom, tenant: int, kind: int) -> Action[None]:
    params = {"counted": room.counted, "granted": room.granted, "counted_at": room.counted_at}
    yield Call("set_headroom", params | {"tenant": tenant, "kind": kind})


def _has_room(count: str, room: Headroom, tenant: int, wanted: int, quota: int, now: Instant, unwritten: int = 0) -> Action[bool]:
    answer = room.ask(wanted, quota, now)
    if answer is Answer.COUNT:
        room.learn(one((yield Call(count, {"tenant": tenant, "most": quota + 1})))["n"], now, unwritten)
        answer = room.ask(wanted, quota, now)
    return answer is Answer.ADMIT
