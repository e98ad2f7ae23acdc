"""References to secrets: their two spellings, where each counts, and what is shown of them."""

from __future__ import annotations

from json import dumps, loads
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.errors import Invalid
from duly.domain.job import HttpCall, JobSpec, Target, Timing, check_spec
from duly.domain.secrets import (
    MASK,
    Secret,
    check_json,
    check_text,
    fill_text,
    filled,
    has_marks,
    is_marked,
    masked_json,
    parse_reference,
    wanted_by,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10
)


@pytest.mark.parametrize("text", ["env:A", "env:DULY_SECRET_TOKEN", "env:_x1", "file:a", "file:stripe/key.pem", "file:..data", "file:a..b"])
def test_a_reference_is_what_it_says(text: str) -> None:
    assert str(parse_reference(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "env", "env:", "ENV:A", "vault:a", "env:1A", "env:A B", "env:A\n", "env:Ä", "env:A=1", "env:" + "A" * 201, "file:",
        "file:/etc/passwd",
        "file:..", "file:../a", "file:a/../b", "file:a/..", "file:./a", "file:a//b", "file:a/", "file:a\\b", "file:a\0", "file:~/x",
        "file:a\n",
        "file:%2e%2e/a", None, 7, True, [], {}, {"value": 1, "more": 2}, MASK,
    ],
)  # fmt: skip
def test_what_only_looks_like_one_is_refused_and_not_repeated(text: object) -> None:
    with pytest.raises(Invalid) as refused:
        parse_reference(text, "payload")

    assert (refused.value.code, refused.value.field) == ("DULY-E141", "payload")
    assert not isinstance(text, str) or len(text) < 6 or text not in str(refused.value)


def test_json_is_looked_at_everywhere() -> None:
    with pytest.raises(Invalid, match="stands alone"):
        check_json('[{"a": {"$secret": "env:A", "more": 1}}]', "payload", values=True)
    with pytest.raises(Invalid) as malformed:
        check_json('{"a": [[{"$secret": "A"}]]}', "payload", values=True)
    with pytest.raises(Invalid) as clear:
        check_json('{"a": {"$secret": {"value": "hunter2"}}}', "payload", values=False)
    with pytest.raises(Invalid) as sealed:
        check_json('{"$sealed": {}}', "payload", values=True)

    assert [error.value.code for error in (malformed, clear, sealed)] == ["DULY-E141", "DULY-E142", "DULY-E143"]
    assert "hunter2" not in str(clear.value)
    check_json('{"a": {"$secret": {"value": "hunter2"}}, "b": {"$secret": "file:b"}}', "payload", values=True)
    check_json('{"a": "${secret:nonsense"}', "payload", values=False)


def test_an_escape_does_not_hide_a_reference() -> None:
    text = '{"a": {"\\u0024secret": "nonsense"}}'

    with pytest.raises(Invalid):
        check_json(text, "payload", values=True)


@given(JSON)
def test_the_quick_look_never_misses(value: object) -> None:
    for text in (dumps(value), dumps(value, ensure_ascii=False)):
        assert is_marked(text) or not has_marks(loads(text))


@given(JSON)
def test_what_names_no_secret_stays_as_it_is(value: object) -> None:
    if not has_marks(value):
        assert filled(value, lambda name: "x") == value
        assert wanted_by(value) == []


def test_every_reference_gets_its_value_and_a_value_names_no_other() -> None:
    payload = {"a": {"$secret": "env:A"}, "b": [1, {"c": {"$secret": "file:b"}}], "d": "${secret:env:A}"}
    values = {"env:A": '{"$secret": "env:B"}', "file:b": "${secret:env:A}"}

    assert sorted(wanted_by(payload)) == ["env:A", "file:b"]
    assert filled(payload, values.__getitem__) == {"a": '{"$secret": "env:B"}', "b": [1, {"c": "${secret:env:A}"}], "d": "${secret:env:A}"}
    assert fill_text("Bearer ${secret:file:b}!", values.__getitem__) == "Bearer ${secret:env:A}!"


