"""What is around a fleet's jobs: rules, channels and their incidents, a linked audit trail. Made with the real roles, a step at a time."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.alerts.channel import Channel
from duly.domain.alerts.message import Notice
from duly.domain.fire_audit import Flaw, Missed
from duly.domain.ids import parse_job_id
from duly.domain.instants import DAY, HOUR, MINUTE
from duly.ports.endings import Failure
from duly.ports.fire_audit import Found
from duly.ports.store import DispatcherAbout, Store
from duly.roles.alerter import Alerter, AlerterSettings
from duly.roles.messenger import Messenger, MessengerSettings
from duly.roles.notary import Notary, NotarySettings
from duly.roles.surveyor import Surveyor, SurveyorSettings
from tests.api import Silence

if TYPE_CHECKING:
    from tests.dashboard.fleet import Fleet

CHANNELS: dict[str, dict[str, object]] = {
    "ops": {"kind": "slack", "secret": "env:DULY_SECRET_SLACK"},
    "on-call": {"kind": "pagerduty", "secret": "file:pagerduty-key"},
    "finance": {"kind": "email", "to": ["ledger@example.com"], "from": "duly@example.com", "host": "mail.example.com"},
    "status-page": {"kind": "webhook", "url": "https://status.example.com/hooks/s3cret-path", "secret": "env:DULY_SECRET_STATUS"},
}
# Every Sunday morning, when machines are looked after.
WORKS: dict[str, object] = {"timezone": "Europe/Berlin", "weekly": [{"days": ["SUN"], "from": "04:30", "to": "06:00"}]}
RULES: dict[str, dict[str, object]] = {
    "payments": {
        "kind": "final_failure",
        "jobs": ["charge-card"],
        "channels": ["ops", "on-call"],
        "owner": "payments team",
        "note": "Is the bank there? Replay the dead letters when it is.",
    },
    "gpu-waits": {"kind": "pool_saturated", "pools": ["gpu"], "afterSec": 600, "channels": ["ops"]},
    "nightly-missed": {
        "kind": "missed",
        "jobs": ["nightly-report", "invoices"],
        "afterSec": 900,
        "channels": ["finance"],
        "graceSec": 60,
        "calendars": ["sunday-works"],
    },
    "rate": {"kind": "failure_rate", "percent": 20, "windowSec": 3600, "recovery": {"percent": 10}, "groupBy": "cause"},
    "workers": {"kind": "worker_gone", "channels": ["on-call"]},
}


class OneSilent(Silence):
    """Takes what is told, but for one channel that is away."""

    async def send(self, channel: Channel, notice: Notice) -> None:
        if channel.name == "on-call":
            raise Failure("events.pagerduty.com answered 503")


class Watch:
    """Those who watch over a store."""

    def __init__(self, fleet: Fleet, store: Store) -> None:
        self.fleet = fleet
        self.store = store
        self._alerter = Alerter("a", store.alerts, store.figures, store.calendars, Silence(), secrets.randbits, AlerterSettings())
        self._messenger = Messenger("m", store.alerts, OneSilent(), MessengerSettings())

    async def begin(self) -> None:
        """The rules and channels, and when they are silent."""
        await self.fleet._ask("PUT", "/v1/calendars/sunday-works", WORKS)
        for name, body in CHANNELS.items():
            await self.fleet._ask("PUT", f"/v1/alert-channels/{name}", body)
        rules = dict(RULES)
        if self.fleet.is_nasty:
            rules["nasty"] = {"kind": "final_failure", "jobs": ["nasty"], "note": self.fleet.nasty, "owner": self.fleet.nasty}
        for name, body in rules.items():
            await self.fleet._ask("PUT", f"/v1/alert-rules/{name}", body)

    async def _found_tenants(self) -> None:
        """Neighbours, one of which has used up what it may."""
        await self._tenant("acme", 300, {"maxConcurrent": 50, "maxQueued": 2, "maxFiresPerMinute": 600})
        await self._tenant("zebra", 50, {"maxJobs": 20, "retentionDays": 14})

    async def _tenant(self, name: str, weight: int, quotas: dict[str, int]) -> None:
        made = await self.fleet._ask("POST", "/v1/tenants", {"name": name, "weight": weight, "quotas": quotas})
        key = made["key"]["secret"]
        job = await self.fleet._ask("POST", "/v1/jobs", {"name": "import", "target": {"handler": "acme.import"}}, key)
        for _ in range(2 if name == "acme" else 1):
            await self.fleet._ask("POST", f"/v1/jobs/{job['jobId']}/executions", {}, key)

    async def _dispatch(self) -> None:
        """Three dispatchers, one of them with a clock of its own, and their shards."""
        now, leases = self.fleet.clock.now(), self.store.leases
        seen = await leases.shards()
        for nth, (name, skew) in enumerate((("node-a:811:f3", 4_000), ("node-b:644:0c", -12_000), ("node-c:97:a1", 31_000))):
            await leases.announce_dispatcher(name, now, DAY, DispatcherAbout(name.partition(":")[0], 700 + nth, "1.0.0", skew))
            await leases.take(seen[nth::3], name, now, DAY)

    async def look(self) -> None:
        """Judge the rules, and tell."""
        now = self.fleet.clock.now()
        await self._alerter.step(now)
        await self._messenger.step(now)

    async def end(self) -> None:
        """As it stands when the page is opened."""
        await Surveyor(self.store.figures, SurveyorSettings()).step(self.fleet.clock.now())
        await self.look()
        await self._miss()
        await self._found_tenants()
        await self._dispatch()

    async def certify(self) -> None:
        """What was done so far is linked."""
        await Notary(self.store.audit, NotarySettings()).step(self.fleet.clock.now())

    async def _miss(self) -> None:
        """Two fires of the night before that are not on record; one has come to light since."""
        now = self.fleet.clock.now()
        job = parse_job_id(self.fleet.jobs["invoices"])
        audit = self.store.fire_audit
        for at, is_there in ((now - 20 * HOUR - 40 * MINUTE, True), (now - 44 * HOUR - 40 * MINUTE, False)):
            round = await audit.take("x", now, HOUR)
            assert round is not None
            resolved = [(job, at)] if is_there else []
            missed = Missed(job, at, 1, Flaw.MISSING, at + 2 * MINUTE)
            round = replace(round, audited_to=now - MINUTE, looked_at=round.looked_at + 1200)
            assert await audit.found("x", round, Found([missed]), at + 2 * MINUTE)
            assert await audit.found("x", round, Found([], resolved), at + 17 * MINUTE)
