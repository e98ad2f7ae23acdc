"""The worker: claims, hands over to its runners, reports.

One step finishes what has ended and claims what there is room for, side by side on two connections. Short
handlers get large batches (the appetite doubles while everything ends at once); as soon as handlers wait, the
worker takes no more than its slots need, and gives back what waits behind them.

Every write carries the lease: what the store refuses was given to another worker and is dropped here. And
because the worker's own heartbeat keeps its leases alive, it must never hold one that it does not know: a
claim whose answer is unknown is asked for before the next one, and every half minute what the store says it
holds is compared with what it has.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from duly.domain.errors import Unavailable
from duly.domain.execution import Claimed, Finished, LeaseId, WorkerId
from duly.domain.fairness import Ask, Work, kept_open, share_out, slots_kept, within_rooms
from duly.domain.ids import ExecutionId
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.lifecycle import Outcome, State
from duly.domain.secrets import has_marks
from duly.domain.serving import Needs, misfits
from duly.ports.clock import Clock, Entropy
from duly.ports.handlers import Attempt, Kept, Places, Registry
from duly.ports.secrets import Secrets
from duly.ports.store import Checkpoints, Outcomes, ReadyQueue
from duly.ports.versions import Versions
from duly.roles.heartbeat import Heartbeat
from duly.roles.keeper import CheckpointKeeper
from duly.roles.log_pump import LogPump
from duly.roles.loop import Step
from duly.roles.plans import Plan, Plans
from duly.roles.runners import Runners

log = logging.getLogger("duly.worker")

COUNTED_TO = 64
LONG_AGO: Micros = -(1 << 60)
# Looking who has work may take a quarter of the time: what comes in for a tenant that had nothing waits no longer than that for a look.
LOOKS_PER_WORTH = 4
# Who had work within this time may have some again at any moment, and must not wait behind a large batch of somebody else's.
NEIGHBOUR_FOR: Micros = 10 * SECOND
# A version that this release cannot read belongs to a newer worker: back to the queue, for a while.
UNREADABLE_WAIT: Micros = 10 * SECOND


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What it serves and how much at once. `poll` is the truth; hints only make it earlier."""

    name: str
    pool: str = "default"
    labels: dict[str, str] = field(default_factory=dict)
    slots: int = 50
    largest_batch: int = 1000
    # The same while several tenants have work: each waits for the other's batch to end.
    largest_shared_batch: int = 200
    poll: float = 0.5
    look_for_work_every: Micros = 100_000
    look_for_routes_every: Micros = SECOND
    compare_every: Micros = 30 * SECOND
    buffer_patience: Micros = SECOND


