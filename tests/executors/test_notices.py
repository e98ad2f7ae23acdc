"""Channels are told as they want it: real servers on the loopback receive every kind."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from uuid import UUID

import pytest

from duly.domain.alerts.channel import Channel, ChannelKind, Encryption
from duly.domain.alerts.evaluate import About, Event, Incident, Phase
from duly.domain.alerts.message import Notice
from duly.domain.instants import MINUTE, SECOND
from duly.domain.secrets import Reference
from duly.executors.addresses import parse_allow
from duly.executors.notices import Notifier
from duly.executors.outbound import Outbound
from duly.ports.endings import Failure
from tests.executors.servers import answer, serve

NOW = 1_800_000_000 * SECOND
INCIDENT = Incident(
    id=UUID(int=7),
    tenant=1,
    rule="nightly-missed",
    subject="job_x",
    phase=Phase.OPEN,
    since=NOW - MINUTE,
    opened_at=NOW,
    is_told=True,
    about=About(kind="missed", title="nightly <!channel> was missed", lines=("nothing is recorded",), jobs=("nightly",)),
)
OPENED = Notice(INCIDENT, Event.OPENED, "default")
OVER = Notice(replace(INCIDENT, phase=Phase.RESOLVED, resolved_at=NOW + 4 * MINUTE), Event.RESOLVED, "default")


class Drawer:
    """Secrets by name."""

    def __init__(self, **values: str) -> None:
        self.values = values

    async def read(self, reference: Reference) -> str:
        return self.values[reference.name]

    def hide(self, values: object) -> None:
        return None


def notifier(port: int, **secrets: str) -> Notifier:
    return Notifier(Outbound(parse_allow([f"127.0.0.1:{port}"]), False, 5.0), Drawer(**secrets), None, lambda: NOW)


async def test_a_webhook_is_signed_and_says_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(answer()) as server:
        channel = Channel(name="ops", kind=ChannelKind.WEBHOOK, url=f"http://127.0.0.1:{server.port}/hook?x=1", secret="env:KEY")
        for notice in (OPENED, OVER):
            await notifier(server.port, KEY="k1").send(channel, notice)

    (first, headers, body), (_, _, over) = server.requests
    assert first == "POST /hook?x=1 HTTP/1.1"
    stamp = headers["duly-signature"].partition(",")[0].removeprefix("t=")
    proof = hmac.new(b"k1", f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    assert headers["duly-signature"] == f"t={stamp},v1={proof}"
    told = json.loads(body)
    assert (told["event"], told["incidentId"], told["title"]) == ("alert.opened", f"inc_{UUID(int=7).hex}", "nightly <!channel> was missed")
    ended = json.loads(over)
    assert (ended["event"], ended["lastedSec"]) == ("alert.resolved", 300)
    assert ended["title"].endswith("after 5m")
    assert ended["incidentId"] == told["incidentId"]
    assert headers["idempotency-key"] == f"{told['incidentId']}/alert.opened"


async def test_slack_gets_plain_text_at_an_address_that_is_a_secret() -> None:
    async with serve(answer()) as server:
        channel = Channel(name="ops", kind=ChannelKind.SLACK, secret="env:URL")
        await notifier(server.port, URL=f"http://127.0.0.1:{server.port}/T0/B0/x").send(channel, OPENED)

    told = json.loads(server.requests[0][2])
    assert told["text"] == "🔴 nightly &lt;!channel&gt; was missed"
    assert {block["text"]["type"] for block in told["blocks"]} == {"plain_text"}


async def test_events_for_pagers_open_and_resolve_under_one_key() -> None:
    async with serve(answer("202 Accepted")) as server:
        channel = Channel(name="ops", kind=ChannelKind.PAGERDUTY, secret="env:KEY", url=f"http://127.0.0.1:{server.port}/v2/enqueue")
        for notice in (OPENED, OVER):
            await notifier(server.port, KEY="routing").send(channel, notice)

    opened, over = (json.loads(body) for _, _, body in server.requests)
    assert (opened["event_action"], over["event_action"]) == ("trigger", "resolve")
    assert opened["dedup_key"] == over["dedup_key"]
    assert opened["routing_key"] == "routing"
    assert opened["payload"]["class"] == "missed"


@pytest.mark.parametrize(("status", "again"), [("500 Oops", True), ("429 Slow", True), ("404 Gone", False), ("301 Moved", False)])
async def test_a_refusal_says_whether_it_is_worth_another_try_and_tells_no_path(status: str, again: bool) -> None:
    async with serve(answer(status)) as server:
        channel = Channel(name="ops", kind=ChannelKind.WEBHOOK, url=f"http://127.0.0.1:{server.port}/s3cret")
        with pytest.raises(Failure) as refused:
            await notifier(server.port).send(channel, OPENED)
    assert refused.value.retry is again
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("url", ["https://127.0.0.1/x", "https://169.254.169.254/x", "http://example.com/x", "https://localhost/x"])
async def test_a_channel_reaches_nothing_inside(url: str) -> None:
    sender = Notifier(Outbound(parse_allow([]), False, 5.0), Drawer(URL=url), None, lambda: NOW)
    for channel in (Channel(name="a", kind=ChannelKind.WEBHOOK, url=url), Channel(name="b", kind=ChannelKind.SLACK, secret="env:URL")):
        with pytest.raises(Failure) as refused:
            await sender.send(channel, OPENED)
        assert not refused.value.retry
    with pytest.raises(Failure):
        await sender.ping(url)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 25), ("10.1.2.3", 587), ("localhost", 25), ("example.com", 22)])
async def test_a_mail_server_inside_is_not_reached_either(host: str, port: int) -> None:
    sender = Notifier(Outbound(parse_allow([]), False, 5.0), Drawer(), None, lambda: NOW)
    channel = Channel(name="m", kind=ChannelKind.EMAIL, to=("a@example.com",), sender="d@example.com", host=host, port=port)
    with pytest.raises(Failure) as refused:
        await sender.send(channel, OPENED)
    assert refused.value.type == "AddressRefused"


async def test_a_ping_is_a_get() -> None:
    async with serve(answer()) as server:
        await notifier(server.port).ping(f"http://127.0.0.1:{server.port}/ping/1")
    assert server.requests[0][0] == "GET /ping/1 HTTP/1.1"


@dataclass
class Post:
    """What a mail server was told."""

    port: int = 0
    commands: list[str] = field(default_factory=list)
    message: str = ""


@asynccontextmanager
async def post_office(refuses: str | None = None) -> AsyncIterator[Post]:
    """As much of SMTP as a client needs."""
    post = Post()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def say(text: str) -> None:
            writer.write(text.encode() + b"\r\n")
            await writer.drain()

        await say("220 here")
        while line := (await reader.readline()).decode().strip():
            post.commands.append(line)
            verb = line.split()[0].upper()
            if verb == refuses:
                await say("550 no")
            elif verb == "DATA":
                await say("354 go on")
                lines: list[str] = []
                while (text := (await reader.readline()).decode()) != ".\r\n":
                    lines.append(text)
                post.message = "".join(lines)
                await say("250 kept")
            elif verb == "QUIT":
                await say("221 bye")
                break
            else:
                await say("250 fine")
        writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    post.port = listening.sockets[0].getsockname()[1]
    try:
        yield post
    finally:
        listening.close()
        await listening.wait_closed()


def mail(port: int) -> Channel:
    return Channel(
        name="mail",
        kind=ChannelKind.EMAIL,
        to=("ops@example.com", "ada@example.com"),
        sender="duly@example.com",
        host="127.0.0.1",
        port=port,
        encryption=Encryption.NONE,
    )


async def test_an_e_mail_has_a_subject_and_belongs_to_its_incident() -> None:
    async with post_office() as post:
        await notifier(post.port).send(mail(post.port), OPENED)
    assert "Subject: [Duly] nightly <!channel> was missed" in post.message
    assert f"References: <duly-inc_{UUID(int=7).hex}.0@duly.invalid>" in post.message.replace("\r\n ", " ")
    assert "nothing is recorded" in post.message
    assert [line for line in post.commands if line.lower().startswith("rcpt")] == [
        "rcpt TO:<ops@example.com>",
        "rcpt TO:<ada@example.com>",
    ]


async def test_a_mail_server_that_refuses_says_so_once() -> None:
    async with post_office(refuses="MAIL") as post:
        with pytest.raises(Failure) as refused:
            await notifier(post.port).send(mail(post.port), OPENED)
    assert not refused.value.retry
    async with post_office() as post:
        port = post.port
    with pytest.raises(Failure) as away:
        await notifier(port).send(mail(port), OPENED)
    assert away.value.retry
