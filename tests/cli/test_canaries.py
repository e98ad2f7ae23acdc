"""Canaries: secrets of every kind go through a real fleet that succeeds, fails, crashes and logs. Afterwards they are nowhere.

Everything that the fleet printed, answered or kept is searched for each of them, as it is and as it travels.
"""

from __future__ import annotations

import asyncio
import base64
import http.server
import json
import os
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import asyncpg
import pytest

from tests.chaos.fleet import eventually
from tests.cli.processes import Answer, Running, duly, environment

if not os.environ.get("CI"):
    pytest.importorskip("cryptography", reason="pip install 'duly[encryption]'")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

APP = """
import logging, os
from duly import App, Context, Secret

app = App("canaries")

@app.job(retry=1)
async def returns(ctx: Context, value: Secret[str], env: Secret[str] = Secret.env("DULY_SECRET_CANARY")):
    ctx.log.info(f"value {value.reveal()}", env=env.reveal(), shown=value)
    ctx.progress(1, 2, f"at {value.reveal()}")
    await ctx.checkpoint({"value": value.reveal()})
    return {"value": value.reveal(), "nested": [env.reveal(), f"{env.reveal()}!"], env.reveal(): 1}

@app.job(retry=1)
def raises(value: Secret[str], file: Secret[str] = Secret.file("canary")):
    logging.getLogger("shop").warning("logging %s and %s", value.reveal(), file.reveal())
    raise ValueError(f"no {value.reveal()} with {file.reveal()} at https://user:{value.reveal()}@example.com")

@app.job(executor="process", retry=1)
def child(ctx: Context, value: Secret[str], env: Secret[str] = Secret.env("DULY_SECRET_CANARY")):
    print("child", value.reveal(), env.reveal())
    ctx.log.warning("child %s" % env.reveal())
    if value.reveal().endswith("!"):
        os.write(2, value.reveal().encode())
        os.abort()
    raise RuntimeError(value.reveal())
"""


class Canaries(dict[str, str]):
    """The secrets, by what they are."""

    def found_in(self, text: str | bytes) -> set[str]:
        """Which of them a text has in it, as they are or as they travel."""
        raw = text if isinstance(text, bytes) else text.encode()
        return {name for name, value in self.items() if any(form in raw for form in _forms(value))}


def _forms(value: str) -> list[bytes]:
    raw = value.encode()
    encoded = base64.b64encode(raw).rstrip(b"=")
    return [raw, encoded[:-2], base64.b64encode(b"x" + raw)[4:-4], quote(value, safe="").encode(), raw.hex().encode()]


CANARIES = Canaries(
    env="canary-env-0a1b2c3d4e",
    file="canary-file-5f6a7b8c9d",
    value="canary-value-1e2f3a4b5c",
    crash="canary-crash-77aa66bb55!",
    admin_key="duly_ca9a51000000000000000000000000000000000000000000000000000000adm1",
    signing="canary-signing-8d9e0f1a2b",
    store_password="canary-store-3c4d5e6f70",
    payload_key=base64.b64encode(b"canary-payload-key-0123456789abc").decode(),
)


