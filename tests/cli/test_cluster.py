"""`duly cluster` and `duly top` against a real server."""

from __future__ import annotations

import json
import os
import pty
import subprocess

import pytest

from duly.domain.shards import SHARDS
from tests.cli.processes import DULY, Running, environment


@pytest.fixture(autouse=True)
def _is_owned(server: Running) -> None:
    """The API answers a moment before the dispatcher has taken its shards: ask until it has."""
    for _ in range(200):
        found = json.loads(server.duly("cluster", "--json").out)
        if found["dispatchers"] and all(shard["owner"] for shard in found["shards"]):
            return
    raise AssertionError("no dispatcher took the shards")


def test_one_dispatcher_owns_everything_and_its_clock_is_known(server: Running) -> None:
    answer = server.duly("cluster", "--json")

    found = json.loads(answer.out)
    (only,) = found["dispatchers"]
    assert {shard["owner"] for shard in found["shards"]} == {only["name"]}
    assert only["shards"] == SHARDS
    # Both clocks are this machine's; the store's is never behind ours.
    assert abs(only["clockSkewMs"]) < 1000
    assert abs(found["clockSkewMs"]) < 1000


def test_dispatchers_and_shards_are_listed(server: Running) -> None:
    dispatchers, shards = server.duly("cluster", "-o", "tsv"), server.duly("cluster", "--shards", "-o", "tsv")

    assert dispatchers.out.splitlines()[0].split("\t")[:3] == ["name", "shards", "clockSkewMs"]
    assert len(dispatchers.out.splitlines()) == 2
    assert len(shards.out.splitlines()) == 1 + SHARDS


def test_the_table_says_what_tells_who_is_there(server: Running) -> None:
    answer = server.duly("cluster", "-o", "table")

    assert f"{SHARDS} of {SHARDS} shards owned · store sqlite" in answer.err
    assert "leases of the store" in answer.err


def test_how_the_store_fares_is_told(server: Running) -> None:
    found = json.loads(server.duly("cluster", "--store", "--json").out)
    told = server.duly("cluster", "--store", "-o", "table").out

    assert (found["kind"], found["tables"]) == ("sqlite", [])
    assert found["bytes"] > found["freeBytes"] >= 0
    assert "bytes" in told


def test_top_prints_one_frame_where_it_cannot_draw(server: Running) -> None:
    frame = server.duly("top").out

    lines = frame.splitlines()
    assert lines[0].startswith("duly top")
    assert [line.split()[0] for line in lines if line.startswith(("DISPATCHER", "POOL"))] == ["DISPATCHER", "POOL"]
    assert any(line.startswith("default") and "/" in line for line in lines), "a pool with its slots"
    assert "\x1b" not in frame


def test_top_as_json_is_the_cluster_and_the_counts(server: Running) -> None:
    assert set(json.loads(server.duly("top", "--once", "--json").out)) == {"cluster", "stats"}


def test_top_draws_frame_over_frame_on_a_terminal(server: Running) -> None:
    ours, theirs = pty.openpty()
    settings = environment(home=server.home, DULY_URL=server.url)
    process = subprocess.Popen([*DULY, "top", "--plain", "--every", "0.2"], stdin=theirs, stdout=theirs, stderr=theirs, env=settings)
    os.close(theirs)
    try:
        seen = b""
        while seen.count(b"\x1b[H") < 3:
            seen += os.read(ours, 1 << 16)
    finally:
        process.kill()
        process.wait()
        os.close(ours)

    assert seen.count(b"duly top") >= 2


def test_a_pace_that_makes_no_sense_is_refused(server: Running) -> None:
    answer = server.duly("top", "--every", "0")

    assert answer.code == 2
    assert "number of seconds" in answer.err
