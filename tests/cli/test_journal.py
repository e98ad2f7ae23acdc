"""Duly's own log: lines for machines say what they are about, and nobody's words begin a line of their own."""

from __future__ import annotations

import json
import logging
from typing import Any
from uuid import UUID

import pytest

from duly.cli.journal import JsonLines, TextLines
from duly.domain.plain import indented, visible
from duly.domain.redaction import Veil
from duly.ports.current import about_attempt, request_id, speaker
from tests.executors.attempts import python
from tests.executors.sample_app import Speaking

VEIL = Veil(["canary-4711"])


def line(message: str, *words: object, name: str = "duly.worker", extra: dict[str, Any] | None = None, error: bool = False) -> str:
    info = (ValueError, ValueError("canary-4711\nroot logged in"), None) if error else None
    record = logging.getLogger(name).makeRecord(name, logging.WARNING, "file", 1, message, words, info, extra=extra)
    return JsonLines(VEIL).format(record)


async def test_a_line_for_machines_names_the_request_the_execution_and_the_attempt() -> None:
    attempt = python("run", attempt=2)
    token = request_id.set("req_1")

    about = json.loads(line("left behind", extra=about_attempt(attempt)))
    request_id.reset(token)
    plain = json.loads(line("tick"))

    assert about["executionId"] == f"run_{UUID(int=attempt.id.int).hex}"
    assert (about["attempt"], about["job"], about["requestId"]) == (2, "nightly", "req_1")
    assert plain.keys() == {"at", "level", "logger", "message"}


async def test_what_a_handler_logs_names_its_attempt_and_what_duly_logs_beside_it_does_not() -> None:
    token = speaker.set(Speaking(python("run")))
    try:
        theirs, ours = json.loads(line("paid", name="shop")), json.loads(line("tick"))
    finally:
        speaker.reset(token)

    assert theirs["attempt"] == 1
    assert "attempt" not in ours


def test_a_line_is_one_line_whatever_is_in_it() -> None:
    forged = 'name "\n{"level": "info", "message": "all is well"}\r\x1b[2J'

    text = line("no such job: %s", forged, error=True)

    assert "\n" not in text
    assert "\x1b" not in text
    assert json.loads(text)["message"] == f"no such job: {forged}"
    assert "canary" not in text


def test_a_line_for_people_cannot_be_forged_nor_take_over_a_terminal() -> None:
    record = logging.getLogger("duly.api").makeRecord(
        "duly.api", logging.WARNING, "f", 1, "job %s", ("a\n12:00:00 api  fine\x1b[2J",), None
    )

    text = TextLines(VEIL).format(record)

    assert text.endswith("! job a\\n12:00:00 api  fine\\x1b[2J")


@pytest.mark.parametrize(("text", "shown"), [("plain", "plain"), ("a\tb\rc", "a\\tb\\rc"), ("\x9b2J\u2028", "\\x9b2J\\u2028")])
def test_what_is_not_printed_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_lines_of_one_text_are_moved_in() -> None:
    assert indented("first\nsecond\x07\n\tthird") == "first\n    second\\x07\n        third"