@dataclass
class Fleet:
    """A server, a worker on the store and one over HTTP; and everything that anybody could read of them."""

    home: Path
    store: str | None
    start: Callable[..., Running]
    directory: Path
    seen: dict[str, str] = field(default_factory=dict)
    running: list[Running] = field(default_factory=list)
    url: str = ""

    def settings(self, **more: str) -> dict[str, str]:
        return {
            "DULY_ADMIN_KEY": CANARIES["admin_key"],
            "DULY_PAYLOAD_KEYS": f"k1:{CANARIES['payload_key']}",
            "DULY_LOG_LEVEL": "debug",
            **({} if self.store is None else {"DULY_STORE": self.store}),
            **more,
        }

    def worker_settings(self, receiver: str, **more: str) -> dict[str, str]:
        return {
            "DULY_SECRET_CANARY": CANARIES["env"],
            "DULY_SECRETS_DIR": str(self.directory / "secrets"),
            "DULY_WEBHOOK_SECRET": CANARIES["signing"],
            "DULY_WEBHOOK_ALLOW": receiver,
            "DULY_LOG_LEVEL": "debug",
            **more,
        }

    def up(self, receiver: str) -> None:
        server = self.start("server", "--port", "0", home=self.home, cwd=self.directory, **self.settings(DULY_LOG_FORMAT="json")).ready()
        self.url = server.url
        direct = self.settings() | self.worker_settings(receiver)
        remote = self.worker_settings(receiver, DULY_URL=self.url, DULY_KEY=CANARIES["admin_key"], DULY_POOL="remote")
        workers = [
            self.start("worker", "app:app", "--allow-shell", home=self.home, cwd=self.directory, **direct),
            self.start("worker", "app:app", "--allow-shell", "--server", self.url, home=self.home, cwd=self.directory, **remote),
        ]
        self.running = [server, *(worker.ready() for worker in workers)]

    def ask(self, method: str, path: str, body: Any = None, key: str = CANARIES["admin_key"]) -> Any:
        """Call the API and remember the answer."""
        request = urllib.request.Request(f"{self.url}{path}", None if body is None else json.dumps(body).encode(), method=method)
        request.add_header("Authorization", f"Bearer {key}")
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30) as answered:
                text, headers = answered.read().decode(), str(answered.headers)
        except urllib.error.HTTPError as error:
            with error:
                text, headers = error.read().decode(), str(error.headers)
        self.seen[f"{method} {path} {len(self.seen)}"] = f"{headers}\n{text}"
        return json.loads(text) if "json" in headers.lower() else text

    def command(self, *words: str) -> Answer:
        """Run a command and remember what it printed."""
        done = duly(*words, env=environment(self.home, **self.settings(DULY_URL=self.url)), cwd=self.directory)
        self.seen[f"duly {' '.join(words)}"] = f"{done.out}\n{done.err}"
        return done

    def final(self, run: str) -> Any:
        """The execution, once it is final."""
        eventually(lambda: self.ask("GET", f"/v1/executions/{run}")["finishedAt"] is not None, 60, f"{run} is final")
        return self.ask("GET", f"/v1/executions/{run}")

    def down(self) -> None:
        for running in self.running:
            running.process.terminate()
            running.end()
            self.seen[f"log of {running.process.args[3]} {running.process.pid}"] = running.printed  # type: ignore[index]

    def kept(self) -> dict[str, bytes]:
        """Every file that the fleet has made; on PostgreSQL every row of every table."""
        files = [path for path in self.home.rglob("*") if path.is_file() and path.name != "admin.key"]
        files += [path for path in self.directory.rglob("*") if path.is_file() and "secrets" not in path.parts]
        found = {str(path): path.read_bytes() for path in files}
        if self.store is not None:
            found["tables"] = asyncio.run(_dump(self.store))
        return found


async def _dump(dsn: str) -> bytes:
    connection = await asyncpg.connect(dsn)
    try:
        tables = await connection.fetch(
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        )
        assert tables
        texts: list[str] = []
        for row in tables:
            found = await connection.fetch(f'SELECT t::text AS line FROM "{row["schemaname"]}"."{row["tablename"]}" t')
            texts += [line["line"] for line in found]
        return "\n".join(texts).encode()
    finally:
        await connection.close()


