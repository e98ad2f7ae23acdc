"""The client and its calls: what is sent, how answers and failures are read, what is sent again and what is not."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from duly.domain.errors import Conflict, DulyError, Forbidden, Invalid, NotFound, TooLarge, TooMany, Unavailable
from duly.sdk import calls
from duly.sdk.client import Client
from duly.sdk.streams import Event, Events, log_line
from duly.wire.executions import StateName
from duly.wire.shapes import Page

JOB, RUN = "job_" + "1" * 32, "run_" + "2" * 32
ENQUEUED = {"executionId": RUN, "jobId": JOB, "state": "PENDING", "scheduledAt": "2026-01-05T12:00:00Z", "added": "by a later version"}


# ---------------------------------------------------------------- calls, without any network


def test_a_call_is_the_request_that_the_api_documents() -> None:
    call = calls.enqueue(JOB, payload={"n": 1}, run_at=datetime(2026, 1, 5, 12, tzinfo=UTC), priority="HIGH", idempotency_key="once")

    assert (call.request.method, call.request.path) == ("POST", f"/v1/jobs/{JOB}/executions")
    assert json.loads(call.request.body or b"") == {"payload": {"n": 1}, "runAt": "2026-01-05T12:00:00Z", "priority": "HIGH"}
    assert call.request.headers == {"Content-Type": "application/json", "Idempotency-Key": "once"}


def test_a_payload_of_null_is_sent_and_no_payload_is_not() -> None:
    assert calls.run_job(JOB, payload=None).request.body == b'{"payload":null}'
    assert calls.run_job(JOB).request.body == b"{}"


def test_filters_are_encoded_and_those_not_given_left_out() -> None:
    assert calls.list_jobs(name="a b&c", limit=5).request.path == "/v1/jobs?name=a+b%26c&limit=5"
    assert calls.list_jobs().request.path == "/v1/jobs"
    noon = datetime(2026, 1, 5, 12, tzinfo=UTC)
    wanted = calls.list_executions(job_name="mail", since=noon, payload={"customer.id": "4 2"}, limit=5).request.path
    assert wanted == "/v1/executions?jobName=mail&since=2026-01-05T12%3A00%3A00Z&payload.customer.id=4+2&limit=5"
    assert calls.list_upcoming(since=noon, summary="minute").request.path == "/v1/upcoming?from=2026-01-05T12%3A00%3A00Z&summary=minute"
    assert calls.list_jobs(type="CRON", next_fire_before=noon).request.path == "/v1/jobs?type=CRON&nextFireBefore=2026-01-05T12%3A00%3A00Z"
    assert calls.follow_events(last_event_id="7").headers == {"Accept": "text/event-stream", "Last-Event-ID": "7"}
    assert calls.follow_events().path == "/v1/events"
    for call in (calls.cancel_job("job_1", version=3), calls.pause_job("job_1", version=3), calls.resume_job("job_1", version=3)):
        assert call.request.headers["If-Match"] == '"v3"'


@pytest.mark.parametrize(
    ("call", "is_repeatable"),
    [
        (calls.show_job(JOB), True),
        (calls.cancel_job(JOB), True),
        (calls.pause_job(JOB), True),
        (calls.run_job(JOB), False),
        (calls.run_job(JOB, idempotency_key="once"), True),
        (calls.create_job({"target": {"handler": "duly.echo"}}), False),
        (calls.replay_execution(RUN), False),
    ],
)
def test_only_what_does_no_harm_twice_is_repeatable(call: calls.Call[Any], is_repeatable: bool) -> None:
    assert call.is_repeatable is is_repeatable


def test_an_answer_becomes_its_wire_type_and_unknown_keys_are_ignored() -> None:
    view = calls.run_job(JOB).answer(201, {}, json.dumps(ENQUEUED).encode())

    assert view.execution_id == RUN
    assert view.state is StateName.PENDING


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "DULY-E107", Invalid),
        (401, "DULY-E302", Forbidden),
        (403, "DULY-E303", Forbidden),
        (404, "DULY-E204", NotFound),
        (409, "DULY-E208", Conflict),
        (412, "DULY-E209", Conflict),
        (413, "DULY-E109", TooLarge),
        (415, "DULY-E115", Invalid),
        (422, "DULY-E101", Invalid),
        (429, "DULY-E401", TooMany),
        (500, "DULY-E599", DulyError),
        (503, "DULY-E501", Unavailable),
    ],
)
def test_a_problem_becomes_the_error_it_stands_for(status: int, code: str, kind: type[DulyError]) -> None:
    document = {
        "type": "urn",
        "title": "t",
        "status": status,
        "code": code,
        "detail": "what",
        "field": "f",
        "hint": "do",
        "requestId": "req_1",
    }

    with pytest.raises(DulyError) as caught:
        calls.show_job(JOB).answer(status, {"retry-after": "7"}, json.dumps(document).encode())

    error = caught.value
    assert type(error) is kind
    assert (error.code, error.message, error.field, error.hint) == (code, "what", "f", "do")
    assert error.__notes__ == ["request req_1"]
    if isinstance(error, Unavailable | TooMany):
        assert error.retry_after == 7.0


@pytest.mark.parametrize(
    ("status", "body"), [(200, b"<html>hello</html>"), (502, b"<html>bad gateway</html>"), (200, b'{"other": 1}'), (404, b"")]
)
def test_an_answer_that_is_not_ours_is_called_so(status: int, body: bytes) -> None:
    with pytest.raises(Unavailable, match="is not one of a Duly server") as caught:
        calls.show_job(JOB).answer(status, {"content-type": "text/html; charset=utf-8"}, body)

    assert caught.value.code == "DULY-E603"
    assert f"(status {status}, text/html)" in caught.value.message


def test_a_stream_is_read_in_pieces_of_any_size() -> None:
    text = b": hello\n\nid: 1\nevent: log\ndata: one\n\nevent: log\r\ndata: two\r\ndata: lines\r\n\r\nevent: end\ndata: {}\n\n"
    expected = [Event("log", b"one", "1"), Event("log", b"two\nlines", "1"), Event("end", b"{}", "1")]

    for size in (1, 2, 7, len(text)):
        events = Events()
        pieces = [text[at : at + size] for at in range(0, len(text), size)]

        assert [event for piece in pieces for event in events.feed(piece)] == expected


def test_every_page_follows_the_cursor_and_stops_at_the_limit() -> None:
    pages = {None: Page(items=[1, 2], next_cursor="a"), "a": Page(items=[3, 4], next_cursor="b"), "b": Page(items=[5], next_cursor=None)}
    asked: list[str | None] = []

    def fetch(call: Any) -> Page[int]:
        asked.append(call)
        return pages[call]

    def listing(cursor: str | None) -> Any:
        return cursor

    assert list(calls.every_page(fetch, listing, 100)) == [1, 2, 3, 4, 5]
    assert list(calls.every_page(fetch, listing, 3)) == [1, 2, 3]
    assert asked == [None, "a", "b", None, "a"]


# ---------------------------------------------------------------- over a socket that does as it is told


@dataclass
class Peer:
    """A server that plays back answers: one list per connection; a connection ends after its last answer."""

    url: str
    requests: list[bytes] = field(default_factory=list)


Play = Callable[[list[list[bytes]]], Peer]


@pytest.fixture
def play() -> Iterator[Play]:
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def begin(connections: list[list[bytes]]) -> Peer:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        peer = Peer(f"http://127.0.0.1:{listener.getsockname()[1]}")

        def serve() -> None:
            for answers in connections:
                connection, _ = listener.accept()
                with closing(connection):
                    for answer in answers:
                        peer.requests.append(_request(connection))
                        connection.sendall(answer)

        threads.append(threading.Thread(target=serve, daemon=True))
        threads[-1].start()
        return peer

    yield begin
    for thread in threads:
        thread.join(timeout=10)
    for listener in listeners:
        listener.close()


def _request(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65_536)
    head, _, body = received.partition(b"\r\n\r\n")
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
    while len(body) < length:
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


def reply(body: object, status: str = "200 OK") -> bytes:
    text = json.dumps(body).encode()
    return b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (status.encode(), len(text), text)


VERSION = reply({"version": "1"})


def test_the_key_and_the_agent_are_sent_and_the_connection_is_kept(play: Play) -> None:
    peer = play([[VERSION, VERSION]])

    with Client(peer.url, "duly_secret", agent="test") as client:
        client.send(calls.show_version())
        client.send(calls.show_version())

    assert len(peer.requests) == 2
    assert b"Authorization: Bearer duly_secret" in peer.requests[0]
    assert b"User-Agent: test" in peer.requests[0]


def test_a_server_below_a_path_is_reached_there(play: Play) -> None:
    peer = play([[VERSION]])

    with Client(f"{peer.url}/duly/") as client:
        client.send(calls.show_version())

    assert peer.requests[0].startswith(b"GET /duly/version HTTP/1.1")


def test_what_may_be_repeated_is_sent_again_when_a_kept_connection_has_ended(play: Play) -> None:
    peer = play([[VERSION], [VERSION]])

    with Client(peer.url) as client:
        client.send(calls.show_version())

        assert client.send(calls.show_version()).version == "1"

    assert len(peer.requests) == 2


def test_what_may_not_be_repeated_is_an_error_instead(play: Play) -> None:
    peer = play([[VERSION], [reply(ENQUEUED)]])

    with Client(peer.url) as client:
        client.send(calls.show_version())
        with pytest.raises(Unavailable) as caught:
            client.send(calls.run_job(JOB))
        # The connection is open again for whoever decides to repeat it.
        again = client.send(calls.run_job(JOB))

    assert caught.value.code == "DULY-E603"
    assert again.execution_id == RUN


def test_an_answer_that_is_cut_off_is_no_answer(play: Play) -> None:
    peer = play([[b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"version"']])

    with Client(peer.url) as client, pytest.raises(Unavailable) as caught:
        client.send(calls.show_version())

    assert caught.value.code == "DULY-E603"


def test_a_server_that_is_silent_is_not_waited_for(play: Play) -> None:
    peer = play([[b""]])

    with Client(peer.url, timeout=0.2) as client, pytest.raises(Unavailable, match=r"no answer in time|closed connection"):
        client.send(calls.show_version())


def test_nobody_there() -> None:
    with Client("http://127.0.0.1:1") as client, pytest.raises(Unavailable, match="connection refused") as caught:
        client.send(calls.show_version())

    assert caught.value.hint == "Start one with `duly up`, or set DULY_URL."


def test_a_stream_ends_with_the_connection(play: Play) -> None:
    line = {"at": "2026-01-05T12:00:00Z", "attempt": 1, "level": "info", "message": "hi", "fields": {}}
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    peer = play([[head + b"event: log\ndata: " + json.dumps(line).encode() + b'\n\nevent: end\ndata: {"state": "DEAD"}\n\n']])

    with Client(peer.url) as client:
        events = list(client.stream(calls.follow_logs(RUN)))

    first = log_line(events[0])
    assert first is not None
    assert first.message == "hi"
    assert log_line(events[1]) is None
    assert b"Accept: text/event-stream" in peer.requests[0]


def test_a_stream_that_is_refused_is_an_error(play: Play) -> None:
    document = {"type": "urn", "title": "t", "status": 404, "code": "DULY-E205", "detail": "There is no execution."}
    peer = play([[reply(document, "404 Not Found")]])

    with Client(peer.url) as client, pytest.raises(NotFound):
        list(client.stream(calls.follow_logs(RUN)))


@pytest.mark.parametrize("url", ["", "127.0.0.1:3859", "ftp://host", "http://", "http://host:port", "http://host:99999"])
def test_what_is_not_an_address_is_refused_before_it_is_used(url: str) -> None:
    with pytest.raises(Invalid) as caught:
        Client(url)

    assert (caught.value.code, caught.value.field) == ("DULY-E601", "DULY_URL")


@pytest.mark.parametrize("key", ["duly_a\r\nX-Evil: 1", "duly ä", "duly a b"])
def test_a_key_cannot_smuggle_a_header(key: str) -> None:
    with pytest.raises(Invalid) as caught:
        Client("http://127.0.0.1:1", key)

    assert key not in str(caught.value)