class Worker:
    """One worker process's life between a registration and its loss or retirement."""

    name = "worker"

    def __init__(
        self,
        settings: WorkerSettings,
        heartbeat: Heartbeat,
        ready: ReadyQueue,
        outcomes: Outcomes,
        definitions: Versions,
        checkpoints: Checkpoints,
        registry: Registry,
        clock: Clock,
        entropy: Entropy,
        secrets: Secrets | None = None,
    ) -> None:
        self.settings = settings
        self.heartbeat = heartbeat
        self.wake = asyncio.Event()
        self.draining = False
        self.refused = 0
        self._id: WorkerId = heartbeat.worker
        self._ready = ready
        self._outcomes = outcomes
        self._registry = registry
        self._clock = clock
        self._plans = Plans(definitions, registry, secrets)
        self._keeper = CheckpointKeeper(checkpoints, heartbeat, clock)
        self._logs = LogPump(outcomes, checkpoints, clock)
        self._runners = Runners(settings.slots, heartbeat, clock, entropy, self._logs, self.wake)
        self._held: dict[LeaseId, int] = {}
        self._claim_is_unknown = False
        # What is on its way to the store: it has left the runners, and the store may still say that we hold it.
        self._reporting: set[ExecutionId] = set()
        self._compared_at = clock.boottime()
        self._routes: list[int] = []
        # Routes whose handler takes several executions in one call, and how many; and those whose handler needs more than a slot.
        self._batches: dict[int, int] = {}
        self._places: dict[int, Places] = {}
        self._routes_looked_at = LONG_AGO
        self._work: list[Work] = []
        self._work_looked_at = LONG_AGO
        self._work_is_worth: Micros = 0
        # When each tenant was last seen with work, and its weight.
        self._seen: dict[int, tuple[Micros, int]] = {}
        self._credit: dict[int, float] = {}
        self._appetite = settings.slots
        self._is_cut = False

    async def step(self, now: Instant) -> Step:
        """Report what has ended, take what there is room for."""
        self.wake.clear()
        if not self.heartbeat.is_trusted:
            self._runners.forget()
            self._held.clear()
            return Step(self.settings.poll, {"untrusted": 1})
        self._runners.stop_what_is_over()
        self._give_back_what_waits_too_long()
        await self._compare()
        # Taken before the logs are sent: what ends meanwhile is reported in the next step, after its own last lines.
        done, self._runners.done = self._runners.done, []
        try:
            await self._logs.send(self._id, self._runners.speaking())
        except BaseException:
            self._runners.done = done + self._runners.done
            raise
        finished, claimed = await asyncio.gather(self._finish(done, now), self._claim(now), return_exceptions=True)
        if isinstance(finished, BaseException):
            raise finished
        if isinstance(claimed, BaseException):
            raise claimed
        did = {"finished": len(done), "claimed": claimed, "refused": self.refused}
        ended, is_busy = len(self._runners.done), self._runners.is_busy
        if (self._is_cut and claimed) or self._runners.breath.is_enough(ended) or (not is_busy and (claimed or ended)):
            return Step(0.0, did)
        return Step(min(self.settings.poll, 0.25) if self._runners.running else self.settings.poll, did)

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, waits to run, or waits to be reported."""
        return self._runners.is_idle and not self._reporting

    @property
    def left_behind(self) -> int:
        """How many handlers would not stop and still run: each holds a slot, and nothing they do counts."""
        return self._runners.left_behind

    def release_all(self) -> None:
        """Give back what has not ended, at no cost in attempts."""
        self._runners.release_all()

    def on_news(self) -> Callable[[], None]:
        """A callback for the heartbeat's thread: the worker looks at once."""
        loop = asyncio.get_running_loop()

        def ring() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self.wake.set)

        return ring

    # ------------------------------------------------------------ claiming

    def _room(self) -> int:
        runners, slots = self._runners, self.settings.slots
        if self.draining or runners.buffer or runners.free <= 0:
            return 0
        at_once = self._at_once
        if runners.calls > slots // 4:
            # Handlers wait here: what we took beyond our slots would wait as well, though another worker may be free.
            self._appetite = slots
        elif runners.longest_run > at_once // 2:
            self._appetite *= 2
        largest = self.settings.largest_batch if len(self._seen) < 2 else self.settings.largest_shared_batch
        self._appetite = min(self._appetite, max(largest, slots))
        runners.longest_run = 0
        room = max(runners.free, self._appetite - runners.calls - runners.left_behind)
        self._is_cut = self._appetite <= slots and at_once < room
        return room

    @property
    def _at_once(self) -> int:
        """How many handlers that wait begin together: what begins together ends together, and others would wait for all of it."""
        slots = self.settings.slots
        return slots if len(self._seen) < 2 else min(slots, max(slots // 4, 2))

    def _give_back_what_waits_too_long(self) -> None:
        runners = self._runners
        if runners.buffer and runners.free <= 0 and self._clock.boottime() - runners.buffered_at > self.settings.buffer_patience:
            runners.release_buffer()

    async def _claim(self, now: Instant) -> int:
        room = self._room()
        if not room:
            return 0
        if self._claim_is_unknown:
            await self._adopt()
        asks = await self._look_for_work(room)
        if not asks:
            return 0
        # Until what was claimed is in our hands, the lease may exist without our knowing, kept alive by our own heartbeat.
        self._claim_is_unknown = True
        claimed = await self._ready.claim(self._id, asks, now)
        if claimed is not None:
            await self._take_in(claimed)
        self._claim_is_unknown = False
        if claimed is None or len(claimed.ids) < sum(ask.quota for ask in asks):
            # Somebody was faster, or the queue is shorter than we knew.
            self._work_looked_at = LONG_AGO
        return 0 if claimed is None else len(claimed.ids)

    async def _adopt(self) -> None:
        """Run what the store says we hold and we do not know. What is being reported meanwhile is known: it must not run twice."""
        before = self._runners.known() | self._reporting
        for held in await self._ready.held_by(self._id):
            unknown = [nth for nth, id in enumerate(held.ids) if id not in before and id not in self._runners.known()]
            if unknown:
                await self._take_in(held.part(unknown))
        self._claim_is_unknown = False

    async def _compare(self) -> None:
        """Twice a minute: a claim may commit long after its connection broke, and no runner may lose an attempt unseen."""
        if self._clock.boottime() - self._compared_at >= self.settings.compare_every and not self.draining:
            self._compared_at = self._clock.boottime()
            await self._adopt()

    async def _look_for_work(self, room: int) -> list[Ask]:
        """What to ask for. Both looks are kept for a moment. One that leaves nothing to ask for is taken again at once: somebody rang. And
        when that finds nothing, the next step looks at the routes as well: what is new may stand on a route that is new."""
        now = self._clock.boottime()
        if now - self._routes_looked_at >= self.settings.look_for_routes_every:
            await self._look_for_routes()
        # While others are about, nothing is asked for before everybody was looked at.
        is_old = len(self._seen) > 1 or now - self._work_looked_at >= min(self._work_is_worth, self.settings.look_for_work_every)
        if is_old:
            await self._look(now)
        asks = self._shared_out(room)
        if not asks and not is_old:
            await self._look(now)
            asks = self._shared_out(room)
        if not asks:
            self._routes_looked_at = self._work_looked_at = LONG_AGO
        return [self._in_batches(ask) for ask in asks] if self._batches else asks

    async def _look(self, now: Micros) -> None:
        self._work = await self._ready.work(self._routes, COUNTED_TO) if self._routes else []
        self._work_looked_at = now
        self._work_is_worth = LOOKS_PER_WORTH * (self._clock.boottime() - now)
        self._seen |= {item.tenant: (now, item.weight) for item in self._work}
        self._seen = {tenant: (at, weight) for tenant, (at, weight) in self._seen.items() if now - at < NEIGHBOUR_FOR}

    def _shared_out(self, room: int) -> list[Ask]:
        work = self._with_a_place() if self._places else self._work
        most = self._most_of_each(room) if len(self._seen) > 1 else None
        budget = self._at_once if self._is_cut else room
        return share_out(budget, work, self._credit, counted_to=COUNTED_TO, most=most)

    def _most_of_each(self, room: int) -> dict[int, int]:
        """What each tenant may take while others are about."""
        slots = self.settings.slots
        weights = {tenant: weight for tenant, (_, weight) in self._seen.items()}
        running = Counter(call.plan.version.tenant for call in self._runners.running.values())
        return kept_open(room, slots, slots_kept(slots), running, weights)

    def _with_a_place(self) -> list[Work]:
        """The work that could begin: no more for handlers with places of their own than there are places."""
        room_of = {route: id(places) for route, places in self._places.items()}
        return within_rooms(self._work, room_of, {id(places): places.free for places in self._places.values()})

    def _in_batches(self, ask: Ask) -> Ask:
        """A slot of a batch handler is filled by a whole batch."""
        batch = self._batches.get(ask.route, 1)
        return ask if batch == 1 else Ask(ask.route, ask.tenant, min(ask.quota * batch, max(self.settings.largest_batch, batch)))

    async def _look_for_routes(self) -> None:
        offered = self._registry.by_name
        routes = [
            route
            for route in await self._ready.routes()
            if not misfits(self.settings.pool, self.settings.labels, offered, Needs(route.pool, route.labels, route.handler))
        ]
        self._routes = [route.number for route in routes]
        self._batches = {route.number: batch for route in routes if (batch := offered[route.handler].batch) > 1}
        self._places = {route.number: places for route in routes if (places := offered[route.handler].places) is not None}
        self._routes_looked_at = self._clock.boottime()

    async def _take_in(self, claimed: Claimed) -> None:
        plans = await self._plans.of(claimed.job_versions, self._clock.boottime())
        lease, clock, name, keeper, marked = claimed.lease, self._clock.now, self.settings.name, self._keeper.keep, claimed.marked
        rows = zip(
            claimed.ids,
            claimed.attempts,
            claimed.failures,
            claimed.job_versions,
            claimed.due_ats,
            claimed.holds_place,
            claimed.payloads,
            claimed.scheduled_ats,
            strict=True,
        )
        readable: list[tuple[Attempt, Plan]] = []
        for id, attempt, failures, number, due_at, holds_place, payload, scheduled_at in rows:
            plan = plans.get(number)
            if plan is None:
                self._runners.done.append(_released(id, lease, self._clock.now()))
            else:
                made = Attempt(id, attempt, failures, lease, due_at, plan.version, payload, clock, name, holds_place, keeper)
                if scheduled_at != due_at:
                    made.nominal_at = scheduled_at
                if marked and has_marks(payload):
                    made.marked = True
                readable.append((made, plan))
        if max(claimed.attempts) > 1:
            await self._remember([(attempt, plan) for attempt, plan in readable if attempt.attempt > 1])
        self._held[lease] = self._held.get(lease, 0) + len(claimed.ids)
        self._runners.take_in(readable)

    async def _remember(self, again: Sequence[tuple[Attempt, Plan]]) -> None:
        """What earlier attempts have left: the last checkpoint, and how many of their processes died."""
        saved = await self._keeper.saved([attempt.id for attempt, _ in again])
        for attempt, plan in again:
            if (last := saved.get(attempt.id)) is not None and last.number:
                attempt.extras.kept = Kept(last.number, last.checkpoint)
            if plan.may_die:
                attempt.extras.losses = await self._outcomes.losses(attempt.id)

    # ------------------------------------------------------------ reporting

    async def _finish(self, done: list[Finished], now: Instant) -> None:
        if not done:
            return
        self._reporting = {item.id for item in done}
        try:
            await self._send(done, now)
        except Unavailable:
            raise
        except Exception:
            log.exception("a finish of %d attempts failed; they are reported one by one", len(done))
            await self._send_singly(done, now)
        finally:
            self._reporting = set()

    async def _send(self, done: list[Finished], now: Instant) -> None:
        """Report. Whatever happens, nothing is forgotten: an unknown finish is sent again, and counts once."""
        left = dict(self._held)
        for item in done:
            left[item.lease] = left.get(item.lease, 0) - 1
        closing = [lease for lease in {item.lease for item in done} if left[lease] <= 0]
        try:
            refused = await self._outcomes.finish(self._id, done, closing, now)
        except BaseException as error:
            if isinstance(error, Unavailable | asyncio.CancelledError):
                self._runners.done = done + self._runners.done
            raise
        for item in done:
            self._held[item.lease] = self._held.get(item.lease, 0) - 1
        for lease in closing:
            self._held.pop(lease, None)
        if refused:
            self.refused += len(refused)
            log.warning("the store refused %d finished attempts: their leases were lost", len(refused))

    async def _send_singly(self, done: Sequence[Finished], now: Instant) -> None:
        """One attempt that cannot be stored must not take its neighbours down: it is dead, and says why."""
        for nth, item in enumerate(done):
            try:
                try:
                    await self._send([item], now)
                except Unavailable:
                    raise
                except Exception as error:
                    await self._send([_poisoned(item, error)], now)
            except BaseException:
                self._runners.done = list(done[nth + 1 :]) + self._runners.done
                raise


def _released(id: ExecutionId, lease: LeaseId, now: Instant) -> Finished:
    return Finished(id, lease, Outcome.RELEASED, State.SCHEDULED, now, now, UUID(int=0), 0, False, retry_at=now + UNREADABLE_WAIT)


def _poisoned(item: Finished, error: Exception) -> Finished:
    told = f'{{"type":"NotStored","message":"its outcome could not be stored ({type(error).__name__})"}}'
    return replace(item, outcome=Outcome.FAILED, state=State.DEAD, result=None, error=told, retry_at=None)