class Receiver(http.server.BaseHTTPRequestHandler):
    """Answers with everything that it was sent, as careless servers do."""

    requests: list[tuple[str, dict[str, str], str]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        self.server.requests.append((self.path, dict(self.headers), body))  # type: ignore[attr-defined]
        answer = json.dumps({"path": self.path, "headers": dict(self.headers), "body": body}).encode()
        self.send_response(500 if "fail" in self.path else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[http.server.ThreadingHTTPServer]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.requests = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(
    request: pytest.FixtureRequest, tmp_path: Path, start: Callable[..., Running], receiver: http.server.ThreadingHTTPServer
) -> Fleet:
    store = None
    if request.param == "postgres":
        parts = urlsplit(request.getfixturevalue("postgres_dsn"))
        user = parts.username or "postgres"
        host = parts.netloc.rpartition("@")[2]
        store = parts._replace(netloc=f"{user}:{CANARIES['store_password']}@{host}").geturl()
    directory = tmp_path / "work"
    (directory / "secrets").mkdir(parents=True)
    (directory / "secrets" / "canary").write_text(CANARIES["file"] + "\n")
    (directory / "app.py").write_text(APP)
    made = Fleet(tmp_path / "home", store, start, directory)
    made.up(f"127.0.0.1:{receiver.server_port}")
    return made


def work(fleet: Fleet, port: int) -> dict[str, Any]:
    """Every way to run, with every kind of secret in it; the executions by name."""
    ended: dict[str, Any] = {}
    value = {"value": {"$secret": {"value": CANARIES["value"]}}}
    jobs = {job["name"]: job["jobId"] for job in fleet.ask("GET", "/v1/jobs")["items"]}
    for pool in ("default", "remote"):
        for name, payload in {
            "returns": value,
            "raises": value,
            "child": value,
            "crash": {"value": {"$secret": {"value": CANARIES["crash"]}}},
        }.items():
            handler = "child" if name == "crash" else name
            if pool == "default" and name != "crash":
                job = jobs[name]
            else:
                target = {"handler": handler, "pool": pool}
                job = fleet.ask(
                    "POST", "/v1/jobs", {"name": f"{name}-{pool}", "target": target, "retryPolicy": {"maxAttempts": 1, "maxLosses": 1}}
                )["jobId"]
            ended[f"{name} {pool}"] = fleet.ask("POST", f"/v1/jobs/{job}/executions", {"payload": payload})["executionId"]
        shell = ["sh", "-c", 'cat; echo "out $TOKEN"; echo "err $TOKEN" >&2; printf "%s" "$TOKEN" | base64 >&2; exit $CODE']
        for code in (0, 3):
            target = {"pool": pool, "shell": shell, "env": {"TOKEN": "${secret:env:DULY_SECRET_CANARY}", "CODE": str(code)}}
            body = {"name": f"shell-{pool}-{code}", "target": target, "payload": {"a": {"$secret": "file:canary"}} | value, "delaySec": 0}
            fleet.ask("POST", "/v1/jobs", body | {"retryPolicy": {"maxAttempts": 1}})
        for path in ("echo", "fail"):
            hook = {
                "url": f"http://127.0.0.1:{port}/{path}?token=${{secret:env:DULY_SECRET_CANARY}}",
                "headers": {"Authorization": "Bearer ${secret:file:canary}"},
                "body": {"env": {"$secret": "env:DULY_SECRET_CANARY"}},
            }
            target = {"pool": pool, "http": hook}
            fleet.ask("POST", "/v1/jobs", {"name": f"{path}-{pool}", "target": target, "delaySec": 0, "retryPolicy": {"maxAttempts": 1}})
    found = {name: fleet.final(run) for name, run in ended.items()}
    for job in fleet.ask("GET", "/v1/jobs?limit=200")["items"]:
        if job["name"].startswith(("shell", "echo", "fail")):
            (run,) = _first(fleet, job["jobId"])
            found[job["name"]] = fleet.final(run["executionId"])
    return found


def _first(fleet: Fleet, job: str) -> list[Any]:
    eventually(lambda: bool(fleet.ask("GET", f"/v1/jobs/{job}/executions")["items"]), 60, "it has fired")
    items: list[Any] = fleet.ask("GET", f"/v1/jobs/{job}/executions")["items"]
    return items


def look_everywhere(fleet: Fleet, executions: dict[str, Any]) -> None:
    """Everything that can be read of it: every answer of the API, and every command."""
    for name, execution in executions.items():
        run = execution["executionId"]
        for path in ("", "/attempts", "/logs", "/why"):
            fleet.ask("GET", f"/v1/executions/{run}{path}")
        if name not in ("returns default", "raises remote", "shell-default-3", "fail-remote"):
            continue
        for words in (("run", "show", run), ("run", "show", run, "--output", "json"), ("logs", run), ("why", run)):
            fleet.command(*words)
    for job in fleet.ask("GET", "/v1/jobs?limit=200")["items"]:
        for path in ("", "/why", "/executions"):
            fleet.ask("GET", f"/v1/jobs/{job['jobId']}{path}")
    fleet.command("job", "show", "shell-default-0")
    fleet.command("job", "show", "echo-remote")
    for path in (
        "jobs",
        "executions",
        "workers",
        "pools",
        "stats",
        "keys",
        "dead-letters",
        "dead-letters/open",
        "calendars",
        "openapi.json",
    ):
        fleet.ask("GET", f"/v1/{path}")
    for path in ("/healthz", "/readyz", "/version", "/metrics", "/v1/nothing"):
        fleet.ask("GET", path)
    for words in (
        ("job", "list"),
        ("run", "list"),
        ("dead", "list"),
        ("key", "list"),
        ("doctor",),
        ("config", "show"),
        ("status",),
        ("version",),
    ):
        fleet.command(*words)


def make_mistakes(fleet: Fleet) -> None:
    """Problem documents: what was sent must not come back."""
    secret = CANARIES["value"]
    for body in (
        {"target": {"handler": "x"}, "payload": {"a": {"$secret": secret}}},
        {"target": {"handler": "x"}, "payload": {"a": {"$secret": {"value": secret, "more": 1}}}},
        {"target": {"http": {"url": "https://example.com/", "body": {"a": {"$secret": {"value": secret}}}}}},
        {"target": {"http": {"url": f"https://example.com/${{secret:{secret}}}"}}},
        {"target": {"shell": ["x"], "env": {"A": f"${{secret:{secret}"}}},
    ):
        assert fleet.ask("POST", "/v1/jobs", body)["status"] == 422
    fleet.ask("GET", "/v1/jobs", key=CANARIES["admin_key"][:-1] + "x")


def test_canaries_are_found_nowhere(fleet: Fleet, receiver: http.server.ThreadingHTTPServer) -> None:
    executions = work(fleet, receiver.server_port)
    look_everywhere(fleet, executions)
    make_mistakes(fleet)
    fleet.down()

    # The secrets were really there: handlers ran with them, and receivers got them.
    states = {name: execution["state"] for name, execution in executions.items()}
    assert states == {
        **{f"returns {pool}": "SUCCEEDED" for pool in ("default", "remote")},
        **{f"{name} {pool}": "DEAD" for name in ("raises", "child", "crash") for pool in ("default", "remote")},
        **{f"shell-{pool}-{code}": "DEAD" if code else "SUCCEEDED" for pool in ("default", "remote") for code in (0, 3)},
        **{f"{path}-{pool}": "DEAD" if path == "fail" else "SUCCEEDED" for pool in ("default", "remote") for path in ("echo", "fail")},
    }  # fmt: skip
    received = receiver.requests  # type: ignore[attr-defined]
    assert len(received) == 4
    for path, headers, body in received:
        assert path.endswith(f"?token={CANARIES['env']}")
        assert headers["Authorization"] == f"Bearer {CANARIES['file']}"
        assert json.loads(body) == {"env": CANARIES["env"]}
        assert re.match(r"t=\d+,v1=[0-9a-f]{64}\Z", headers["Duly-Signature"])
    assert executions["returns default"]["result"]["value"] == "••••••"
    assert executions["returns default"]["payload"] == {"value": {"$secret": "••••••"}}
    assert executions["raises remote"]["error"]["message"].startswith("no •••••• with ••••••")

    leaks = {name: found for name, text in fleet.seen.items() if (found := CANARIES.found_in(text))}
    assert leaks == {}
    kept = {name: found for name, raw in fleet.kept().items() if (found := CANARIES.found_in(raw))}
    assert kept == {}
    assert len(fleet.seen) > 150, "nearly everything that can be asked was asked"
    assert not list(fleet.directory.glob("core*"))
