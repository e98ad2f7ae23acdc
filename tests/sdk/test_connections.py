"""How an application reaches its store: once for each event loop, and without leaving anything behind."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from duly import App, Unavailable
from duly.ports.store import ExecutionFilter
from duly.sdk.connection import Connection


class Watched(App):
    """Counts how often the store is opened, and fails to at first if it is told so."""

    opened = 0
    failures = 0

    async def connect(self) -> Connection:
        self.opened += 1
        if self.opened <= self.failures:
            raise Unavailable("DULY-E501", "away")
        return await super().connect()


@pytest.fixture
def app(tmp_path: Path) -> Watched:
    made = Watched("shop", store=f"sqlite:///{tmp_path / 'app.db'}")
    made.job(name="work")(_work)
    return made


async def executions(app: App) -> int:
    connection = await app.connection()
    return len(await connection.executions.find(ExecutionFilter(1)))


def threads(name: str) -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith(name)}


def join(ending: set[threading.Thread]) -> None:
    for thread in ending:
        thread.join(10)
        assert not thread.is_alive()


async def test_first_calls_that_come_at_once_open_the_store_once(app: Watched) -> None:
    await asyncio.gather(*(app.tasks["work"].enqueue(n) for n in range(20)))

    assert app.opened == 1
    assert await executions(app) == 20
    await app.close()


async def test_a_store_that_could_not_be_opened_is_tried_again_by_the_next_call(app: Watched) -> None:
    app.failures = 1
    answers = await asyncio.gather(*(app.tasks["work"].enqueue(n) for n in range(3)), return_exceptions=True)

    assert [type(answer) for answer in answers] == [Unavailable] * 3
    assert (await app.tasks["work"].enqueue(1)).startswith("run_")
    assert app.opened == 2
    await app.close()


async def test_a_caller_that_leaves_does_not_take_the_connection_from_the_others(app: Watched) -> None:
    first, second = (asyncio.create_task(app.tasks["work"].enqueue(n)) for n in range(2))
    await asyncio.sleep(0)

    first.cancel()

    assert (await second).startswith("run_")
    assert first.cancelled()
    assert app.opened == 1
    await app.close()


async def test_closing_while_the_store_is_being_opened_leaves_no_threads(app: Watched) -> None:
    before = threads("duly-sqlite")
    waiting = asyncio.create_task(app.connection())
    await asyncio.sleep(0)

    await app.close()

    await waiting
    assert threads("duly-sqlite") <= before


def test_the_threads_of_a_loop_that_has_ended_end_with_the_next_connection(app: Watched) -> None:
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []
    before = threads("duly-sqlite")

    async def enqueue() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await app.tasks["work"].enqueue(1)

    asyncio.run(enqueue())
    left = threads("duly-sqlite") - before
    asyncio.run(enqueue())

    assert len(left) > 0
    join(left)
    gc.collect()
    assert loops[0]() is None

    async def finish() -> None:
        assert await executions(app) == 2
        await app.close()

    asyncio.run(finish())
    join(threads("duly-sqlite") - before)


LEAVES_A_LOOP = """
import asyncio, sys
import asyncpg
from duly import App

dsn = sys.argv[1]
app = App("shop", store=dsn)


@app.job
async def work(n: int) -> None: ...


async def pids() -> set[int]:
    watcher = await asyncpg.connect(dsn)
    names = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'duly-general%'"
    found = {row["pid"] for row in await watcher.fetch(names)}
    await watcher.close()
    return found


async def again(before: set[int]) -> None:
    await work.enqueue(2)
    async with asyncio.timeout(30):
        while await pids() & before:
            pass
    await app.close()


asyncio.run(work.enqueue(1))
left = asyncio.run(pids())
asyncio.run(again(left))
print("left", bool(left))
"""


def test_the_server_keeps_no_connection_of_a_loop_that_has_ended(postgres_dsn: str) -> None:
    # In a process of its own: the collector complains about sockets whose loop has ended, and would blame another test.
    done = subprocess.run([sys.executable, "-c", LEAVES_A_LOOP, postgres_dsn], capture_output=True, text=True, timeout=60, check=False)

    assert done.stdout.strip() == "left True", done.stderr


def test_threads_that_call_at_once_share_one_loop(app: Watched) -> None:
    before = threads("duly-sync")
    barrier = threading.Barrier(8)

    def enqueue(n: int) -> str:
        barrier.wait()
        return app.sync.work.enqueue(n)

    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(enqueue, range(8)))

    assert len(made) == 8
    assert app.opened == 1
    assert len(threads("duly-sync") - before) == 1
    app.sync.close()
    assert threads("duly-sync") <= before


def test_a_closed_shell_opens_again(app: Watched) -> None:
    app.sync.work.enqueue(1)
    app.sync.close()

    assert app.sync.work.enqueue(2).startswith("run_")
    assert app.opened == 2
    app.sync.close()
    app.sync.close()


FORKING = """
import os, signal, sys
from duly import App

app = App("shop", store=sys.argv[1])

@app.job
def work(n: int) -> None: ...

held = app.sync.work
print(held.enqueue(1), flush=True)
child = os.fork()
if child == 0:
    signal.alarm(50)
    print(held.enqueue(2), app.sync.work.enqueue(3), sep="\\n", flush=True)
    sys.exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(held.enqueue(4), flush=True)
sys.exit(status)
"""


def test_a_forked_child_reaches_the_store_and_both_end_by_themselves(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING, f"sqlite:///{tmp_path / 'app.db'}"]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env={"PYTHONPATH": os.pathsep.join(sys.path)})

    assert (ended.returncode, ended.stderr) == (0, "")
    assert len({line for line in ended.stdout.splitlines() if line.startswith("run_")}) == 4


LEAVING = """
import atexit, sys, threading
from duly import App

def look():
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("duly-")]
    print("left", *left, flush=True)

app = App("shop", store=sys.argv[1])

@app.job
def work(n: int) -> None: ...

# What is registered first runs last.
atexit.register(look)
app.sync.work.enqueue(1)
"""


def test_the_thread_ends_with_the_interpreter(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LEAVING, f"sqlite:///{tmp_path / 'app.db'}"]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env={"PYTHONPATH": os.pathsep.join(sys.path)})

    assert (ended.returncode, ended.stderr) == (0, "")
    assert "left" in ended.stdout
    assert "duly-sync" not in ended.stdout


def _work(n: int) -> None: ...
