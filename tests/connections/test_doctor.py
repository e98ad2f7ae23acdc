"""`duly doctor` names what stands between Duly and its store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest

from duly import config
from duly.cli.doctor.findings import Finding
from duly.cli.doctor.store import link, transactions


def findings(**flags: object) -> dict[str, Finding]:
    return {finding.check: finding for finding in link(config.load({}, **flags))}


def test_a_straight_way_is_well(shared_dsn: str, tmp_path: Path) -> None:
    found = findings(home=tmp_path, store=shared_dsn)

    assert {check: finding.verdict for check, finding in found.items()} == {"hints": "pass"}


def test_a_pooler_is_noticed_with_what_to_set(pooled_dsn: str, tmp_path: Path) -> None:
    found = findings(home=tmp_path, store=pooled_dsn)

    assert found["pooler"].verdict == "warn"
    assert "pooler=transaction" in (found["pooler"].fix or "")
    assert found["hints"].verdict == "warn"
    assert "DULY_STORE_DIRECT" in (found["hints"].fix or "")


def test_what_was_set_is_seen_to_work(pooled_dsn: str, shared_dsn: str, tmp_path: Path) -> None:
    found = findings(home=tmp_path, store=f"{pooled_dsn}?pooler=transaction", store_direct=shared_dsn)

    assert {check: finding.verdict for check, finding in found.items()} == {"pooler": "pass", "hints": "pass"}


def test_a_server_that_proves_nothing_is_pointed_out(shared_dsn: str, tmp_path: Path) -> None:
    found = findings(home=tmp_path, store=shared_dsn.replace("127.0.0.1", "127.1") + "?sslmode=disable")

    assert found["store tls"].verdict == "warn"
    assert "verify-full" in (found["store tls"].fix or "")


async def test_a_transaction_that_nobody_ends_is_named(shared_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config.load({}, home=tmp_path, store=shared_dsn)
    line = await asyncpg.connect(shared_dsn, server_settings={"application_name": "forgetful"})
    try:
        await line.execute("BEGIN; SELECT 1")
        [well] = await asyncio.to_thread(lambda: list(transactions(settings)))
        # The line is moments old; to be older than nothing takes no waiting.
        monkeypatch.setattr("duly.cli.doctor.store.LONG_TRANSACTION", 0)
        [found] = await asyncio.to_thread(lambda: list(transactions(settings)))
    finally:
        await line.close()

    assert "forgetful, idle in transaction" not in well.text
    assert found.verdict == "warn"
    assert "forgetful, idle in transaction" in found.text
    assert "idle_in_transaction_session_timeout" in (found.fix or "")


def test_a_log_that_cannot_be_written_back_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config.load({}, home=tmp_path)
    monkeypatch.setattr("duly.cli.doctor.store.LARGE_JOURNAL", 10)
    for name in ("duly.db", "duly.db-wal"):
        tmp_path.joinpath(name).write_bytes(b"x" * 11)

    [found] = transactions(settings)

    assert found.verdict == "warn"
    assert "keeps a transaction open" in found.text
