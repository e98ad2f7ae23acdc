"""Bodies are judged before they are decoded."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message

from duly.domain.errors import DulyError, Invalid, TooLarge
from duly.http.limits import DEEPEST, LARGEST_BATCH, ClientGone, check_text, is_too_deep, read_body

JSON_TYPE = {b"content-type": b"application/json"}

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=40,
)


def depth_of(value: object) -> int:
    """The plain definition, to compare with."""
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


def arrives(*chunks: bytes, hangs_up: bool = False) -> object:
    """A `receive` that delivers these chunks."""
    messages: list[Message] = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    if hangs_up:
        messages.append({"type": "http.disconnect"})
    elif messages:
        messages[-1]["more_body"] = False
    coming: Iterable[Message] = iter(messages)

    async def receive() -> Message:
        return next(coming)  # type: ignore[call-overload, no-any-return]

    return receive


def code_of(body: bytes) -> str | None:
    try:
        check_text(body)
    except DulyError as error:
        return error.code
    return None


@given(value=anything, levels=st.integers(0, 6), ascii_only=st.booleans())
def test_the_depth_scan_agrees_with_the_plain_definition(value: object, levels: int, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")

    assert is_too_deep(text, deepest=levels) is (depth_of(value) > levels)


@given(text=st.text(alphabet='[]{}"\\,:a1 \n\t', max_size=60), levels=st.integers(1, 5))
def test_brackets_inside_strings_never_count(text: str, levels: int) -> None:
    value = [text, {text: [text]}]

    assert is_too_deep(json.dumps(value).encode(), deepest=levels) is (levels < 3)


@given(body=st.binary(max_size=80) | st.text(alphabet='[]{}"\\,:a', max_size=80).map(str.encode))
def test_any_bytes_are_judged_without_an_accident(body: bytes) -> None:
    judged = code_of(body)

    assert judged in {None, "DULY-E107", "DULY-E108", "DULY-E110"}


@given(body=st.text(alphabet='[]{}"\\,:', max_size=400).map(str.encode))
def test_what_passes_never_exhausts_the_decoder(body: bytes) -> None:
    if code_of(body) is None:
        with contextlib.suppress(msgspec.DecodeError):
            msgspec.json.decode(body)


@pytest.mark.parametrize("bracket", [b"[", b"{"])
def test_thirty_two_levels_pass_and_thirty_three_do_not(bracket: bytes) -> None:
    def nested(levels: int) -> bytes:
        return b'{"a":' * levels + b"1" + b"}" * levels if bracket == b"{" else b"[" * levels + b"]" * levels

    assert code_of(nested(DEEPEST)) is None
    assert code_of(nested(DEEPEST + 1)) == "DULY-E108"
    assert code_of(nested(5_000)) == "DULY-E108"
    assert code_of(bracket * 5_000) == "DULY-E108"


@pytest.mark.parametrize(
    "bomb",
    [
        b"[" * LARGEST_BATCH,
        b"[" * (LARGEST_BATCH // 2) + b"]" * (LARGEST_BATCH // 2),
        b"[" + b"[]," * (LARGEST_BATCH // 3 - 2) + b"[]]",
        b'["' + b'\\"' * (LARGEST_BATCH // 2 - 4) + b'"]',
        b"[" + b'"[",' * (LARGEST_BATCH // 4 - 2) + b"1]",
        (b"[" * 30 + b"]" * 30 + b",") * (LARGEST_BATCH // 61),
    ],
    ids=["openers", "one-tower", "many-empty", "escaped-quotes", "brackets-in-strings", "many-towers"],
)
def test_the_scan_of_a_bomb_grows_with_its_size_only(bomb: bytes) -> None:
    started = time.process_time()
    code_of(bomb)

    assert time.process_time() - started < 10.0


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'"plain"', None),
        ('"Zürich 🎉"'.encode(), None),
        (rb'"\u00fc\ud83c\udf89"', None),
        (rb'"a literal \\u0000"', None),
        (rb'"a literal \\ud800"', None),
        (rb'"\u0000"', "DULY-E110"),
        (rb'"\\\u0000"', "DULY-E110"),
        (rb'{"\u0000": 1}', "DULY-E110"),
        (b'"\x00"', "DULY-E110"),
        (rb'"\ud800"', "DULY-E110"),
        (rb'"\uDC00"', "DULY-E110"),
        (rb'"\ud83c\ud83c\udf89"', "DULY-E110"),
        (rb'"\udf89\ud83c"', "DULY-E110"),
        (b'"\xff"', "DULY-E107"),
        (b'"\xed\xa0\x80"', "DULY-E107"),
        ('"Zürich"'.encode("latin-1"), "DULY-E107"),
        ('"x"'.encode("utf-16"), "DULY-E107"),
    ],
)
def test_text_that_cannot_be_stored_is_refused(body: bytes, code: str | None) -> None:
    assert code_of(body) == code


@given(value=st.text())
def test_only_nul_and_lone_surrogates_are_refused_in_escaped_text(value: str) -> None:
    body = json.dumps(value, ensure_ascii=True).encode()

    assert code_of(body) == ("DULY-E110" if "\x00" in value else None)


async def test_a_body_arrives_in_pieces() -> None:
    body = await read_body(arrives(b'{"a"', b"", b": 1}"), JSON_TYPE, 100)  # type: ignore[arg-type]

    assert body == b'{"a": 1}'


async def test_an_empty_body_needs_no_type() -> None:
    assert await read_body(arrives(b""), {b"content-type": b"application/x-www-form-urlencoded"}, 100) == b""  # type: ignore[arg-type]


async def test_a_declared_length_beyond_the_limit_is_refused_before_reading() -> None:
    with pytest.raises(TooLarge) as refused:
        await read_body(arrives(), {**JSON_TYPE, b"content-length": b"101"}, 100)  # type: ignore[arg-type]

    assert refused.value.code == "DULY-E109"


async def test_an_undeclared_length_is_counted_while_it_streams() -> None:
    with pytest.raises(TooLarge):
        await read_body(arrives(b"x" * 60, b"x" * 60, b"never read"), JSON_TYPE, 100)  # type: ignore[arg-type]


async def test_a_caller_that_hangs_up_is_not_answered() -> None:
    with pytest.raises(ClientGone):
        await read_body(arrives(b"{", hangs_up=True), JSON_TYPE, 100)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "Application/JSON", "application/json; charset=utf-8", 'application/json;charset="UTF-8"'],
)
async def test_json_has_more_than_one_spelling(content_type: str) -> None:
    assert await read_body(arrives(b"{}"), {b"content-type": content_type.encode()}, 100) == b"{}"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {b"content-type": b"text/plain"},
        {b"content-type": b"application/jsonp"},
        {b"content-type": b"application/json; charset=latin-1"},
        {b"content-type": b"application/json, text/html"},
        {b"content-type": b"application/json\n"},
        {**JSON_TYPE, b"content-encoding": b"gzip"},
        {**JSON_TYPE, b"content-encoding": b"identity, gzip"},
    ],
)
async def test_what_is_not_plain_json_is_refused(headers: dict[bytes, bytes]) -> None:
    with pytest.raises(Invalid) as refused:
        await read_body(arrives(b"{}"), headers, 100)  # type: ignore[arg-type]

    assert refused.value.code == "DULY-E115"
