"""Real processes on two stores: one server for both, tenants in either, and a move that is killed in its middle."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from duly.domain.instants import SECOND, from_rfc3339
from tests.cli.processes import DULY, Running, duly, environment

ADMIN = "duly_the_first_admin_key_of_two_stores"
PATIENCE = 60.0
# It runs until a file is there: as long as the move takes to notice it, whatever the machine has to do besides.
PATIENT = """
import asyncio
from pathlib import Path

from duly import App

app = App("patient")


@app.job
async def long() -> None:
    while not Path("enough").exists():
        await asyncio.sleep(0.05)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A directory whose duly.toml lists two stores."""
    if request.param == "sqlite" and not request.getfixturevalue("long_form"):
        pytest.skip("the same on files: --long")
    if request.param == "postgres":
        server, template = request.getfixturevalue("postgres_server"), request.getfixturevalue("migrated_template")
        names = [f"processes_{letter}" for letter in "ab"]
        urls = [server.create_database(name, template=template) for name in names]
        yield with_stores(tmp_path, urls)
        for name in names:
            server.drop_database(name)
    else:
        yield with_stores(tmp_path, [f"sqlite:///{tmp_path}/{letter}.db" for letter in "ab"])


def with_stores(directory: Path, urls: list[str]) -> Path:
    (directory / "eu.url").write_text(urls[1])
    eu = '[[stores]]\nname = "eu"\nurl_file = "eu.url"\ntenants = ["eu-*"]\n'
    (directory / "duly.toml").write_text(f'{eu}\n[[stores]]\nname = "main"\nurl = "{urls[0]}"\ndefault = true\n')
    return directory


@pytest.fixture
def up(home: Path) -> Iterator[Running]:
    (home / "patient.py").write_text(PATIENT)
    running = Running.start("up", "patient:app", "--port", "0", home=home / "home", cwd=home, DULY_ADMIN_KEY=ADMIN)
    try:
        yield running.ready()
    finally:
        running.kill()


def eventually(look: Callable[[], Any], what: str) -> Any:
    """Ask until it is so."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(0.1)
    raise AssertionError(f"never: {what}")


@pytest.fixture
def client(up: Running) -> Iterator[Callable[[str], httpx.Client]]:
    """A client for each key."""
    with contextlib.ExitStack() as stack:
        yield lambda key: stack.enter_context(httpx.Client(base_url=up.url, headers={"authorization": f"Bearer {key}"}, timeout=20))


def every_second(asking: httpx.Client, name: str) -> str:
    """A job that fires every second and misses none."""
    body = {
        "name": name,
        "type": "INTERVAL",
        "intervalSec": 1,
        "target": {"handler": "duly.echo"},
        "catchUp": {"policy": "all"},
        "overlap": "allow",
    }
    answer = asking.post("/v1/jobs", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["jobId"])


def runs(asking: httpx.Client, job: str) -> list[dict[str, Any]]:
    answer = asking.get(f"/v1/jobs/{job}/executions", params={"limit": 200})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["items"])


def succeeded(asking: httpx.Client, job: str) -> int:
    return sum(run["state"] == "SUCCEEDED" for run in runs(asking, job))


def assert_every_second_once(asking: httpx.Client, job: str) -> None:
    """Every instant from the first to the last has exactly one execution."""
    instants = sorted(from_rfc3339(run["scheduledAt"]) // SECOND for run in runs(asking, job))
    assert instants == list(range(instants[0], instants[-1] + 1)), Counter(instants)


def test_a_tenant_is_served_where_it_lives_and_moves_while_others_go_on(
    home: Path, up: Running, client: Callable[[str], httpx.Client]
) -> None:
    env = environment(home / "home", DULY_ADMIN_KEY=ADMIN, DULY_URL=up.url)
    admin = client(ADMIN)
    made = {name: admin.post("/v1/tenants", json={"name": name}).json() for name in ("acme", "eu-one")}
    assert {name: tenant["store"] for name, tenant in made.items()} == {"acme": "main", "eu-one": "eu"}
    acme, eu = (client(made[name]["key"]["secret"]) for name in ("acme", "eu-one"))
    jobs = {asking: every_second(asking, "tick") for asking in (acme, eu, admin)}
    sleeper = acme.post("/v1/jobs", json={"name": "long", "target": {"handler": "long"}}).json()["jobId"]
    eventually(lambda: all(succeeded(asking, job) >= 2 for asking, job in jobs.items()), "all fire")
    long = acme.post(f"/v1/jobs/{sleeper}/executions", json={}).json()["executionId"]
    eventually(lambda: acme.get(f"/v1/executions/{long}").json()["state"] == "RUNNING", "it runs")
    # An id of one store is nobody's in the other.
    assert eu.get(f"/v1/executions/{long}").status_code == 404

    first = subprocess.Popen([*DULY, "tenant", "move", "acme", "--to", "eu"], env=env, cwd=home, stderr=subprocess.PIPE, text=True)
    assert first.stderr is not None
    assert any("waits for" in line for line in iter(first.stderr.readline, ""))
    first.send_signal(signal.SIGKILL)
    first.wait()
    first.stderr.close()

    refused = acme.post(f"/v1/jobs/{sleeper}/executions", json={})
    assert (refused.status_code, refused.json()["code"]) == (503, "DULY-E405")
    assert "retry-after" in refused.headers
    assert acme.get(f"/v1/executions/{long}").status_code == 200
    assert eu.post("/v1/jobs", json={"name": "another", "target": {"handler": "duly.echo"}}).status_code == 201
    (home / "enough").touch()
    done = duly("tenant", "move", "acme", "--to", "eu", "--settle", "0s", env=env, cwd=home)
    assert done.code == 0, done.err

    moved = eventually(lambda: acme.get(f"/v1/executions/{long}").status_code == 200 and acme.get("/v1/tenants/acme").json(), "it is found")
    assert moved["store"] == "eu"
    assert acme.get(f"/v1/executions/{long}").json()["state"] == "SUCCEEDED"
    assert [(t["name"], t["store"]) for t in admin.get("/v1/tenants").json()["items"]] == [
        ("acme", "eu"),
        ("default", "main"),
        ("eu-one", "eu"),
    ]
    before = {asking: succeeded(asking, job) for asking, job in jobs.items()}
    eventually(lambda: all(succeeded(asking, job) >= before[asking] + 3 for asking, job in jobs.items()), "all go on")
    for asking, job in jobs.items():
        assert_every_second_once(asking, job)
    # Its keys are ended where they live now.
    key = acme.post("/v1/keys", json={"role": "VIEWER", "name": "short"}).json()
    viewer = client(key["secret"])
    assert viewer.get("/v1/jobs").status_code == 200
    assert acme.delete(f"/v1/keys/{key['keyId']}").status_code in (200, 204)
    eventually(lambda: viewer.get("/v1/jobs").status_code == 401, "the key is revoked")
