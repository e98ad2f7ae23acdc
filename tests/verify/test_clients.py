"""What a client notes: done, not done, or nobody knows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from duly.services.service import free_port
from duly.verify.clients import Client

Answer = Callable[[BaseHTTPRequestHandler], None]


class Api:
    """A server that answers as it is told, and keeps the keys that it was sent."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.keys: list[str | None] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"] or 0))
                api.keys.append(self.headers["Idempotency-Key"])
                api.answers.pop(0)(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


def says(status: int, text: bytes) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)

    return answer


def hangs_up(request: BaseHTTPRequestHandler) -> None:
    request.close_connection = True


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()
    yield made
    made.close()


@pytest.fixture
def client(api: Api) -> Iterator[Client]:
    with ThreadPoolExecutor(1) as threads:
        yield Client("client-1", [api.port], "duly_key", threads)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (says(201, b'{"jobId": "job_1"}'), "ok"),
        (says(409, b'{"code": "DULY-E208"}'), "fail"),
        (says(503, b'{"code": "DULY-E501"}'), "info"),
        (says(500, b'{"code": "DULY-E599"}'), "info"),
        (hangs_up, "info"),
    ],
)
async def test_the_answer_says_what_is_known(api: Api, client: Client, answer: Answer, status: str) -> None:
    api.answers.append(answer)

    call = await client.ask("job.create", "POST", "/v1/jobs", {"name": "a"}, key="k")

    assert (call.status, call.body, call.key) == (status, {"name": "a"}, "k")
    assert call.job == ("job_1" if status == "ok" else None)
    assert call.ended_at >= call.invoked_at > 0
    assert client.calls == [call]


async def test_what_nobody_knows_is_asked_again_with_the_same_key(api: Api, client: Client) -> None:
    api.answers += [hangs_up, says(201, b'{"executionId": "run_1"}')]

    call = await client.ask_until_known("run.enqueue", "POST", "/v1/jobs/job_1/executions", {}, key="k-7", job="job_1")

    assert (call.status, call.runs) == ("ok", ["run_1"])
    assert [(one.status, one.key) for one in client.calls] == [("info", "k-7"), ("ok", "k-7")]
    assert api.keys == ["k-7", "k-7"]


async def test_what_was_never_sent_was_not_done() -> None:
    with ThreadPoolExecutor(1) as threads:
        call = await Client("client-1", [free_port()], "duly_key", threads).ask("job.create", "POST", "/v1/jobs", {})

    assert call.status == "fail"


async def test_a_batch_is_noted_by_its_runs(api: Api, client: Client) -> None:
    api.answers.append(says(201, b'{"items": [{"executionId": "run_1"}, {"executionId": "run_2"}]}'))

    call = await client.ask("run.enqueue", "POST", "/x", {"executions": [{}, {}]}, job="job_1", noted={"count": 2})

    assert (call.runs, call.body) == (["run_1", "run_2"], {"count": 2})
