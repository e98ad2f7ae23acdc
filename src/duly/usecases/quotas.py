"""What tenants may use, as it was read a moment ago.

Everything that comes in asks whether its tenant has quotas, and most have none: the answer must cost nothing. So all quotas there are
are read at once and believed for two seconds. Whoever has some is asked about again in the transaction that writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.job import JobSpec
from duly.domain.tenants import NO_QUOTAS, Quotas, check_payload
from duly.ports.clock import Clock
from duly.ports.tenants import Bounded, Tenants
from duly.ports.wall import behind_wall

TRUSTED_FOR: Micros = 2 * SECOND


def check_payloads(quotas: Quotas, spec: JobSpec) -> None:
    """Refuse a job that would send more than its tenant may: with its own payload, that of a step, or the body of a webhook."""
    if quotas.max_payload_bytes is None:
        return
    check_payload(quotas, spec.payload)
    if spec.target.http is not None:
        check_payload(quotas, spec.target.http.body, "target.http.body")
    for nth, step in enumerate(spec.steps):
        check_payload(quotas, step.payload, f"steps[{nth}].payload")
        if step.target is not None and step.target.http is not None:
            check_payload(quotas, step.target.http.body, f"steps[{nth}].target.http.body")


class Directory:
    """The quotas of all tenants that have any, believed for so long. Callers that come at once share one read."""

    def __init__(self, store: Tenants, clock: Clock, trusted_for: Micros = TRUSTED_FOR) -> None:
        self._store = store
        self._clock = clock
        self._trusted_for = trusted_for
        self._known = Bounded({}, 0)
        self._read_at: Instant | None = None
        self._reading: asyncio.Task[Bounded] | None = None
        # How often they were changed here: what was read before the last change is not kept.
        self._changes = 0

    async def all(self, newest: int = 0) -> Mapping[int, Quotas]:
        """By the numbers of the tenants; who is not in it has no quotas. At most two seconds old.

        A tenant up to the number `newest` that was not there yet is looked for at once: it had its quotas from the beginning.
        """
        if self._is_fresh() and self._known.newest >= newest:
            return self._known.quotas
        found = await self._shared_read()
        if found.newest < newest:
            # That read had begun before the tenant was made.
            self.forget()
            found = await self._shared_read()
        return found.quotas

    async def of(self, tenant: int) -> Quotas:
        """Those of one tenant."""
        return (await self.all(tenant)).get(tenant, NO_QUOTAS)

    def forget(self) -> None:
        """Somebody changed them here: whoever asks next reads anew."""
        self._changes += 1
        self._read_at = None
        self._reading = None

    def _is_fresh(self) -> bool:
        return self._read_at is not None and 0 <= self._clock.boottime() - self._read_at < self._trusted_for

    async def _shared_read(self) -> Bounded:
        if self._reading is None or self._reading.done():
            with behind_wall(None):  # the quotas of all, whoever came first
                self._reading = asyncio.create_task(self._read(), name="duly-quotas")
        # Who leaves must not take the answer away from the others.
        return await asyncio.shield(self._reading)

    async def _read(self) -> Bounded:
        # The time before the read: a slow answer must not lengthen our trust in it.
        began, changes = self._clock.boottime(), self._changes
        known = await self._store.bounded()
        if self._changes == changes:
            self._known, self._read_at = known, began
        return known
