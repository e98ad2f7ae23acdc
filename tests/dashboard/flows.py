"""Runs of workflows in the fleet: one that waits for a word, one that failed and was undone, one for tests to play with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.domain.instants import SECOND

if TYPE_CHECKING:
    from tests.dashboard.fleet import Fleet

POOL = "etl"
HANDLERS = ("extract", "load", "check", "totals", "publish", "reserve", "charge", "ship", "release", "hello")


def _step(name: str, *after: str, handler: str | None = None, **more: object) -> dict[str, Any]:
    waits = {"approval", "signal"} & more.keys() and handler is None
    target = {} if waits else {"target": {"handler": f"flow.{handler or name}", "pool": POOL}}
    return {"name": name, "dependsOn": list(after), **target, "retryPolicy": {"maxAttempts": 1}, **more}


WAREHOUSE = [
    _step("extract_orders", handler="extract"),
    _step("extract_customers", handler="extract"),
    _step("load", "extract_orders", map="extract_orders", maxParallel=20),
    _step("check_customers", "extract_customers", handler="check"),
    _step("totals", "load", "check_customers"),
    _step("tell_somebody", "load", "check_customers", handler="check", trigger="any_failed"),
    _step("sign_off", "totals", approval={"by": ["operator", "admin"]}),
    _step("publish", "sign_off"),
]
ORDER = [
    _step("reserve"),
    _step("charge", "reserve"),
    _step("ship", "charge"),
    _step("release", handler="release", compensates="reserve"),
]
PARCEL = [
    _step("hello"),
    _step("paid", "hello", signal={"name": "payment"}),
    _step("sign_off", "paid", approval={}),
    _step("ship", "sign_off"),
]


class Flows:
    """Declares the workflows and plays their worker, through the API; only the conductor's turn is given by hand."""

    def __init__(self, fleet: Fleet, conductor: Any) -> None:
        self.fleet = fleet
        self.ask = fleet._ask
        self._conductor = conductor
        self._worker = ""

    async def write(self) -> None:
        for name, steps in (("warehouse", WAREHOUSE), ("order", ORDER), ("parcel", PARCEL)):
            made = await self.ask("POST", "/v1/jobs", {"name": name, "steps": steps, "description": f"The {name}, step by step."})
            self.fleet.jobs[name] = made["jobId"]
        about = {"name": "worker-etl", "pool": POOL, "handlers": [f"flow.{name}" for name in HANDLERS], "slots": 32, "ttlSec": 3600}
        self._worker = str((await self.ask("POST", "/v1/workers", {**about, "host": "worker-etl.example", "version": "1.0.0"}))["workerId"])
        for nth in range(self.fleet.orders):
            await self.order(nth)
        self.fleet.runs["flow-dead"] = await self.begin("order")
        await self.work()
        await self.work(fails={"flow.charge"})
        await self.work()
        self.fleet.runs["flow"] = await self.begin("warehouse")
        for _ in range(4):
            await self.work(took=1.4)

    async def order(self, nth: int) -> None:
        """A whole run of `order`; now and then the card is refused, and what was reserved is released."""
        await self.begin("order")
        fails = {"flow.charge"} if nth % 7 in (3, 4) or nth % 11 == 2 else set()
        while await self.work(took=0.6 + (nth * 37 % 23) / 20, fails=fails):
            pass

    async def begin(self, job: str) -> str:
        run = await self.ask("POST", f"/v1/jobs/{self.fleet.jobs[job]}/executions", {})
        await self.turn()
        return str(run["executionId"])

    async def turn(self) -> None:
        """Runs that are ready begin."""
        await self._conductor.begin(self.fleet.clock.now(), 10)

    async def work(self, took: float = 0.8, fails: frozenset[str] | set[str] = frozenset()) -> int:
        """Whatever is ready runs and ends: how much that was."""
        lease = await self.ask("POST", f"/v1/workers/{self._worker}/lease", {"max": 32})
        if not lease or not lease["executions"]:
            return 0
        fence = {"workerId": self._worker, "fence": lease["leaseId"]}
        for run in lease["executions"]:
            if self.fleet.clock.is_held:
                self.fleet.clock.turn(round(took * SECOND / len(lease["executions"])))
            path = f"/v1/executions/{run['executionId']}"
            if run["handler"] in fails:
                error = {"type": "CardRefused", "message": "the card of the customer has expired"}
                await self.ask("POST", f"{path}/fail", {**fence, "error": error})
            else:
                result = [f"part-{nth:02}.csv" for nth in range(12)] if run["handler"] == "flow.extract" else {"rows": 4200}
                await self.ask("POST", f"{path}/complete", {**fence, "result": result})
        return len(lease["executions"])
