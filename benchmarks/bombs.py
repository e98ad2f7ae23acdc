"""How long a server takes to refuse what is made to hurt it, beside a plain request: `python -m benchmarks.bombs`.

Each bomb is sent to the API over a real store, a few times; the best time counts, which is the server's own. The bound is 100 ms.
"""

from __future__ import annotations

import asyncio
import json
import resource
import time

import httpx

from benchmarks.harness import report
from duly.adapters.sql.engine_sqlite import InlineSqliteEngine
from duly.adapters.sql.migrate import upgrade
from duly.adapters.sql.store import store_on
from duly.domain.access import Role
from duly.http.app import create_api
from tests.api import services_on
from tests.http.bombs import LARGE, SCHEDULES, SMALL, made, zipped
from tests.http.conftest import ADMIN, HandClock, NotedHints, key_row

BOUND_MS = 100.0
TIMES = 3
JSON = {"content-type": "application/json"}


async def bombs() -> bool:
    """Send them all; whether each was refused within the bound."""
    engine = InlineSqliteEngine()
    await upgrade(engine)
    store, clock = store_on(engine), HandClock()
    await store.keys.add_key(key_row(ADMIN, Role.ADMIN, tenant=1))
    api = create_api(services_on(store, clock, lambda bits: 1 << (bits - 1), NotedHints(clock)))
    headers = {"authorization": f"Bearer {ADMIN}"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://duly.test", headers=headers) as client:
        plain = await _best(client, b'{"schedule": "0 3 * * *"}', {})
        sent = SMALL | {name: made(bomb) for name, bomb in LARGE.items()}
        sent |= {json.dumps(fields)[:60]: json.dumps(fields).encode() for fields in SCHEDULES}
        packed = made(zipped)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        report("bombs", name="a plain request", ms=round(plain, 2))
        worst = 0.0
        for name, body in sent.items():
            took = await _best(client, body, {})
            worst = max(worst, took)
            report("bombs", name=name, ms=round(took, 2))
        worst = max(worst, await _best(client, packed, {"content-encoding": "gzip"}))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    await engine.close()
    report("bombs", worst_ms=round(worst, 1), bound_ms=BOUND_MS, grown_mib=round(grown, 1), holds=worst < BOUND_MS)
    return worst < BOUND_MS


async def _best(client: httpx.AsyncClient, body: bytes, headers: dict[str, str]) -> float:
    times: list[float] = []
    for _ in range(TIMES):
        started = time.perf_counter()
        answer = await client.post("/v1/schedules/preview", content=body, headers={**JSON, **headers})
        times.append((time.perf_counter() - started) * 1000)
        assert answer.status_code < 500, answer.text
    return min(times)


if __name__ == "__main__":
    raise SystemExit(0 if asyncio.run(bombs()) else 1)
