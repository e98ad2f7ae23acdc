"""A fleet that has lived: jobs of every kind with an hour of history, made through the public API, on a real server.

Its clock begins at a fixed instant and goes on from there, so that pages look the same on every run.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import httpx

from duly.adapters.sql.engine_sqlite import InlineSqliteEngine
from duly.adapters.sql.store import store_on
from duly.dashboard.pages import pages
from duly.domain.access import Role
from duly.domain.instants import MINUTE, SECOND, Instant, Micros, from_rfc3339
from duly.http.app import create_api
from duly.http.server import ApiServer
from tests.api import services_on
from tests.dashboard.flows import Flows
from tests.dashboard.surroundings import Watch
from tests.http.conftest import ADMIN, OPERATOR, VIEWER, HandClock, NotedHints, key_row
from tests.services.databases import in_memory

# A Saturday evening in autumn: the clocks of Europe go back in the night.
NOW = from_rfc3339("2026-10-24T18:40:00Z")
ZONE = "Europe/Berlin"
# What must stay text, wherever it is shown.
NASTY = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>{{7*7}}\"'`</textarea></title>"

T = TypeVar("T")


class FleetClock(HandClock):
    """Turned by hand while the fleet is made; goes on by itself afterwards."""

    def __init__(self) -> None:
        super().__init__(NOW - 60 * MINUTE)
        self._since: float | None = None

    @property
    def is_held(self) -> bool:
        """Whether only a hand turns it."""
        return self._since is None

    def let_go(self) -> None:
        self._since = time.monotonic()

    def now(self) -> Instant:
        return self.at if self._since is None else self.at + round((time.monotonic() - self._since) * SECOND)

    def boottime(self) -> Micros:
        return round(time.monotonic() * SECOND)


class Fleet:
    """The server in a thread of its own. `do` runs something in its loop; `api` asks as an admin. `orders` have run to their end."""

    def __init__(self, *, is_nasty: bool = True, orders: int = 0) -> None:
        self.is_nasty = is_nasty
        self.orders = orders
        self.clock = FleetClock()
        self.loop = asyncio.new_event_loop()
        self.url = ""
        self.jobs: dict[str, str] = {}
        self.runs: dict[str, str] = {}
        self.workers: dict[str, str] = {}
        self.nasty = NASTY
        self._started = threading.Event()
        self._trouble: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> Fleet:
        self._thread.start()
        assert self._started.wait(60)
        if self._trouble is not None:
            raise self._trouble
        return self

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def ask(self, method: str, path: str, body: object = None, key: str = ADMIN) -> Any:
        return self.do(self._ask(method, path, body, key))

    def link(self, key: str = ADMIN) -> str:
        """A login link, as `duly login` prints it."""
        found = self.ask("POST", "/v1/sessions/link", {}, key)["url"]
        return self.url + found[found.index("/login") :]

    def incident(self, rule: str) -> str:
        """The latest incident of a rule."""
        return str(self.ask("GET", f"/v1/alerts?rule={rule}")["items"][0]["incidentId"])

    async def _ask(self, method: str, path: str, body: object = None, key: str = ADMIN) -> Any:
        answer = await self._client.request(method, path, json=body, headers={"authorization": f"Bearer {key}"})
        assert answer.status_code < 400, answer.text
        return answer.json() if answer.content else None

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._live())
        except BaseException as error:
            self._trouble = error
            self._started.set()
        finally:
            self.loop.close()

    async def _live(self) -> None:
        self._stop = asyncio.Event()
        self._engine = await in_memory(InlineSqliteEngine())
        store = store_on(self._engine)
        for secret, role in ((ADMIN, Role.ADMIN), (OPERATOR, Role.OPERATOR), (VIEWER, Role.VIEWER)):
            await store.keys.add_key(key_row(secret, role, tenant=1))
        services = services_on(store, self.clock, secrets.randbits, NotedHints(self.clock), version="1.0.0")
        api = create_api(services, pages=pages())
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://fleet.test")
        self.watch = Watch(self, store)
        await _History(self, self.watch).write()
        self.flows = Flows(self, services.workflows._conductor)
        await self.flows.write()
        await self.watch.certify()
        self.clock.let_go()
        server = ApiServer(api, grace=1)
        serving = asyncio.create_task(server.serve_until(self._stop))
        await server.listening()
        self.url = server.url
        self._started.set()
        await serving
        await self._client.aclose()
        await self._engine.close()


class _History:
    """The hour before, minute by minute."""

    def __init__(self, fleet: Fleet, watch: Watch) -> None:
        self.fleet = fleet
        self.watch = watch
        self.ask = fleet._ask
        self.clock = fleet.clock

    async def write(self) -> None:
        await self._declare()
        await self._register()
        await self.watch.begin()
        for minute in range(60):
            await self._minute(minute)
            self.clock.at = NOW - (60 - minute) * MINUTE
        for worker in self.fleet.workers.values():
            await self.ask("POST", f"/v1/workers/{worker}/heartbeat", {"ttlSec": 3600})
        await self._leave_some()
        await self.watch.end()

    async def _job(self, name: str, handler: str, **fields: object) -> str:
        target = {"handler": handler, "pool": fields.pop("pool", "default")}
        made = await self.ask("POST", "/v1/jobs", {"name": name, "target": target, **fields})
        self.fleet.jobs[name] = made["jobId"]
        return str(made["jobId"])

    async def _declare(self) -> None:
        night = {"timezone": ZONE, "retryPolicy": {"maxAttempts": 3}}
        await self._job(
            "nightly-report",
            "reports.nightly",
            schedule="30 2 * * *",
            payload={"region": "eu", "rows": 12345678901234567890},
            timeoutSec=600,
            description="The figures of the day before, for everybody who asks at nine.",
            **night,
        )
        for nth, name in enumerate(("invoices", "ledger-close", "crm-sync", "warehouse-load", "search-index", "backups", "price-feed")):
            await self._job(name, f"nightly.{name}", schedule="0 0 * * *" if nth < 5 else "0 3 * * *", **night)
        # No dispatcher runs here: these get their schedules when the hour is over.
        await self._job("etl-hourly", "etl.load", retryPolicy={"maxAttempts": 5})
        await self._job("thumbnails", "media.thumbnail", pool="media")
        await self._job("refresh-totals", "shop.totals")
        await self._job("send-welcome", "mail.welcome", pool="mail", retryPolicy={"maxAttempts": 8, "initialDelayMs": 900_000})
        await self._job("charge-card", "billing.charge", retryPolicy={"maxAttempts": 1})
        await self._job("reindex", "search.reindex", schedule="0 4 * * 0", timezone="UTC", timeoutSec=21_600)
        await self._job("gpu-train", "ml.train", pool="gpu")
        await self._job("weekly-digest", "mail.digest", schedule="30 7 * * 1", timezone=ZONE, pool="mail")
        await self.ask("POST", f"/v1/jobs/{self.fleet.jobs['weekly-digest']}/pause", {"reason": "the new template is not ready"})
        if self.fleet.is_nasty:
            await self._job("nasty", "x.nasty", payload={"html": NASTY, NASTY: [NASTY]}, description=NASTY, retryPolicy={"maxAttempts": 1})

    async def _register(self) -> None:
        handlers = ["reports.nightly", "etl.load", "shop.totals", "billing.charge", "search.reindex", "x.nasty"]
        for name, pool, offers, slots in (
            ("worker-a1", "default", handlers, 8),
            ("worker-a2", "default", handlers, 8),
            ("worker-m1", "media", ["media.thumbnail"], 4),
            ("worker-mail", "mail", ["mail.welcome", "mail.digest"], 2),
        ):
            made = await self.ask(
                "POST",
                "/v1/workers",
                {
                    "name": name,
                    "pool": pool,
                    "handlers": offers,
                    "slots": slots,
                    "host": f"{name}.example",
                    "pid": 4711,
                    "version": "1.0.0",
                    "ttlSec": 3600,
                },
            )
            self.fleet.workers[name] = made["workerId"]

    async def _run(self, job: str, **fields: object) -> str:
        made = await self.ask("POST", f"/v1/jobs/{self.fleet.jobs[job]}/executions", fields)
        return str(made["executionId"])

    async def _lease(self, worker: str) -> dict[str, Any] | None:
        found = await self.ask("POST", f"/v1/workers/{self.fleet.workers[worker]}/lease", {"max": 10})
        return found if found and found["executions"] else None

    async def _end(
        self, worker: str, *, took: float = 1.0, error: dict[str, str] | None = None, logs: list[tuple[str, str]] | None = None
    ) -> list[str]:
        """Whatever this worker can take runs, logs and ends."""
        lease = await self._lease(worker)
        if lease is None:
            return []
        self.clock.turn(round(took * SECOND))
        fence = {"workerId": self.fleet.workers[worker], "fence": lease["leaseId"]}
        ids = [run["executionId"] for run in lease["executions"]]
        for id in ids:
            if logs:
                await self.ask(
                    "POST",
                    f"/v1/executions/{id}/log",
                    {**fence, "lines": [{"message": text, "level": level, "fields": {"region": "eu"}} for level, text in logs]},
                )
            if error is None:
                await self.ask("POST", f"/v1/executions/{id}/complete", {**fence, "result": {"rows": 4200}, "tookSec": took})
            else:
                await self.ask("POST", f"/v1/executions/{id}/fail", {**fence, "error": error, "tookSec": took})
        return ids

    async def _minute(self, minute: int) -> None:
        for _ in range(1 + minute % 3):
            await self._run("etl-hourly")
        await self._run("thumbnails", payload={"image": minute})
        self.clock.turn(round((0.2 + 0.3 * (minute % 5)) * SECOND))
        await self._end("worker-a1", took=1.5 + minute % 7)
        await self._end("worker-m1", took=0.4)
        if minute % 9 == 4:
            await self._run("charge-card", payload={"order": 1000 + minute})
            error = {
                "type": "TimeoutError",
                "message": f"the bank did not answer for order {1000 + minute}",
                "detail": 'Traceback (most recent call last):\n  File "shop/billing.py", line 41, in charge\n    raise TimeoutError(...)',
            }
            self.fleet.runs["dead"] = (await self._end("worker-a1", error=error, logs=[("info", "charging"), ("error", "no answer")]))[0]
            await self.watch.look()
        if minute == 40:
            await self._run("gpu-train")
        if minute == 8:
            await self._run("charge-card", payload={"order": 1000 + minute})
            await self._end("worker-a1")
            await self.watch.look()
        if minute % 20 == 10:
            for _ in range(6):
                await self._run("refresh-totals")
                await self._end("worker-a2", took=2 + minute % 13)

    async def _be_nasty(self) -> None:
        await self._run("nasty")
        logs = [("info", NASTY), ("warning", "\u001b[31mred\u001b[0m"), ("error", NASTY)]
        error = {"type": NASTY, "message": NASTY, "detail": NASTY}
        self.fleet.runs["nasty"] = (await self._end("worker-a1", error=error, logs=logs))[0]

    async def _leave_some(self) -> None:
        """What is under way when the page is opened."""
        if self.fleet.is_nasty:
            await self._be_nasty()
        await self._run("nightly-report")
        logs = [
            ("info", "building the report"),
            *((("info", f"region {nth}: {nth * 137} rows")) for nth in range(30)),
            ("warning", "two rows have no customer"),
            ("info", "done"),
        ]
        self.fleet.runs["succeeded"] = (await self._end("worker-a1", took=42, logs=logs))[0]
        await self._run("send-welcome", payload={"user": 7})
        self.fleet.runs["retrying"] = (
            await self._end("worker-mail", error={"type": "SMTPServerDisconnected", "message": "Connection unexpectedly closed"})
        )[0]
        while await self._end("worker-a2", took=0.1):
            pass
        self.clock.at = max(self.clock.at, NOW - 45 * SECOND)
        for job, worker in (("reindex", "worker-a2"), ("etl-hourly", "worker-a1")):
            id = await self._run(job)
            lease = await self._lease(worker)
            assert lease is not None
            assert [run["executionId"] for run in lease["executions"]] == [id]
            self.fleet.runs[f"running-{job}"] = id
            fence = {"workerId": self.fleet.workers[worker], "fence": lease["leaseId"]}
            self.fleet.runs[f"fence-{job}"] = str(lease["leaseId"])
            await self.ask("POST", f"/v1/executions/{id}/log", {**fence, "lines": [{"message": "begun"}]})
        for nth in range(3):
            await self._run("gpu-train", payload={"epoch": nth})
        self.clock.at = max(self.clock.at, NOW)
        for job, handler, pool, timing in (
            ("etl-hourly", "etl.load", "default", {"schedule": "5 * * * *"}),
            ("thumbnails", "media.thumbnail", "media", {"intervalSec": 60}),
            ("refresh-totals", "shop.totals", "default", {"schedule": "*/15 * * * *", "timezone": ZONE}),
            ("refresh-totals", "shop.totals", "default", {"schedule": "*/10 * * * *", "timezone": ZONE, "timeoutSec": 120}),
        ):
            changed = {"name": job, "target": {"handler": handler, "pool": pool}, **timing}
            await self.ask("PUT", f"/v1/jobs/{self.fleet.jobs[job]}", changed)
