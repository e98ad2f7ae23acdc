"""What every rule needs: a way to the server that hides nothing, jobs on pools of its own, and workers played by hand."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import secrets
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from duly.domain.errors import Invalid, Unavailable
from duly.wire.problems import unreachable

PATIENCE = 30.0
HANDLER = "conformance.noop"


class Broken(Exception):
    """A rule does not hold; the text is what was seen instead."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One answer, as it came."""

    status: int
    kind: str
    body: Any
    took: float

    def __str__(self) -> str:
        code = f" {self.body['code']}" if isinstance(self.body, dict) and "code" in self.body else ""
        return f"{self.status}{code}"

    def need(self, status: int, code: str | None = None) -> Any:
        """The body, if the status (and the code of a problem document) is this one. Raises Broken."""
        if self.status != status or (code is not None and self.code != code):
            detail = f" ({self.body.get('detail')})" if isinstance(self.body, dict) and self.body.get("detail") else ""
            raise Broken(f"{self}{detail}")
        if status >= 400 and (self.kind != "application/problem+json" or not str(self.code or "").startswith("DULY-E")):
            raise Broken(f"{self.status} with {self.kind}, not a problem document with a code")
        return self.body

    @property
    def code(self) -> str | None:
        return self.body.get("code") if isinstance(self.body, dict) else None


class Probe:
    """Sends requests to one server. Each on a connection of its own, so that rules can talk side by side."""

    def __init__(self, url: str, key: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Invalid("DULY-E601", f"{url!r} is not the address of a server.", field="URL", hint="For example http://127.0.0.1:3859.")
        self._url, self._parts, self.key = url, parts, key

    def ask(
        self, method: str, path: str, body: object = None, *, raw: bytes | None = None, key: str | None = None, timeout: float = 60.0
    ) -> Seen:
        """One request and its answer, whatever it is. Raises Unavailable when there is none."""
        secure = self._parts.scheme == "https"
        host, port = self._parts.hostname or "", self._parts.port
        connection: http.client.HTTPConnection
        if secure:
            connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context())
        else:
            connection = http.client.HTTPConnection(host, port, timeout=timeout)
        sent = raw if raw is not None else None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {key or self.key}", "Content-Type": "application/json", "Accept": "application/json"}
        began = time.monotonic()
        try:
            with contextlib.closing(connection):
                connection.request(method, self._parts.path.rstrip("/") + path, sent, headers)
                answer = connection.getresponse()
                content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(self._url, str(error) or type(error).__name__) from error
        try:
            decoded: Any = json.loads(content) if content else None
        except ValueError:
            decoded = content.decode("latin-1")
        return Seen(answer.status, (answer.headers.get("Content-Type") or "").partition(";")[0], decoded, time.monotonic() - began)

    def get(self, path: str) -> Any:
        """What a reader sees."""
        return self.ask("GET", path).need(200)

    def post(self, path: str, body: object = None) -> Seen:
        """A request of the protocol."""
        return self.ask("POST", path, {} if body is None else body)


