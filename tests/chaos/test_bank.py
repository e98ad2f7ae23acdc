"""The bank under kills: of its workers, at random and at every step of an attempt, and of its database. Money is neither made nor lost."""

from __future__ import annotations

import contextlib
import itertools
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from examples.bank import death
from tests.chaos.fleet import ROOT, Fleet, Member, Refused, eventually
from tests.services.postgres import Postgres

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]

SCHEMA = (ROOT / "examples" / "bank" / "schema.sql").read_text(encoding="utf-8")
ON_SQLITE, ON_POSTGRES = "examples.bank.on_sqlite:app", "examples.bank.on_postgres:app"
ACCOUNTS, MONEY = 10, 10_000

Query = Callable[[str], list[tuple[str, ...]]]


@dataclass
class Bank:
    """A fleet, its database, and what has been done to them."""

    fleet: Fleet
    app: str
    query: Query
    chance: random.Random
    steps: tuple[str, ...]
    crash: Callable[[], None] | None = None
    kills: Counter[str] = field(default_factory=Counter)
    acknowledged: list[str] = field(default_factory=list)
    healthy: list[Member] = field(default_factory=list)
    doomed: Member | None = None

    def open(self) -> str:
        """Start it; answers the id of the job."""
        self.fleet.start_api("server")
        self.healthy = [self.fleet.start("worker", self.app) for _ in range(2)]
        self._ways = itertools.cycle(self.steps)
        eventually(lambda: bool(self.fleet.call("GET", "/v1/jobs?name=transfer")["items"]), 30, "the application published its job")
        self._doom()
        return self.fleet.job("transfer")

    def _doom(self) -> None:
        """A worker that will die at the next step of the round, as soon as it gets there."""
        self._way = next(self._ways)
        self.doomed = self.fleet.start("worker", self.app, BANK_DIES_AT=self._way)

    def storm(self, job: str, count: int, kills: int) -> None:
        """Transfers come in while workers and the database die, until all are in and enough have died, at every step at least once."""
        end = time.monotonic() + 30 + kills * 5
        batch = max(count // kills, 1)
        while len(self.acknowledged) < count or self.kills.total() < kills or any(not self.kills[step] for step in self.steps):
            assert time.monotonic() < end, f"the storm does not end: {self.kills}, {len(self.acknowledged)} transfers"
            if len(self.acknowledged) < count:
                self._submit(job, min(batch, count - len(self.acknowledged)))
            else:
                # A doomed worker needs something to die of.
                self._submit(job, 1)
            time.sleep(self.chance.random() * 0.4)
            self._tend()
            if self.kills.total() < kills:
                self._strike()

    def _tend(self) -> None:
        """What an init system does: who has ended is started again. One that came while the database was away ended by itself."""
        if self.doomed is not None and (status := self.doomed.process.poll()) is not None:
            self.fleet.members.remove(self.doomed)
            self.kills[self._way] += status == -signal.SIGKILL
            self._doom()
        for nth, worker in enumerate(self.healthy):
            if worker.process.poll() is not None:
                self.healthy[nth] = self.fleet.replace(worker)

    def _strike(self) -> None:
        """One of the healthy, or the database itself, at a moment of no meaning."""
        if self.crash is not None and self.chance.random() < 0.08:
            self.crash()
            self.kills["database"] += 1
        elif self.chance.random() < 0.3:
            nth = self.chance.randrange(len(self.healthy))
            self.healthy[nth] = self.fleet.replace(self.healthy[nth])
            self.kills["worker"] += 1

    def _submit(self, job: str, count: int) -> None:
        wanted = []
        for _ in range(count):
            source, target = self.chance.sample(range(ACCOUNTS), 2)
            payload = {"source": source, "target": target, "amount": self.chance.randrange(1, 50), "seconds": self.chance.random() * 0.1}
            wanted.append({"payload": payload})
        # While the database comes back the API says so; what it did not acknowledge may be there all the same.
        with contextlib.suppress(Refused):
            made = self.fleet.call("POST", f"/v1/jobs/{job}/executions:batch", {"executions": wanted})["items"]
            self.acknowledged += [item["executionId"] for item in made]

    def settle(self) -> None:
        """Everybody is well again; what is left is done."""
        assert self.doomed is not None
        self.fleet.members.remove(self.doomed)
        self.doomed.kill()
        self.doomed = None
        eventually(self._is_settled, 120, "everything is final")

    def _is_settled(self) -> bool:
        self._tend()
        return _nothing_waits(self.fleet)

    def check(self) -> None:
        """The books: what Duly says, and what the bank's own tables say."""
        final = {execution["executionId"]: execution for execution in self.fleet.executions()}
        assert set(self.acknowledged) <= final.keys(), "an acknowledged transfer is lost"
        assert Counter(execution["state"] for execution in final.values()) == {"SUCCEEDED": len(final)}
        rows = self.query("SELECT run, source, target, amount FROM transfers")
        assert Counter(run for run, *_ in rows) == Counter(final.keys()), "a transfer happened twice, or not at all"
        balances = dict.fromkeys(range(ACCOUNTS), MONEY // ACCOUNTS)
        for run, source, target, amount in rows:
            asked = final[run]["payload"]
            assert (asked["source"], asked["target"], asked["amount"]) == (int(source), int(target), int(amount))
            balances[int(source)] -= int(amount)
            balances[int(target)] += int(amount)
        assert {int(id): int(balance) for id, balance in self.query("SELECT id, balance FROM accounts")} == balances
        assert sum(balances.values()) == MONEY
        assert any(execution["attempt"] > 1 for execution in final.values()), "no kill met a transfer: the test is blind"
        print(
            f"{len(final)} transfers, {self.kills.total()} kills {dict(self.kills)}, attempts {sum(e['attempt'] for e in final.values())}"
        )


def _nothing_waits(fleet: Fleet) -> bool:
    counts = fleet.call("GET", "/v1/stats")["executions"]
    return not any(counts.get(state) for state in ("SCHEDULED", "BLOCKED", "PENDING", "RUNNING"))


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


def rows_of(server: Postgres, database: str) -> Query:
    return lambda sql: [tuple(line.split("|")) for line in server.execute(sql, database).splitlines()]


def test_every_transfer_happens_exactly_once_on_postgresql(postgres: Postgres, tmp_path: Path, long_form: bool) -> None:
    count, kills = (1_000, 100) if long_form else (150, 12)
    fleet = Fleet(postgres.create_database("bank"), tmp_path)
    postgres.execute(SCHEMA, "bank")
    bank = Bank(fleet, ON_POSTGRES, rows_of(postgres, "bank"), random.Random(11), death.STEPS, lambda: postgres.restart("immediate"))
    try:
        bank.storm(bank.open(), count, kills)
        bank.settle()

        bank.check()
        assert bank.kills["database"]
    finally:
        fleet.stop()


def test_every_transfer_happens_exactly_once_on_sqlite(tmp_path: Path, long_form: bool) -> None:
    count, kills = (1_000, 100) if long_form else (150, 12)
    file = tmp_path / "bank.db"
    with contextlib.closing(sqlite3.connect(file)) as tables:
        tables.executescript(SCHEMA)
    fleet = Fleet(f"sqlite:///{file}", tmp_path)

    def query(sql: str) -> list[tuple[str, ...]]:
        with contextlib.closing(sqlite3.connect(file)) as reader:
            return list(reader.execute(sql))

    bank = Bank(fleet, ON_SQLITE, query, random.Random(12), ("begin", "effect", "committed"))
    try:
        bank.storm(bank.open(), count, kills)
        bank.settle()

        bank.check()
    finally:
        fleet.stop()


def test_an_order_and_its_shipment_are_there_together_or_not_at_all(postgres: Postgres, tmp_path: Path, long_form: bool) -> None:
    count, kills = (1_000, 100) if long_form else (100, 8)
    fleet = Fleet(store := postgres.create_database("bank"), tmp_path)
    postgres.execute(SCHEMA, "bank")
    query, chance = rows_of(postgres, "bank"), random.Random(13)
    killed: Counter[str] = Counter()
    try:
        fleet.start_api("server")
        worker: Member = fleet.start("worker", ON_POSTGRES)
        eventually(lambda: bool(fleet.call("GET", "/v1/jobs?name=ship")["items"]), 30, "the application published its job")
        while killed.total() < kills or int(query("SELECT count(*) FROM orders")[0][0]) < count:
            begun = int(query("SELECT coalesce(max(number) + 1, 0) FROM orders")[0][0])
            shop = _shop(store, begun, begun + count)
            eventually(lambda: int(query("SELECT count(*) FROM orders")[0][0]) > begun, 30, "orders come in")  # noqa: B023
            time.sleep(chance.random() * 0.05)
            if chance.random() < 0.3:
                postgres.stop("immediate")
                killed["database"] += 1
                shop.wait()
                postgres.start()
            else:
                shop.kill()
                shop.wait()
                killed["shop"] += 1
            if chance.random() < 0.2:
                worker = fleet.replace(worker)
                killed["worker"] += 1
        # The last one may have come while the database was away.
        fleet.replace(worker)
        eventually(lambda: _nothing_waits(fleet), 120, "everything is final")

        final = {execution["executionId"]: execution for execution in fleet.executions()}
        orders = query("SELECT run, number FROM orders")
        assert Counter(run for run, _ in orders) == Counter(final.keys()), "an order without its execution, or the other way round"
        assert all(final[run]["payload"] == {"number": int(number)} for run, number in orders)
        assert Counter(execution["state"] for execution in final.values()) == {"SUCCEEDED": len(final)}
        shipped = Counter(number for (number,) in query("SELECT number FROM shipments"))
        assert shipped == Counter(number for _, number in orders), "an order was shipped twice, or not at all"
        print(f"{len(orders)} orders, {killed.total()} kills {dict(killed)}")
    finally:
        fleet.stop()


def _shop(store: str, first: int, past: int) -> subprocess.Popen[bytes]:
    """Takes orders one after the other until it is killed."""
    return subprocess.Popen(
        [sys.executable, "-m", "examples.bank.on_postgres", str(first), str(past)],
        env={"DULY_STORE": store, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "PATH": "/usr/bin:/bin"},
        stderr=subprocess.DEVNULL,
    )
