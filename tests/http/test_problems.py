"""Errors become problem documents that name the field and say what to do."""

from __future__ import annotations

import logging

import msgspec
import pytest

from duly.domain.codes import CODES
from duly.domain.errors import Conflict, DulyError, Forbidden, Invalid, NotFound, TooLarge, Unavailable
from duly.http.problems import fault, problem_of, refusal
from duly.wire.jobs import JobBatchShape, JobShape


def refused(body: bytes, kind: type = JobShape) -> Invalid:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)) as caught:
        msgspec.json.decode(body, type=kind)
    assert isinstance(caught.value, (msgspec.DecodeError, UnicodeDecodeError))
    return refusal(caught.value)


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        (b"[]", "DULY-E106", None),
        (b"null", "DULY-E106", None),
        (b'{"target": {"handler": "a"}, "retires": 1}', "DULY-E106", "retires"),
        (b'{"target": {"handler": "a", "pol": 1}}', "DULY-E106", "target.pol"),
        (b'{"target": {"handler": "a", "pool": 1}}', "DULY-E106", "target.pool"),
        (b'{"target": {"handler": "a", "requires": {"x": 1}}}', "DULY-E106", "target.requires[...]"),
        (b'{"target": {"shell": ["a", 1]}}', "DULY-E106", "target.shell[1]"),
        (b'{"target": {"handler": "a"}, "priority": "HIGHEST"}', "DULY-E106", "priority"),
        (b'{"target": {"handler": "a"}, "timeoutSec": 1e999}', "DULY-E106", "timeoutSec"),
        (b'{"target": {"handler": "a"}, "timeoutSec": -1}', "DULY-E106", "timeoutSec"),
        (b'{"target": {"handler": "a"}, "runAt": "2026-02-30T00:00:00Z"}', "DULY-E105", "runAt"),
        (b'{"target": {"handler": "a"}, "runAt": "2026-02-01T00:00:00"}', "DULY-E105", "runAt"),
        (b'{"target": {"handler": "a"}, "x - at `$.y`": 1}', "DULY-E106", "x - at `$.y`"),
        (b'{"target": ', "DULY-E107", None),
        (b'{"target": NaN}', "DULY-E107", None),
        (b'{"target": {"handler": "a"}} {}', "DULY-E107", None),
    ],
)
def test_a_refusal_names_the_field(body: bytes, code: str, field: str | None) -> None:
    error = refused(body)

    assert (error.code, error.field) == (code, field)


def test_a_refusal_in_a_batch_names_the_item() -> None:
    error = refused(b'{"jobs": [{"target": {"handler": "a"}}, {"target": {"pool": 7}}]}', JobBatchShape)

    assert error.field == "jobs[1].target.pool"


@pytest.mark.parametrize("kind", [Invalid, NotFound, Conflict, Forbidden, TooLarge])
@pytest.mark.parametrize("code", [code for code in CODES if CODES[code].status < 500])
def test_the_code_decides_the_status(kind: type[DulyError], code: str) -> None:
    status, problem, _ = problem_of(kind(code, "a message.", field="a.field"), "req_1")

    assert status == problem.status == CODES[code].status
    assert (problem.code, problem.title, problem.detail, problem.field) == (code, CODES[code].title, "a message.", "a.field")
    assert problem.hint
    assert problem.request_id == "req_1"


def test_a_store_that_is_away_says_when_to_come_again_and_nothing_of_our_insides() -> None:
    error = Unavailable("DULY-E501", "The SQLite file /var/lib/duly/x.db: SELECT * FROM jobs", field="x", hint="/etc", retry_after=2.1)
    status, problem, headers = problem_of(error, "req_1")

    assert status == 503
    assert (b"retry-after", b"3") in headers
    assert "var" not in repr(msgspec.to_builtins(problem))


def test_a_fault_goes_to_the_log_and_not_to_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        try:
            raise RuntimeError("SELECT secret FROM keys")
        except RuntimeError as error:
            status, problem, _ = fault(error, "req_7", "GET /v1/jobs")

    assert (status, problem.code) == (500, "DULY-E599")
    assert "secret" not in repr(msgspec.to_builtins(problem))
    assert "req_7" in caplog.text
    assert "SELECT secret FROM keys" in caplog.text
    assert "Traceback" in caplog.text


def test_an_endless_message_is_cut() -> None:
    _, problem, _ = problem_of(refused(b'{"' + b"x" * 100_000 + b'": 1}'), "req_1")

    assert len(problem.detail) + len(problem.field or "") < 1_000


@pytest.mark.parametrize("code", ["DULY-E301", "DULY-E302"])
def test_a_missing_key_is_asked_for(code: str) -> None:
    status, _, headers = problem_of(Forbidden(code, "no."), "req_1")

    assert status == 401
    assert dict(headers)[b"www-authenticate"].startswith(b"Bearer")


def test_an_unknown_code_is_a_fault() -> None:
    assert problem_of(Invalid("DULY-E000", "?"), "req_1")[0] == 500