@pytest.mark.parametrize(
    "text", ["${secret:}", "${secret:A}", "${secret:env:A", "a ${secret:env:A} ${secret:file:../x}", "${secret:${secret:env:A}}"]
)
def test_text_with_half_a_reference_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="reference"):
        check_text(text, "target.http.url")


def test_a_value_is_masked_where_it_is_shown_and_a_reference_is_not() -> None:
    text = '{"a": {"$secret": {"value": "hunter2"}}, "b": {"$secret": "env:B"}, "c": "plain"}'

    shown = masked_json(text)

    assert shown is not None
    assert loads(shown) == {"a": {"$secret": MASK}, "b": {"$secret": "env:B"}, "c": "plain"}
    # Sent back as it was shown it is refused: a mask must never become the value.
    with pytest.raises(Invalid, match="mask"):
        check_json(shown, "payload", values=True)
    assert masked_json('{"b": 1}') == '{"b": 1}'


def test_a_secret_shows_nothing_of_itself() -> None:
    secret = Secret("hunter2")

    assert [str(secret), f"{secret}", repr(secret), f"{[secret]}"] == [MASK, MASK, f"Secret({MASK})", f"[Secret({MASK})]"]
    assert secret.reveal() == "hunter2"
    assert (secret == Secret("hunter2"), secret == Secret("other"), secret == "hunter2") == (True, False, False)
    assert len({secret, Secret("hunter2")}) == 1
    assert repr(Secret.env("TOKEN")) == "Secret(env:TOKEN)"
    with pytest.raises(LookupError, match="worker only"):
        Secret.file("a/b").reveal()
    with pytest.raises(Invalid):
        Secret.env("no name")


def spec(**target: object) -> JobSpec:
    return JobSpec(name="job", timing=Timing(), target=Target(**target))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "field"),
    [
        ({"http": HttpCall(url="https://example.com/${secret:nonsense}")}, "target.http.url"),
        ({"http": HttpCall(url="https://example.com/", headers={"A": "${secret:env:A"})}, "target.http.headers.A"),
        ({"http": HttpCall(url="https://example.com/", body='{"a": {"$secret": "x"}}')}, "target.http.body"),
        ({"shell": ("echo", "${secret:env:A}")}, "target.shell"),
        ({"shell": ("echo",), "env": {"A": "${secret:}"}}, "target.env.A"),
    ],
)
def test_a_definition_is_checked_when_it_is_made(target: dict[str, object], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_spec(spec(**target))

    assert (refused.value.code, refused.value.field) == ("DULY-E141", field)


def test_a_body_never_has_a_value_not_even_when_payloads_are_encrypted() -> None:
    with pytest.raises(Invalid) as refused:
        check_spec(spec(http=HttpCall(url="https://example.com/", body='{"a": {"$secret": {"value": "x"}}}')), sealed=True)

    assert refused.value.code == "DULY-E142"


@pytest.mark.parametrize("env", [{"": "x"}, {"A=B": "x"}, {"DULY_KEY": "x"}, {"duly_x": "x"}, {"A B": "x"}, {"1A": "x"}, {"A": "a\0b"}])
def test_a_variable_has_a_name_of_its_own(env: dict[str, str]) -> None:
    with pytest.raises(Invalid, match="variable"):
        check_spec(spec(shell=("true",), env=env))


def test_variables_go_with_commands_only() -> None:
    with pytest.raises(Invalid, match="shell"):
        check_spec(spec(handler="work", env={"A": "b"}))


def test_a_deep_payload_harms_nobody() -> None:
    deep: Any = {"$secret": {"value": "hunter2"}}
    for _ in range(400):
        deep = [deep]
    text = dumps(deep)

    assert has_marks(deep)
    assert masked_json(text) == dumps(MASK)
    with pytest.raises(Invalid, match="levels deep"):
        check_json(text, "payload", values=True)
