"""`duly top`: its screen, driven by keys against a real server, and what it shows where there is none."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Callable, Iterator

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from duly.cli.top import desk as desks
from duly.cli.top.desk import Deed, Desk
from duly.cli.top.panes import PANES, Cell, Row, Shown, as_ascii, filtered, strip
from duly.cli.top.screen import Question, Sheet, Top
from duly.domain.errors import Invalid
from duly.domain.instants import from_rfc3339
from duly.sdk import calls
from duly.sdk.client import Client
from duly.wire.upcoming import MinuteView
from tests.cli.processes import DULY, Running, environment

RUNNING, WAITING, FAILURES, WORKERS, QUEUES, UPCOMING, DISPATCHERS = range(7)


@pytest.fixture
def client(server: Running) -> Iterator[Client]:
    with Client(server.url, (server.home / "admin.key").read_text().strip()) as client:
        yield client


def said(top: Top, where: str = "#told") -> str:
    return str(top.query_one(where, Static).render())


def cells(top: Top) -> list[list[str]]:
    table = top.query_one(DataTable)
    return [[str(cell) for cell in table.get_row_at(nth)] for nth in range(table.row_count)]


def daily(client: Client, name: str) -> str:
    return client.send(calls.create_job({"name": name, "schedule": "0 3 * * *", "target": {"handler": "duly.echo"}})).job_id


async def until(pilot: Pilot[None], true: Callable[[], bool], what: str) -> None:
    for _ in range(1500):
        if true():
            return
        await pilot.pause(0.02)
    raise AssertionError(what)


async def test_every_pane_shows_what_the_server_has(server: Running, client: Client) -> None:
    assert server.duly("run", "broken", "--exit-status").code == 8
    top = Top(Desk(client), every=None)

    async with top.run_test(size=(160, 40)) as pilot:
        await pilot.press("3")
        assert any("no such table: orders" in " ".join(row) for row in cells(top))
        assert "[3 failures " in said(top, "#tabs")
        await pilot.press("4")
        assert [row[0] for row in cells(top)] == ["● live"]
        await pilot.press("5")
        assert [row[0] for row in cells(top)] == ["default"]
        await pilot.press("6")
        assert any("nightly_report" in row for row in cells(top))
        await pilot.press("right")
        assert len(cells(top)) == 1
        assert "[7 dispatchers]" in said(top, "#tabs")
        await pilot.press("right")
        assert "[1 running " in said(top, "#tabs")
        assert server.url in said(top, "#summary")
        assert said(top, "#strip").startswith("next hour")


async def test_a_dead_run_is_asked_about_and_run_again_once_somebody_agrees(server: Running, client: Client) -> None:
    server.duly("run", "broken", "--exit-status")
    top = Top(Desk(client), every=None)

    async with top.run_test(size=(160, 40)) as pilot:
        await pilot.press("3")
        dead = top.chosen
        assert dead is not None
        for key, told in (("w", "ValueError"), ("l", "about to fail"), ("enter", "no such table: orders")):
            await pilot.press(key)
            assert isinstance(top.screen, Sheet)
            assert told in top.screen.text
            await pilot.press("escape")
        await pilot.press("r")
        assert isinstance(top.screen, Question)
        await pilot.press("n")
        assert said(top) == "Nothing was changed."
        assert dead.run is not None
        assert client.send(calls.show_execution(dead.run)).replayed_as is None
        await pilot.press("r", "y")
        await until(pilot, lambda: said(top).startswith("broken: "), "it says what became of it")
        assert client.send(calls.show_execution(dead.run)).replayed_as is not None


async def test_a_job_is_paused_and_resumed_by_a_command(server: Running, client: Client) -> None:
    job = daily(client, "paused-on-screen")
    top = Top(Desk(client), every=None)

    async with top.run_test(size=(160, 40)) as pilot:
        for line, state in (("pause paused-on-screen db move", "PAUSED"), ("resume paused-on-screen", "ACTIVE")):
            await _type(pilot, line)
            assert isinstance(top.screen, Question)
            await pilot.press("y")
            await until(pilot, lambda state=state: state.lower() in said(top), "it says what became of it")
            assert client.send(calls.show_job(job)).state == state
        await _type(pilot, "paus paused-on-screen")
        assert "Did you mean pause" in said(top)
        await _type(pilot, "workers")
        assert "[4 workers]" in said(top, "#tabs")
        await _type(pilot, "retry run_nothing")
        await pilot.press("y")
        await until(pilot, lambda: said(top).startswith("✗ DULY-"), "it says that there is no such run")
    client.send(calls.cancel_job(job))


async def _type(pilot: Pilot[None], line: str) -> None:
    await pilot.press("colon")
    pilot.app.query_one(Input).value = line
    await pilot.press("enter")


async def test_rows_are_filtered_and_the_chosen_one_stays_chosen(server: Running, client: Client) -> None:
    jobs = [daily(client, name) for name in ("screen-a", "screen-b", "screen-c")]
    top = Top(Desk(client), every=None)

    async with top.run_test(size=(160, 40)) as pilot:
        await pilot.press("6", "slash", *"SCREEN-", "enter")
        assert [row[2] for row in cells(top)] == ["screen-a", "screen-b", "screen-c"]
        await pilot.press("j", "j", "k")
        chosen = top.chosen
        client.send(calls.cancel_job(jobs[0]))
        await top.look()
        assert [row[2] for row in cells(top)] == ["screen-b", "screen-c"]
        assert top.chosen is not None
        assert chosen is not None
        assert top.chosen.key == chosen.key
        await pilot.press("escape")
        assert len(cells(top)) > 2
    for job in jobs[1:]:
        client.send(calls.cancel_job(job))


async def test_a_screen_that_only_looks_changes_nothing(server: Running, client: Client) -> None:
    server.duly("run", "broken", "--exit-status")
    top = Top(Desk(client, is_readonly=True), every=None)

    async with top.run_test(size=(160, 40)) as pilot:
        await pilot.press("3", "r")
        assert not isinstance(top.screen, Question)
        assert "only looks" in said(top)
        with pytest.raises(Invalid, match="only looks"):
            Desk(client, is_readonly=True).do(Deed("pause", "nightly_report"))


async def test_a_server_that_goes_away_is_said_and_what_was_there_stays(server: Running, client: Client) -> None:
    top = Top(Desk(client), every=None)

    async with top.run_test(size=(160, 40)) as pilot:
        await pilot.press("6")
        before = len(cells(top))
        client._port = 1
        client.close()
        await top.look()
        assert said(top).startswith("✗ DULY-E603")
        assert len(cells(top)) == before > 0
        await pilot.press("space")
        assert "frozen" in said(top, "#summary")


async def test_what_a_job_says_is_never_markup_and_never_a_control_sequence(server: Running, client: Client) -> None:
    says = ["sh", "-c", "printf '[red]loud[/]\\033[31m' >&2; exit 3"]
    loud = client.send(calls.create_job({"name": "loud", "target": {"shell": says}, "retryPolicy": {"maxAttempts": 1}})).job_id
    assert server.duly("run", "loud", "--exit-status").code == 8
    top = Top(Desk(client), every=None, is_ascii=True)

    async with top.run_test(size=(160, 40)) as pilot:
        await pilot.press("3")
        assert top.chosen is not None
        assert "\x1b" not in "".join(cell.text for cell in top.chosen.cells)
        for key in ("enter", "l", "w"):
            await pilot.press(key)
            assert isinstance(top.screen, Sheet)
            assert "\x1b" not in top.screen.text
            assert top.screen.text.isascii()
            told = "".join(str(part.render()) for part in top.screen.query(Static))
            assert key != "l" or "[red]loud[/]" in told, told
            await pilot.press("escape")
        assert all(cell.isascii() for row in cells(top) for cell in row)
        assert said(top, "#summary").isascii()
    client.send(calls.cancel_job(loud))


def test_the_next_hour_is_as_high_as_its_minutes_have_fires() -> None:
    now = from_rfc3339("2026-03-08T07:00:30Z")
    minutes = [MinuteView(at=f"2026-03-08T07:{minute:02}:00Z", fires=fires) for minute, fires in ((0, 1), (5, 8), (59, 4))]

    drawn = strip(minutes, now)

    signs = drawn.removeprefix("next hour  ")[:60]
    assert (signs[0], signs[5], signs[59]) == ("▁", "█", "▄")
    assert signs.count(" ") == 57
    assert "13 fires, most at" in drawn
    assert as_ascii(drawn).isascii()
    assert strip([], now) == "next hour  nothing fires"


def test_a_filter_takes_every_word_however_it_is_written() -> None:
    shown = Shown(("job",), [Row("a", (Cell("Nightly"), Cell("eu"))), Row("b", (Cell("nightly"), Cell("us")))])

    assert [row.key for row in filtered(shown, "NIGHT us").rows] == ["b"]
    assert filtered(shown, "").rows == shown.rows


def test_a_key_on_a_row_that_is_about_nothing_is_refused() -> None:
    with pytest.raises(Invalid, match="no run here to retry"):
        desks.deed_on("retry", Row("default", ()))
    assert desks.command("quit", None) is None
    assert desks.command("queues", None) is PANES[QUEUES]


def test_on_a_terminal_the_screen_opens_and_q_leaves(server: Running) -> None:
    ours, theirs = pty.openpty()
    settings = environment(home=server.home, DULY_URL=server.url, TERM="xterm-256color", COLUMNS="120", LINES="30")
    process = subprocess.Popen([*DULY, "top"], stdin=theirs, stdout=theirs, stderr=theirs, env=settings)
    os.close(theirs)
    try:
        seen = b""
        while b"dispatchers" not in seen:
            seen += os.read(ours, 1 << 16)
        os.write(ours, b"q")
        while True:
            try:
                if not os.read(ours, 1 << 16):
                    break
            except OSError:
                break
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