@dataclass
class Stage:
    """Where one rule plays: a pool of its own, jobs on it, workers for it. `clear` leaves nothing behind."""

    probe: Probe
    pool: str
    jobs: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    workers: list[str] = field(default_factory=list)

    def job(self, handler: str = HANDLER, **more: Any) -> str:
        """A job whose retries come at once unless it says otherwise."""
        retry = {"maxAttempts": 3, "initialDelayMs": 0, "jitter": 0} | more.pop("retryPolicy", {})
        target = {"pool": self.pool, "handler": handler} | more.pop("target", {})
        name = f"{self.pool}-{len(self.jobs)}"
        created = self.probe.ask("POST", "/v1/jobs", {"name": name, "target": target, "retryPolicy": retry, **more}).need(201)
        self.jobs.append(created["jobId"])
        return str(created["jobId"])

    def enqueue(self, job: str, payload: Any = None, **more: Any) -> str:
        """An execution that is ready now."""
        made = self.probe.ask("POST", f"/v1/jobs/{job}/executions", {"payload": payload, **more}).need(201)
        self.runs.append(made["executionId"])
        return str(made["executionId"])

    def run(self, payload: Any = None, **job: Any) -> str:
        """A job and one execution of it."""
        return self.enqueue(self.job(**job), payload)

    def register(self, **more: Any) -> str:
        """A worker of this pool that offers the handler of these rules."""
        about = {"name": f"{self.pool}-worker", "pool": self.pool, "handlers": [HANDLER], "slots": 10, "ttlSec": 30, **more}
        answer = self.probe.post("/v1/workers", about).need(201)
        self.workers.append(answer["workerId"])
        return str(answer["workerId"])

    def poll(self, worker: str, **more: Any) -> Seen:
        """One poll for work."""
        return self.probe.post(f"/v1/workers/{worker}/lease", {"max": 10, **more})

    def lease(self, worker: str, **more: Any) -> Any:
        """A lease, waited for."""
        return self.poll(worker, **{"waitSec": 20, **more}).need(200)

    def one(self, worker: str, **more: Any) -> Turn:
        """A lease of one execution, ready to be reported."""
        lease = self.lease(worker, max=1, **more)
        return Turn(self, worker, lease["leaseId"], lease["executions"][0])

    def execution(self, run: str) -> Any:
        """How it stands."""
        return self.probe.get(f"/v1/executions/{run}")

    def attempts(self, run: str) -> list[str | None]:
        """How its attempts ended."""
        return [attempt["outcome"] for attempt in self.probe.get(f"/v1/executions/{run}/attempts")["items"]]

    def until(self, true: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        """Look until it is so. Raises Broken."""
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                raise Broken(f"after {seconds:.0f} s still not: {what}")
            time.sleep(0.1)

    def clear(self) -> None:
        """Workers retire, executions are cancelled, jobs are deleted."""
        with contextlib.suppress(Unavailable):
            for worker in self.workers:
                self.probe.post(f"/v1/workers/{worker}/drain", {"retire": True})
            for run in self.runs:
                self.probe.post(f"/v1/executions/{run}/cancel")
            for job in self.jobs:
                self.probe.ask("DELETE", f"/v1/jobs/{job}")


@dataclass(frozen=True, slots=True)
class Turn:
    """One execution in a worker's hands."""

    stage: Stage
    worker: str
    fence: int
    run: Any

    @property
    def id(self) -> str:
        return str(self.run["executionId"])

    def say(self, verb: str, *, by: str | None = None, fence: int | None = None, **more: Any) -> Seen:
        """Report something about it: complete, fail, release, log, checkpoint, progress."""
        body = {"workerId": by or self.worker, "fence": self.fence if fence is None else fence, **more}
        return self.stage.probe.post(f"/v1/executions/{self.id}/{verb}", body)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: what is expected, and how to see whether it is so."""

    expected: str
    check: Callable[[Stage], str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one rule."""

    number: int
    expected: str
    seen: str
    holds: bool


class Book:
    """Rules in the order in which they are written."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = list(rules)

    def __add__(self, other: Book) -> Book:
        return Book([*self.rules, *other.rules])

    def rule(self, expected: str) -> Callable[[Callable[[Stage], str]], Callable[[Stage], str]]:
        """Add a rule; its function answers what it saw, and raises Broken when that is not what was expected."""

        def add(check: Callable[[Stage], str]) -> Callable[[Stage], str]:
            self.rules.append(Rule(expected, check))
            return check

        return add

    def verdicts(self, make: Callable[[str], Stage]) -> Iterator[Verdict]:
        """Play every rule on a stage of its own, and clear up after each."""
        name = f"conformance-{secrets.token_hex(4)}"
        for number, rule in zip(itertools.count(1), self.rules, strict=False):
            stage = make(f"{name}-{number}")
            try:
                yield Verdict(number, rule.expected, rule.check(stage), True)
            except Broken as broken:
                yield Verdict(number, rule.expected, str(broken), False)
            except (KeyError, TypeError, IndexError, AttributeError) as error:
                yield Verdict(number, rule.expected, f"an answer of another shape ({type(error).__name__}: {error})", False)
            finally:
                stage.clear()


def expect(holds: object, seen: str) -> str:
    """What was seen, if it is as it should be. Raises Broken."""
    if not holds:
        raise Broken(seen)
    return seen
