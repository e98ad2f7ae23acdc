"""What every hot index keeps to, in memory and in a real Redis; and what only one that others can reach has to stand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from duly import config
from duly.adapters.memory import hot_index as memory
from duly.adapters.memory.hot_index import MemoryHotIndex
from duly.adapters.redis import hot_index as redis
from duly.adapters.redis.hot_index import RedisHotIndex
from duly.adapters.redis.link import Address, RedisLink
from duly.compose import open_node
from duly.domain.errors import Invalid
from duly.domain.instants import SECOND, from_rfc3339
from duly.ports.hot_index import Coming, HotIndex
from duly.services.service import free_port
from tests.services.redis import Redis, started

NOW = from_rfc3339("2026-03-01T12:00:00Z")
SHARDS = range(4)


def at(seconds: float, shard: int = 0) -> Coming:
    return Coming(NOW + round(seconds * SECOND), shard)


class Links:
    """Ways to one Redis, as so many processes have them."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    def open(self, url: str, deadline: float = 5.0) -> RedisLink:
        # A busy machine is not what is tested here, so answers may take their time.
        link = RedisLink(url, deadline=deadline)
        self._stack.push_async_callback(link.close)
        return link


@pytest.fixture
async def links() -> AsyncIterator[Links]:
    async with AsyncExitStack() as stack:
        yield Links(stack)


@pytest.fixture(params=("memory", "redis"))
def index(request: pytest.FixtureRequest, links: Links) -> HotIndex:
    if request.param == "memory":
        return MemoryHotIndex()
    return RedisHotIndex(links.open(request.getfixturevalue("redis_url")))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


