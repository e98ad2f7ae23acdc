"""Where the shop lives: the real roles on the real store in virtual time, which a thread lets pass, as fast as it is asked to.

Time is virtual, so nothing is lost at any speed: it passes when everything that is due has been done, and where that takes longer than
the speed allows, time falls behind the speed, never a worker behind its lease. Nothing is invented: every fire, attempt, retry, skip and
log line is decided by the code that runs in production.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta

from duly import config
from duly.adapters.sql.bell import Bell
from duly.domain.alerts.channel import Channel
from duly.domain.alerts.message import Notice
from duly.domain.instants import DAY, SECOND, Instant, Micros
from duly.ports.endings import Failure
from duly.ports.store import DispatcherAbout
from duly.roles import loop
from duly.roles.alerter import Alerter, AlerterSettings
from duly.roles.auditor import Auditor, AuditorSettings
from duly.roles.messenger import Messenger, MessengerSettings
from duly.roles.notary import Notary, NotarySettings
from duly.roles.pruner import Pruner, PrunerSettings
from duly.roles.surveyor import Surveyor, SurveyorSettings
from duly.sdk.app import App
from duly.testing.world import World

log = logging.getLogger("duly.demo")

SPEEDS = (1, 10, 60, 600, 3600)
SLOTS = 16
# Seconds of the real world: how often time is let pass, the most that is made up for after a pause, and between two heartbeats.
TICK, LONGEST, BEAT = 0.04, 0.1, 0.5
# How much of the real world the speed that was reached is measured over.
MEASURED: float = 2.0
# How long whoever lives is trusted after a heartbeat, as pages show it: longer than time can pass between two of them at any speed.
TRUST: Micros = DAY
KEEP: Micros = 30 * DAY
# Whoever looks around looks once a minute: at 3600 times the speed that is sixty times a second.
LOOK_EVERY = 60.0


class Nobody:
    """Alerts of the demo are told to nobody."""

    async def send(self, channel: Channel, notice: Notice) -> None:
        raise Failure("the demo sends nothing", retry=False)

    async def ping(self, url: str) -> None:
        return None


class Town:
    """The shop's world, and the thread in which its time passes. Everything but `stop`, `speed` and the bells belongs to that thread."""

    def __init__(self, app: App, start: Instant, *, seed: int = 7) -> None:
        self.world = World(app, start, workers=1, slots=SLOTS, seed=seed, secrets={}, runs_work=True, is_inline=False)
        self.speed = 1
        self.trouble: BaseException | None = None
        self.bell = Doorbell()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="duly-demo-time", daemon=True)
        self._passed: deque[tuple[float, Instant]] = deque()
        self._about = DispatcherAbout(socket.gethostname(), os.getpid(), config.VERSION, 0)
        self._on_trouble: Callable[[], object] = lambda: None
        self._look_around()

    @property
    def now(self) -> Instant:
        """The time in town; any thread may ask."""
        return self.world.store_clock.now()

    @property
    def reached(self) -> float:
        """How fast time has passed of late: below the speed where there is more to do than this machine can."""
        passed = list(self._passed)
        if len(passed) < 2 or passed[-1][0] == passed[0][0]:
            return float(self.speed)
        return (passed[-1][1] - passed[0][1]) / SECOND / (passed[-1][0] - passed[0][0])

    def live(self, span: timedelta) -> None:
        """Let so much time pass at once, before anybody looks."""
        self.world.travel(self.now + span // timedelta(microseconds=1))

    def lose(self, pool: str) -> None:
        """Who serves that pool goes, in the middle of whatever it does, and nobody comes after it."""
        fleet = self.world.fleet
        for hired in [hired for hired in fleet.hired if hired.worker.settings.pool == pool]:
            fleet._kill(hired)
            self.world.run(fleet._miss(hired))

    def set_speed(self, speed: int) -> None:
        """From now on."""
        self.speed = speed
        self._passed.clear()

    def start(self, on_trouble: Callable[[], object]) -> None:
        """Let time pass from now on, in a thread of its own, until `stop`; `on_trouble` is called there if that ends by a fault."""
        self._on_trouble = on_trouble
        self._thread.start()

    def stop(self) -> None:
        """Time stands still. What runs is left where it stands: nothing of it is kept."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    # ------------------------------------------------------------ in the thread

    def _run(self) -> None:
        before, beaten = time.monotonic(), 0.0
        try:
            while not self._stop.wait(max(0.005, TICK - (time.monotonic() - before))):
                now = time.monotonic()
                passes, before = min(now - before, LONGEST), now
                if now - beaten > BEAT:
                    beaten = now
                    self._beat()
                self.bell.pass_on(self.world.fleet.bell)
                self.world.travel(self.now + round(passes * self.speed * SECOND))
                self._note(time.monotonic())
        except BaseException as error:
            self.trouble = error
            log.exception("time stands still in the demo")
            self._on_trouble()

    def _note(self, at: float) -> None:
        self._passed.append((at, self.now))
        while len(self._passed) > 2 and self._passed[0][0] < at - MEASURED:
            self._passed.popleft()

    def _beat(self) -> None:
        fleet = self.world.fleet
        store, owner, now = fleet.store, fleet.ownership, self.now
        for hired in fleet.hired:
            self.world.run(store.liveness.renew(hired.worker.heartbeat.worker, now, TRUST))
        self.world.run(store.leases.announce_dispatcher(owner.name, now, TRUST, self._about))
        self.world.run(store.leases.renew(owner.name, owner.epochs(), now, TRUST))

    def _look_around(self) -> None:
        """Those who are not needed for work to be done, each with time between two looks."""
        fleet = self.world.fleet
        store, chance = fleet.store, fleet.entropy
        roles: list[loop.Role] = [
            Alerter("town", store.alerts, store.figures, store.calendars, Nobody(), chance, AlerterSettings(every=LOOK_EVERY)),
            Messenger("town", store.alerts, Nobody(), MessengerSettings(every=LOOK_EVERY)),
            Auditor("town", store.fire_audit, AuditorSettings(every=LOOK_EVERY)),
            Surveyor(store.figures, SurveyorSettings(every=LOOK_EVERY)),
            Notary(store.audit, NotarySettings(keep=KEEP, every=LOOK_EVERY / 4)),
            Pruner(store.retention, store.tenants, PrunerSettings(keep=KEEP)),
        ]
        never = asyncio.Event()
        for role in roles:
            _ = self.world.loop.outside.spawn(loop.run(role, self.world.clock, never, chance))


class Doorbell(Bell):
    """What comes in by the API rings here, in the server's thread; time's own thread passes it on before it goes on."""

    def __init__(self) -> None:
        super().__init__()
        self._has_rung = self._has_cancelled = False

    def ring(self) -> None:
        super().ring()
        self._has_rung = True

    def ring_cancel(self) -> None:
        super().ring_cancel()
        self._has_cancelled = True

    def pass_on(self, bell: Bell) -> None:
        """Ring there as it has rung here since."""
        if self._has_rung:
            self._has_rung = False
            bell.ring()
        if self._has_cancelled:
            self._has_cancelled = False
            bell.ring_cancel()
