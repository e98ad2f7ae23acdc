"""The worker: claims, hands over to its runners, reports.

Taking and reporting do not wait for each other: whoever becomes ready while a report waits for the disk is
claimed meanwhile. Each is stepped on its own, one step at a time; `step` is both of them once, side by side. But what
has ended must not pile up: while twice as much of it as is taken at once is not in the store, nothing is taken.

Short handlers get large batches (the appetite grows while everything ends at once); as soon as handlers wait, the
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
from dataclasses import dataclass, field

from duly.domain.announcements import Named
from duly.domain.execution import Claimed, WorkerId
from duly.domain.fairness import Ask, Work
from duly.domain.instants import SECOND, Instant, Micros
from duly.ports.clock import Clock, Entropy
from duly.ports.handlers import Registry
from duly.ports.parents import NoParents, Parents
from duly.ports.secrets import Secrets
from duly.ports.store import Checkpoints, Outcomes, ReadyQueue
from duly.ports.versions import Versions
from duly.roles.ancestry import Ancestors
from duly.roles.arrivals import Arrivals
from duly.roles.habit import Habit
from duly.roles.heartbeat import Heartbeat
from duly.roles.inbox import Inbox
from duly.roles.keeper import CheckpointKeeper
from duly.roles.log_pump import LogPump
from duly.roles.loop import Step, both
from duly.roles.neighbours import COUNTED_TO, Neighbours
from duly.roles.plans import Plans
from duly.roles.reports import AGAIN, Reports
from duly.roles.runners import Runners
from duly.roles.served import Served

log = logging.getLogger("duly.worker")

LONG_AGO: Micros = -(1 << 60)
# Looking who has work may take a quarter of the time: what comes in for a tenant that had nothing waits no longer than that for a look.
LOOKS_PER_WORTH = 4
# Where tenants share, claims follow one another on guesses for so long after a look: who is new waits for the next.
GUESS_FOR: Micros = 25_000
_NOTHING = Step(0.0, {"finished": 0, "refused": 0})


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What it serves and how much at once. `poll` is the truth; hints only make it earlier."""

    name: str
    pool: str = "default"
    labels: dict[str, str] = field(default_factory=dict)
    slots: int = 50
    largest_batch: int = 2000
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
        inbox: Inbox | None = None,
        parents: Parents | None = None,
        wake: asyncio.Event | None = None,
        to_report: asyncio.Event | None = None,
    ) -> None:
        self.settings = settings
        self.heartbeat = heartbeat
        # Set when there is something to look at; whoever steps it may bring an event of his own.
        self.wake = wake or asyncio.Event()
        # The same for reports; another event only for who steps them on their own.
        self.to_report = to_report or self.wake
        self.draining = False
        self._id: WorkerId = heartbeat.worker
        self._ready = ready
        self._outcomes = outcomes
        self._clock = clock
        # What others have named to this worker; None where the transport carries no names.
        self._inbox = inbox
        self._plans = Plans(definitions, registry, secrets)
        self._logs = LogPump(outcomes, checkpoints, clock)
        self._runners = Runners(settings.slots, heartbeat, clock, entropy, self._logs, self.wake, self.to_report)
        self._reports = Reports(self._id, outcomes, self._runners, self._logs)
        keeper, ancestors = CheckpointKeeper(checkpoints, heartbeat, clock), Ancestors(parents or NoParents(), heartbeat)
        self._arrivals = Arrivals(settings.name, self._plans, keeper, ancestors, outcomes, clock)
        self._claim_is_unknown = False
        self._waits_for_report = False
        self._compared_at = clock.boottime()
        self._served = Served(settings.pool, settings.labels, registry, settings.largest_batch)
        self._routes_looked_at = LONG_AGO
        self._work: list[Work] = []
        self._work_looked_at = LONG_AGO
        self._work_is_worth: Micros = 0
        self._neighbours = Neighbours(settings.slots)
        self._habit = Habit()
        # Whether the last look has shown a queue that is new; whether the last claim was a guess that no look has followed, or one must.
        self._has_new = self._is_guessed = self._looks_again = False
        # Route and tenant of the queue that alone has something, if whoever steps it knows: the next step asks for that without a look.
        self.expected: tuple[int, int] | None = None
        self._appetite = settings.slots
        self._is_cut = False

    async def step(self, now: Instant) -> Step:
        """Report what has ended, take what there is room for, and wait for both."""
        if not await self._look_after():
            # What was to be reported is forgotten: whoever waits for it as well must not find it there again and again.
            self.to_report.clear()
            return Step(self.settings.poll, {"untrusted": 1})
        if self._runners.buffer:
            # What was taken a moment ago begins first: then it is seen how much room it has left.
            await asyncio.sleep(0)
        # A task is worth it only where there are two things to do.
        if not self._has_to_tell:
            self.to_report.clear()
            reported, claimed = _NOTHING, await self._claim(now)
        elif not self._may_take:
            self._is_guessed, self._looks_again, self.expected = False, False, None
            reported, claimed = await self.report(now), 0
        else:
            claimed, reported = await both(self._claim(now), self.report(now))
        return Step(self._rest(len(self._runners.done), claimed), reported.did | {"claimed": claimed})

    async def take(self, now: Instant) -> Step:
        """The one half: stop what has to stop, take what there is room for."""
        if not await self._look_after():
            return Step(self.settings.poll, {"untrusted": 1})
        if self._runners.buffer:
            await asyncio.sleep(0)
        claimed = await self._claim(now)
        return Step(self._rest(self._runners.freed, claimed), {"claimed": claimed})

    async def report(self, now: Instant) -> Step:
        """The other half: report what has ended."""
        self.to_report.clear()
        if not self.heartbeat.is_trusted:
            return Step(self.settings.poll)
        done, refused = self._runners.report(), self.refused
        await self._reports.send(done, now)
        if self._waits_for_report:
            self._waits_for_report = False
            self.wake.set()
        wait = AGAIN if self._reports.doubtful else 0.0 if self._may_go_on(len(self._runners.done)) else self._pause
        return Step(wait, {"finished": len(done), "refused": self.refused - refused})

    @property
    def _has_to_tell(self) -> bool:
        """Whether there is anything for a report: an end, or what handlers have said."""
        return bool(self._runners.done or self._logs.has_ended or (self._runners.running and self._runners.speaking()))

    @property
    def _may_take(self) -> bool:
        """Whether it is worth a look how much there is room for."""
        return not self.draining and not self._runners.buffer and self._runners.free > 0

    def look_at_routes(self) -> None:
        """There may be new ones: the next look is at them as well."""
        self._routes_looked_at = LONG_AGO

    async def watch(self, now: Instant) -> Step:
        """Beside both halves: stop what has to stop, also while they wait for a store that does not answer."""
        self._stop_what_is_over()
        return Step(self._pause)

    def _stop_what_is_over(self) -> bool:
        """False when the leases are lost, and all that was done under them."""
        if not self.heartbeat.is_trusted:
            self._runners.forget()
            self._reports.forget()
            return False
        if self._runners.running:
            self._runners.stop_what_is_over()
        return True

    async def _look_after(self) -> bool:
        """Stop what has to stop, and give back what waits too long. False when the leases are lost."""
        self.wake.clear()
        self._runners.look()
        if not self._stop_what_is_over():
            return False
        if self._runners.buffer:
            self._give_back_what_waits_too_long()
        if not self.draining and self._clock.boottime() - self._compared_at >= self.settings.compare_every:
            # Twice a minute: a claim may commit long after its connection broke, and no runner may lose an attempt unseen.
            self._compared_at = self._clock.boottime()
            await self._adopt()
        return True

    def _rest(self, ended: int, claimed: int) -> float:
        """How long there is nothing to take."""
        if self._may_go_on(ended, claimed) or self._looks_again or (self._is_cut and claimed):
            return 0.0
        return min(self._pause, GUESS_FOR / SECOND) if self._is_guessed else self._pause

    def _may_go_on(self, ended: int, claimed: int = 0) -> bool:
        """Whether there is something to do at once. What was claimed is being run: whoever ends, or has emptied the buffer, wakes us."""
        runners = self._runners
        return not runners.buffer and (runners.taking.is_enough(ended) or (not runners.is_busy and ended + claimed > 0))

    @property
    def _pause(self) -> float:
        return min(self.settings.poll, 0.25) if self._runners.running else self.settings.poll

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, waits to run, or waits to be reported."""
        return self._runners.is_idle and not self._reports.sending

    @property
    def has_ended(self) -> bool:
        """Whether something has ended and is not on its way to the store."""
        return bool(self._runners.done)

    @property
    def refused(self) -> int:
        """How many ends the store would not have: their leases were lost."""
        return self._reports.refused

    @property
    def next_limit(self) -> Micros | None:
        """The boottime at which a handler has to be stopped, or one that was asked to stop is ended; None while there is none."""
        limits = [limit for call in self._runners.running.values() if (limit := call.next_limit) is not None]
        return min(limits, default=None)

    @property
    def left_behind(self) -> int:
        """How many handlers would not stop and still run: each holds a slot, and nothing they do counts."""
        return self._runners.left_behind

    async def settle_claim(self) -> None:
        """Who claims no more asks once for what he may have claimed last: with him it would be lost."""
        if self._claim_is_unknown:
            await self._adopt()

    def release_all(self) -> None:
        """Give back what has not ended, at no cost in attempts."""
        self._runners.release_all()

    def close(self) -> None:
        """Nobody steps it any more: no handler begins, and who is cancelled now is cancelled for good."""
        self._runners.is_closed = True

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
        calls, free = runners.calls, runners.free
        if self.draining or runners.buffer or free <= 0:
            return 0
        self._waits_for_report = len(runners.done) + len(self._reports.sending) >= 2 * max(self._appetite, slots)
        if self._waits_for_report:
            return 0
        at_once = self._neighbours.at_once
        if calls > slots // 4:
            # Handlers wait here: what we took beyond our slots would wait as well, though another worker may be free.
            self._appetite = slots
        elif runners.longest_run > at_once // 2:
            self._appetite *= 4  # 200 that are due at one instant: two claims of a worker with 50 slots, not three.
        largest = self.settings.largest_shared_batch if self._neighbours.are_several else self.settings.largest_batch
        self._appetite = min(self._appetite, max(largest, slots))
        runners.longest_run = 0
        room = max(free, self._appetite - calls - runners.left_behind)
        self._is_cut = self._appetite <= slots and at_once < room
        return room

    def _give_back_what_waits_too_long(self) -> None:
        runners = self._runners
        if runners.buffer and runners.free <= 0 and self._clock.boottime() - runners.buffered_at > self.settings.buffer_patience:
            runners.release_buffer()

    async def _claim(self, now: Instant, *, may_guess: bool = True) -> int:
        self._is_guessed = self._looks_again = False
        expected, self.expected = self.expected, None
        room = self._room()
        if not room:
            return 0
        if self._claim_is_unknown:
            await self._adopt()
        named = [] if self._inbox is None else await self._named(self._inbox, room)
        asks = self._guess(room, expected) if may_guess and not named else []
        is_guess = bool(asks)
        if not asks and not named:
            asks = await self._look_for_work(room)
        if not asks and not named:
            return 0
        # Until what was claimed is in our hands, the lease may exist without our knowing, kept alive by our own heartbeat.
        self._claim_is_unknown = True
        if named and self._inbox is not None:
            claimed = await self._inbox.claim(self._id, named, now)
        else:
            claimed = await self._ready.claim(self._id, asks, now)
        if claimed is not None:
            await self._take_in(claimed)
        self._claim_is_unknown = False
        found = 0 if claimed is None else len(claimed.ids)
        if is_guess and self._neighbours.are_several:
            return found + await self._look_after_guess(asks, found, now)
        if asks and found < sum([ask.quota for ask in asks]):
            # Somebody was faster, or the queue is shorter than we knew.
            self._work_looked_at = LONG_AGO
        if is_guess and not found:
            # Somebody rang all the same: now it looks.
            return await self._claim(now, may_guess=False)
        if not found:
            self._habit.looked((), self._clock.boottime())
        return found

    async def _look_after_guess(self, asks: Sequence[Ask], found: int, now: Instant) -> int:
        """Where tenants share: whoever was not thought of gets his part when a look has shown him. How many were claimed here and now."""
        at, was_right = self._clock.boottime(), self._habit.was_right(asks, found)
        self._is_guessed = was_right and at - self._work_looked_at < min(GUESS_FOR, self.settings.look_for_work_every)
        if not found:
            return await self._claim(now, may_guess=False)
        self._looks_again = not was_right or (not self._is_guessed and await self._look_around(at, is_old=True))
        return 0

    async def _adopt(self) -> None:
        """Run what the store says we hold and we do not know. What is being reported meanwhile is known: it must not run twice."""
        before = self._runners.known().union(item.id for item in self._reports.sending)
        for held in await self._ready.held_by(self._id):
            unknown = [nth for nth, id in enumerate(held.ids) if id not in before and id not in self._runners.known()]
            if unknown:
                await self._take_in(held.part(unknown))
        self._claim_is_unknown = False

    async def _look_for_work(self, room: int) -> list[Ask]:
        """What to ask for. Both looks are kept for a moment. One that leaves nothing to ask for is taken again at once: somebody rang. And
        when that finds nothing, the next step looks at the routes as well: what is new may stand on a route that is new."""
        now = self._clock.boottime()
        if self._inbox is not None and not self._inbox.may_look():
            return []
        # While others are about, nothing is asked for before everybody was looked at.
        is_old = self._neighbours.are_several or now - self._work_looked_at >= min(self._work_is_worth, self.settings.look_for_work_every)
        await self._look_around(now, is_old=is_old)
        asks = self._shared_out(room, self._work)
        if not asks and not is_old:
            await self._look(now)
            asks = self._shared_out(room, self._work)
        if self._inbox is not None:
            self._inbox.looked(found=bool(self._work))
        if not asks:
            self._routes_looked_at = self._work_looked_at = LONG_AGO
        return self._served.in_batches(asks)

    async def _look_around(self, now: Micros, *, is_old: bool) -> bool:
        """Look at the routes and, if the last look is old, at the work. True: some is in a queue that is new."""
        looks = [self._look(now)] if is_old else []
        if now - self._routes_looked_at >= self.settings.look_for_routes_every:
            known = self._served.routes
            # Side by side: most often no route is new, and what is ready need not wait for the answer.
            await asyncio.gather(self._look_for_routes(), *looks)
            looks = [] if self._served.routes == known else [self._look(now)]
        for look in looks:
            await look
        return self._has_new

    def _guess(self, room: int, expected: tuple[int, int] | None) -> list[Ask]:
        """What to ask for without a look. Who is told what is ready need not guess, nor may handlers that have places of their own."""
        served, seen = self._served, self._neighbours.seen
        if expected is not None and self._inbox is None and expected[0] in served.without_places:
            return served.in_batches([Ask(*expected, room)])
        routes = [] if self._inbox is not None else served.without_places
        asks = self._habit.guess(room, routes, seen)
        if not asks and len(seen) > 1 and not served.places:
            asks = self._shared_out(room, self._habit.assume(self._budget(room), routes, seen))
        return served.in_batches(asks)

    async def _named(self, inbox: Inbox, room: int) -> list[Named]:
        """What others have named and we serve, shared out as if the store had shown it."""
        now = self._clock.boottime()
        if now - self._routes_looked_at >= self.settings.look_for_routes_every:
            await self._look_for_routes()
        work = inbox.work(self._served.routes, self._neighbours.weights)
        self._see(work, now)
        return inbox.pick(self._served.in_batches(self._shared_out(room, work))) if work and not inbox.must_look() else []

    def _see(self, work: Sequence[Work], now: Micros) -> None:
        self._neighbours.see(work, now)
        self._runners.reporting.is_shared = self._runners.taking.is_shared = self._neighbours.are_several

    async def _look(self, now: Micros) -> None:
        self._work = await self._ready.work(self._served.routes, COUNTED_TO, roughly=True) if self._served.routes else []
        self._has_new = self._habit.looked(self._work, now)
        self._work_looked_at = now
        self._work_is_worth = LOOKS_PER_WORTH * (self._clock.boottime() - now)
        self._see(self._work, now)

    def _shared_out(self, room: int, work: Sequence[Work]) -> list[Ask]:
        work = self._served.with_a_place(work) if self._served.places else work
        calls = self._runners.running.values()
        running = Counter([call.plan.version.tenant for call in calls]) if self._neighbours.are_several else {}
        return self._neighbours.share(self._budget(room), room, work, running)

    def _budget(self, room: int) -> int:
        return self._neighbours.at_once if self._is_cut else room

    async def _look_for_routes(self) -> None:
        self._served.learn(await self._ready.routes())
        self._routes_looked_at = self._clock.boottime()

    async def _take_in(self, claimed: Claimed) -> None:
        unreadable, readable = await self._arrivals.of(claimed)
        if not self.heartbeat.is_trusted:
            # It has come so late that others may have it by now.
            return
        held = self._reports.held
        held[claimed.lease] = held.get(claimed.lease, 0) + len(claimed.ids)
        if unreadable:
            self._runners.give_back(unreadable)
        self._runners.take_in(readable)
