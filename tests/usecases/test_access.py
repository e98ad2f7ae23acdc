"""The first admin key: whatever interrupts a start, the key that is kept works in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from duly import config
from duly.compose import Node, bootstrap_key, open_node
from duly.domain.access import Role
from duly.domain.audit import Deed
from duly.domain.instants import Instant
from duly.ports.keys import KeyRow, Keys
from duly.usecases.access import Access, key_id


class Wrapped:
    """The store's keys, as they are."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    async def key(self, id: str) -> KeyRow | None:
        return await self._keys.key(id)

    async def add_key(self, row: KeyRow, *, deed: Deed | None = None) -> bool:
        return await self._keys.add_key(row, deed=deed)

    async def any_admin_key(self, tenant: int, now: Instant) -> bool:
        return await self._keys.any_admin_key(tenant, now)


class Killed(Exception):
    """The process ends here."""


class KilledBeforeTheCommit(Wrapped):
    async def add_key(self, row: KeyRow, *, deed: Deed | None = None) -> bool:
        raise Killed


class AtTheSameTime(Wrapped):
    """Nobody goes on before everybody has looked."""

    def __init__(self, keys: Keys, everybody: asyncio.Barrier) -> None:
        super().__init__(keys)
        self._everybody = everybody

    async def any_admin_key(self, tenant: int, now: Instant) -> bool:
        found = await super().any_admin_key(tenant, now)
        await self._everybody.wait()
        return found


class WithoutARevokedKey(Wrapped):
    """A store whose key of one id was revoked."""

    def __init__(self, keys: Keys, revoked: str) -> None:
        super().__init__(keys)
        self._revoked = revoked

    async def key(self, id: str) -> KeyRow | None:
        row = await super().key(id)
        return row if row is None or id != self._revoked else replace(row, revoked_at=1)

    async def any_admin_key(self, tenant: int, now: Instant) -> bool:
        return False


@asynccontextmanager
async def node_in(home: Path) -> AsyncIterator[Node]:
    node = await open_node(config.load({"DULY_HOME": str(home)}))
    try:
        yield node
    finally:
        await node.close()


async def role_of(node: Node, secret: str | None) -> Role | None:
    actor = await Access(node.store.keys, node.clock).recognise(secret or "")
    return None if actor is None else actor.role


async def test_the_first_start_keeps_its_key_for_its_owner_alone(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        secret = await bootstrap_key(node)

        assert secret is not None
        assert node.settings.key_file.read_text() == f"{secret}\n"
        assert node.settings.key_file.stat().st_mode & 0o777 == 0o600
        assert [path.name for path in tmp_path.iterdir() if "key" in path.name] == ["admin.key"]
        assert await role_of(node, secret) is Role.ADMIN
        assert await bootstrap_key(node) is None


async def test_a_start_that_is_killed_before_the_commit_leaves_a_key_that_the_next_one_uses(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        store = node.store
        node.store = replace(store, keys=KilledBeforeTheCommit(store.keys))
        with pytest.raises(Killed):
            await bootstrap_key(node)
        kept = config.kept_key(node.settings.key_file)
        node.store = store

        shown = await bootstrap_key(node)

        assert shown is None
        assert config.kept_key(node.settings.key_file) == kept
        assert await role_of(node, kept) is Role.ADMIN


async def test_processes_that_start_at_once_on_a_fresh_store_end_with_a_kept_key_that_works(tmp_path: Path) -> None:
    everybody = asyncio.Barrier(4)
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(node_in(tmp_path)) for _ in range(4)]
        for node in nodes:
            node.store = replace(node.store, keys=AtTheSameTime(node.store.keys, everybody))

        shown = await asyncio.gather(*(bootstrap_key(node) for node in nodes))

        kept = config.kept_key(tmp_path / "admin.key")
        assert [secret for secret in shown if secret is not None] == [kept]
        assert await role_of(nodes[0], kept) is Role.ADMIN


@pytest.mark.parametrize("text", ["", "short\n", "not a key at all\n"])
async def test_a_file_that_holds_no_key_is_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / "admin.key").write_text(text)
    async with node_in(tmp_path) as node:
        secret = await bootstrap_key(node)

        assert secret is not None
        assert config.kept_key(node.settings.key_file) == secret
        assert node.settings.key_file.stat().st_mode & 0o777 == 0o600
        assert await role_of(node, secret) is Role.ADMIN


async def test_a_kept_key_that_was_revoked_is_replaced(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        revoked = await bootstrap_key(node)
        assert revoked is not None
        node.store = replace(node.store, keys=WithoutARevokedKey(node.store.keys, key_id(revoked)))

        secret = await bootstrap_key(node)

        assert secret not in (None, revoked)
        assert config.kept_key(node.settings.key_file) == secret
        assert await role_of(node, secret) is Role.ADMIN


async def test_a_file_system_without_links_keeps_the_key_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: Path) -> None:
        raise PermissionError

    monkeypatch.setattr("os.link", refuse)
    async with node_in(tmp_path) as node:
        secret = await bootstrap_key(node)

        assert secret is not None
        assert config.kept_key(node.settings.key_file) == secret
        assert await role_of(node, secret) is Role.ADMIN