class TestEvery:
    async def test_the_soonest_instant_of_the_shards_is_next(self, index: HotIndex) -> None:
        await index.add([at(3), at(2, 1), at(1, 2)])

        assert await index.take([0, 1], NOW) == at(2).at
        assert await index.take([0, 1, 2], NOW) == at(1).at
        assert await index.take([3], NOW) is None

    async def test_what_was_looked_at_is_taken_once_and_for_all(self, index: HotIndex) -> None:
        await index.add([at(1), at(1, 1), at(2)])

        assert await index.take(SHARDS, at(1).at) == at(2).at
        assert await index.take(SHARDS, NOW) == at(2).at
        assert await index.take(SHARDS, at(2).at) is None

    async def test_the_instants_of_other_shards_are_left_alone(self, index: HotIndex) -> None:
        await index.add([at(1), at(1, 1)])

        await index.take([0], at(5).at)

        assert await index.take([1], NOW) == at(1).at

    async def test_an_instant_is_kept_to_the_microsecond_and_once(self, index: HotIndex) -> None:
        instant = Coming(NOW + 1_234_567, 0)
        for _ in range(3):
            await index.add([instant, instant])

        assert await index.take(SHARDS, NOW) == instant.at
        assert await index.take(SHARDS, instant.at) is None

    async def test_shards_that_nobody_filled_are_a_gap(self, index: HotIndex) -> None:
        await index.fill([0, 1], [at(1)], NOW)
        await index.take([0, 1], NOW)
        assert not await index.wait_gap(0)

        await index.take([0, 1, 2], NOW)
        assert await index.wait_gap(5)
        assert not await index.wait_gap(0)

        await index.fill([0, 1, 2], [], NOW)
        await index.take([0, 1, 2], NOW)
        assert not await index.wait_gap(0)

    async def test_filling_takes_nothing_away_that_was_added(self, index: HotIndex) -> None:
        await index.add([at(1), at(1, 1)])

        await index.fill([0, 1], [at(2)], NOW)

        assert await index.take([0, 1], NOW) == at(1).at

    async def test_of_too_many_the_farthest_are_forgotten(self, index: HotIndex, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(redis, "MOST", 20)
        if isinstance(index, MemoryHotIndex):
            index._most = 20

        await index.fill([0], [at(nth / 100) for nth in range(1, 200)], NOW)

        seen = []
        while (instant := await index.take([0], seen[-1] if seen else NOW)) is not None:
            seen.append(instant)
        assert 5 <= len(seen) <= 20
        assert seen == [at(nth / 100).at for nth in range(1, len(seen) + 1)]

    async def test_thousands_at_once_are_all_kept(self, index: HotIndex) -> None:
        coming = {at(1 + nth / 1000, nth % 4) for nth in range(5_000)}

        await index.fill(SHARDS, coming, NOW)

        assert await index.take(SHARDS, at(5).at) == at(5.001).at
        assert await index.take(SHARDS, at(5.998).at) == at(5.999).at
        assert await index.take(SHARDS, at(5.999).at) is None
        assert not await index.wait_gap(0)

    def test_memory_is_bounded_as_it_comes(self) -> None:
        assert MemoryHotIndex()._most == memory.MOST == 100_000


class TestShared:
    async def test_whoever_takes_a_shard_over_finds_its_instants(self, redis_url: str, links: Links) -> None:
        first, second = RedisHotIndex(links.open(redis_url)), RedisHotIndex(links.open(redis_url))
        await first.fill([0], [at(1)], NOW)

        assert await second.take([0], NOW) == at(1).at
        # It cannot know how whole they are, so it fills anew; and the first, if he still thinks that it is his, is not disturbed.
        assert await second.wait_gap(5)
        await second.fill([0], [at(2)], NOW)
        assert await first.take([0], NOW) == at(1).at
        assert not await first.wait_gap(0)

    @pytest.mark.parametrize("loss", ["FLUSHALL", "the key alone", "an older dump", "a restart"])
    async def test_an_index_that_lost_something_is_noticed_and_filled_anew(self, own_redis: Redis, links: Links, loss: str) -> None:
        index = RedisHotIndex(links.open(own_redis.url))
        await index.fill([0, 1], [at(1)], NOW)
        dump = own_redis.keep_dump()
        await index.fill([0, 1], [at(2)], NOW)

        if loss == "FLUSHALL":
            own_redis.ask("FLUSHALL")
        elif loss == "the key alone":
            own_redis.ask("DEL", "{duly}:hot:0")
        else:
            own_redis.kill()
            own_redis.start_from(dump) if loss == "an older dump" else own_redis.start()

        async with asyncio.timeout(20):
            while not await index.wait_gap(0.05):
                await index.take([0, 1], NOW)
            await index.fill([0, 1], [at(3)], NOW)
            await index.take([0, 1], at(2).at)
        assert await index.take([0, 1], NOW) == at(3).at

    async def test_whatever_is_written_by_hand_misleads_for_a_look_at_most(self, redis_server: Redis, redis_url: str, links: Links) -> None:
        index = RedisHotIndex(links.open(redis_url))
        await index.fill(range(6), [at(2, shard) for shard in range(6)], NOW)
        redis_server.ask("SET", "{duly}:hot:0", "text")
        redis_server.ask("DEL", "{duly}:hot:1")
        redis_server.ask("LPUSH", "{duly}:hot:1", "a list")
        redis_server.ask("ZADD", "{duly}:hot:2", "inf", "infinite", "-inf", "before all", "0", "zero", "-5", "negative")
        redis_server.ask("ZADD", "{duly}:hot:3", str(NOW + SECOND) + ".5", "a fraction", "9e15", "far", "12", "long ago")
        redis_server.ask("ZADD", "{duly}:hot:4", str(NOW - SECOND), "not a number")

        assert await index.take(range(6), NOW) == NOW + SECOND
        assert await index.wait_gap(5)
        await index.fill(range(6), [at(2, shard) for shard in range(6)], NOW)
        assert await index.take(range(6), NOW + SECOND + 1) == at(2).at
        assert await index.take([0], NOW) == at(2).at
        assert await index.take([1], NOW) == at(2).at
        assert await index.take([2], at(2).at) is None
        assert await index.take([3], at(2).at) is None
        assert not await index.wait_gap(0)

    async def test_a_mountain_of_what_has_passed_is_taken_down_in_pieces_and_never_asked_for(
        self, redis_server: Redis, redis_url: str, links: Links, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(redis, "REMOVED", 10)
        index = RedisHotIndex(links.open(redis_url))
        await index.fill([0], [*(at(-nth) for nth in range(100)), at(1)], NOW)

        for left in range(90, 0, -10):
            assert await index.take([0], NOW) == at(1).at
            assert redis_server.ask("ZCOUNT", "{duly}:hot:0", "(0", str(NOW)) == str(left)

    async def test_an_index_that_nobody_fills_goes_away_and_so_do_the_stamps_of_the_dead(
        self, redis_server: Redis, redis_url: str, links: Links
    ) -> None:
        for _ in range(3):
            await RedisHotIndex(links.open(redis_url)).fill([0], [], NOW)
        assert redis_server.ask("ZCARD", "{duly}:hot:0") == "3"
        assert 0 < int(redis_server.ask("PTTL", "{duly}:hot:0") or 0) <= 600_000

        await RedisHotIndex(links.open(redis_url)).fill([0], [], NOW + 601 * SECOND)

        assert redis_server.ask("ZCARD", "{duly}:hot:0") == "1"


class TestAway:
    async def test_it_knows_nothing_at_once_says_so_once_and_comes_back_by_itself(
        self, own_redis: Redis, links: Links, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "duly.redis")
        link = links.open(own_redis.url, deadline=0.2)
        index = RedisHotIndex(link)
        await index.fill([0], [at(1)], NOW)

        own_redis.pause()
        for _ in range(50):
            await index.add([at(2)])
            assert await index.take([0], NOW) is None
        assert link.is_away
        own_redis.resume()
        await until(lambda: not link.is_away)

        assert await index.wait_gap(5)
        assert await index.take([0], NOW) == at(1).at
        said = [record.getMessage() for record in caplog.records]
        assert len(said) == 2
        assert said[0].startswith("Redis is away")
        assert said[1].startswith("Redis is back after")

    async def test_one_that_takes_no_writes_is_away(self, redis_server: Redis, redis_url: str, links: Links) -> None:
        redis_server.ask("CONFIG", "SET", "maxmemory", "1")
        link = links.open(redis_url)
        index = RedisHotIndex(link)
        try:
            await index.fill([0], [at(1)], NOW)
            assert link.is_away
            assert not await link._is_back()
        finally:
            redis_server.ask("CONFIG", "SET", "maxmemory", "0")
        await until(lambda: not link.is_away)

    async def test_the_rights_in_the_handbook_are_enough_and_no_more(
        self, redis_server: Redis, redis_url: str, links: Links, acl: list[str]
    ) -> None:
        redis_server.ask("ACL", "SETUSER", "duly", "reset", *acl)
        link = links.open(redis_url.replace("//", "//duly:secret%2Fword@"))
        index = RedisHotIndex(link)

        await index.fill([0], [at(1)], NOW)
        assert await index.take([0], NOW) == at(1).at
        await link.ask(lambda client: client.flushall())
        assert link.is_away
        assert redis_server.ask("EXISTS", "{duly}:hot:0") == "1"

    async def test_a_wrong_password_is_an_absence(self, redis_server: Redis, redis_url: str, links: Links) -> None:
        redis_server.ask("ACL", "SETUSER", "duly", "reset", "on", ">right", "+@all", "~*")
        link = links.open(redis_url.replace("//", "//duly:wrong@"))

        assert await RedisHotIndex(link).take([0], NOW) is None
        assert link.is_away


@pytest.fixture
def acl() -> list[str]:
    """The rules of the user in docs/how-to/redis.md, with a password."""
    from tests.docs.redis_rights import rights

    return [*rights(), ">secret/word"]


class TestEncrypted:
    async def test_a_certificate_is_checked_by_the_authority_that_is_named_and_by_the_host(self, tmp_path: Path, links: Links) -> None:
        ca, certificate, key = certificates(tmp_path, "localhost")
        with started() as server:
            # The plain port stays, for whoever drives the test.
            port = free_port()
            for name, value in (
                ("tls-cert-file", certificate),
                ("tls-key-file", key),
                ("tls-ca-cert-file", ca),
                ("tls-auth-clients", "no"),
            ):
                server.ask("CONFIG", "SET", name, str(value))
            server.ask("CONFIG", "SET", "tls-port", str(port))

            checked = RedisHotIndex(links.open(f"rediss://localhost:{port}/0?ca={ca}"))
            await checked.fill([0], [at(1)], NOW)
            assert await checked.take([0], NOW) == at(1).at

            for url in (f"rediss://localhost:{port}/0", f"rediss://127.0.0.1:{port}/0?ca={ca}"):
                link = links.open(url)
                assert await RedisHotIndex(link).take([0], NOW) is None
                assert link.is_away


def certificates(directory: Path, host: str) -> tuple[Path, Path, Path]:
    """An authority, a certificate of its for this host, and the key to that."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in ("authority", host)]
    paths = (directory / "ca.pem", directory / "certificate.pem", directory / "key.pem")
    for nth, path in enumerate(paths[:2]):
        made = (
            x509.CertificateBuilder()
            .subject_name(names[nth])
            .issuer_name(names[0])
            .public_key(keys[nth].public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime.now(UTC) - timedelta(hours=1))
            .not_valid_after(datetime.now(UTC) + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=nth == 0, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            .sign(keys[0], hashes.SHA256())
        )
        path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[2].write_bytes(keys[1].private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return paths


class TestSettings:
    def test_a_password_is_never_shown(self) -> None:
        settings = config.load({"DULY_HOT_INDEX": "redis://duly:hush%2Fhush@cache/0"})

        assert "hush" not in repr(settings)
        assert "hush" not in settings.veil.over("hush/hush and hush%2Fhush")

    @pytest.mark.parametrize("text", ["memcached://cache", "redis://cache/0?ssl_cert_reqs=none", "redis://:6379"])
    async def test_what_cannot_be_read_is_refused_before_anything_is_opened(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(Invalid) as refused:
            await open_node(config.load({"DULY_HOME": str(tmp_path), "DULY_HOT_INDEX": text}))

        assert (refused.value.code, refused.value.field) == ("DULY-E601", "DULY_HOT_INDEX")
        assert list(tmp_path.iterdir()) == []

    async def test_without_the_extra_it_is_said_what_to_install(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("duly.compose.redis.find_spec", lambda name: None)

        with pytest.raises(Invalid) as refused:
            await open_node(config.load({"DULY_HOME": str(tmp_path), "DULY_HOT_INDEX": "redis://cache"}))

        assert refused.value.code == "DULY-E612"
        assert "duly[redis]" in (refused.value.hint or "")


class TestAddress:
    def test_a_whole_address_is_read(self) -> None:
        address = Address.parse("rediss://me:p%40ss@cache.example:7000/3?prefix=shop&ca=/etc/ca.pem")

        assert address == Address("cache.example", 7000, 3, "me", "p@ss", True, "/etc/ca.pem", "shop")

    def test_the_rest_has_defaults(self) -> None:
        assert Address.parse("redis://cache") == Address("cache", 6379, 0, None, None, False, None, "duly")

    @pytest.mark.parametrize(
        "url",
        [
            "http://cache",
            "redis://",
            "redis://cache/zero",
            "redis://cache/0?ssl_cert_reqs=none",
            "redis://cache/0?prefix=a*b",
            "redis://cache/0?prefix=",
            "redis://cache/0?ca=/etc/ca.pem",
            "redis://cache:port/0",
        ],
    )
    def test_what_is_not_one_is_refused(self, url: str) -> None:
        with pytest.raises(ValueError):
            Address.parse(url)
