"""The doors between nodes and services: what passes, what is held, and what ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from duly.verify.proxy import Doors, Link, serve

SOON = 0.15


class Echo:
    """A service that says back what it hears, after its name."""

    def __init__(self, name: bytes = b"") -> None:
        self.name = name
        self.heard: list[bytes] = []
        self.news = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Echo:
        self._server = await asyncio.start_server(self._enter, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                self.heard.append(data)
                self.news.set()
                writer.write(self.name + data)


@contextlib.asynccontextmanager
async def through(echo: Echo) -> AsyncIterator[Link]:
    link = Link("worker-1/store", "127.0.0.1", echo.port)
    await link.listen()
    try:
        yield link
    finally:
        await link.close()


class Talk:
    """A connection of a node."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def say(self, text: bytes) -> None:
        self.writer.write(text)

    async def hear(self) -> bytes:
        async with asyncio.timeout(30):
            return await self.reader.read(65_536)

    async def hears_nothing(self) -> bool:
        try:
            async with asyncio.timeout(SOON):
                await self.reader.read(65_536)
        except TimeoutError:
            return True
        return False


@contextlib.asynccontextmanager
async def talking(link: Link) -> AsyncIterator[Talk]:
    talk = Talk(*await asyncio.open_connection("127.0.0.1", link.port))
    try:
        yield talk
    finally:
        talk.writer.transport.abort()


async def test_what_is_said_passes_both_ways() -> None:
    async with Echo() as echo, through(echo) as link, talking(link) as talk:
        talk.say(b"hello")

        assert await talk.hear() == b"hello"


async def test_what_a_cut_held_arrives_when_it_is_mended() -> None:
    async with Echo() as echo, through(echo) as link, talking(link) as talk:
        talk.say(b"before")
        assert await talk.hear() == b"before"
        link.set(cut=["up", "down"])

        talk.say(b"commit")
        assert await talk.hears_nothing()
        assert echo.heard == [b"before"]
        link.heal()

        assert await talk.hear() == b"commit"


async def test_a_cut_of_the_way_back_lets_the_service_hear() -> None:
    async with Echo() as echo, through(echo) as link, talking(link) as talk:
        link.set(cut=["down"])

        talk.say(b"commit")
        await echo.news.wait()

        assert echo.heard == [b"commit"]
        assert await talk.hears_nothing()


async def test_a_new_connection_through_a_cut_is_taken_and_leads_nowhere_yet() -> None:
    async with Echo() as echo, through(echo) as link:
        link.set(cut=["up", "down"])
        async with talking(link) as talk:
            talk.say(b"anybody?")
            assert await talk.hears_nothing()

            link.heal()

            assert await talk.hear() == b"anybody?"


async def test_frozen_connections_stay_silent_and_new_ones_work() -> None:
    async with Echo() as echo, through(echo) as link, talking(link) as old:
        old.say(b"one")
        await old.hear()

        assert link.freeze() == 1
        old.say(b"two")
        async with talking(link) as new:
            new.say(b"three")
            assert await new.hear() == b"three"
        link.heal()

        assert await old.hears_nothing()
        assert echo.heard == [b"one", b"three"]


async def test_a_reset_is_felt_at_once() -> None:
    async with Echo() as echo, through(echo) as link, talking(link) as talk:
        talk.say(b"one")
        await talk.hear()

        assert link.reset() == 1

        with pytest.raises(ConnectionResetError):
            await talk.hear()


async def test_a_connection_ends_after_its_share_of_bytes() -> None:
    async with Echo() as echo, through(echo) as link, talking(link) as talk:
        link.set(limit_data=10)

        talk.say(b"0123456789 and more")

        with contextlib.suppress(ConnectionResetError):
            assert await talk.hear() == b""
        assert not link.pairs or all(pair.passed >= 10 for pair in link.pairs)


async def test_latency_makes_everything_late() -> None:
    async with Echo() as echo, through(echo) as link, talking(link) as talk:
        talk.say(b"one")
        await talk.hear()
        link.set(latency=0.1)

        began = asyncio.get_running_loop().time()
        talk.say(b"two")
        await talk.hear()

        # Half of it at least, once each way.
        assert asyncio.get_running_loop().time() - began >= 0.1


async def test_a_link_can_be_pointed_elsewhere() -> None:
    async with Echo(b"old:") as old, Echo(b"new:") as new, through(old) as link:
        link.to = ("127.0.0.1", new.port)

        async with talking(link) as talk:
            talk.say(b"x")
            assert await talk.hear() == b"new:x"


async def test_a_service_that_is_not_there_looks_like_one() -> None:
    async with Echo() as echo:
        gone = echo.port
    link = Link("worker-1/store", "127.0.0.1", gone)
    await link.listen()

    async with talking(link) as talk:
        with pytest.raises(ConnectionResetError):
            await talk.hear()
    await link.close()


async def test_commands_open_break_and_mend_links_by_name() -> None:
    commands, answers = asyncio.StreamReader(), []
    for command in (
        {"do": "open", "link": "worker-1/store", "to": ["127.0.0.1", 1]},
        {"do": "open", "link": "worker-2/store", "to": ["127.0.0.1", 1]},
        {"do": "set", "link": "worker-1/store", "cut": ["up"]},
        {"do": "freeze", "link": "worker-1/store"},
        {"do": "heal"},
    ):
        commands.feed_data(json.dumps(command).encode() + b"\n")
    commands.feed_eof()

    await serve(commands, answers.append)

    first, second, *rest = (json.loads(answer) for answer in answers)
    assert first != second
    assert rest == [1, 0, 2]


async def test_a_word_that_is_no_command_is_an_error() -> None:
    doors = Doors()
    await doors.obey({"do": "open", "link": "a/b", "to": ["127.0.0.1", 1]})

    with pytest.raises(ValueError, match="explode"):
        await doors.obey({"do": "explode", "link": "a/b"})
    await doors.close()
