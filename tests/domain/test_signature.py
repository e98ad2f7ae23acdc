"""What handlers take, by name: what is refused, what is not, and what is said about it."""

from __future__ import annotations

import pytest

from duly.domain.signature import Takes, common_refusal, refusal

MAIL = Takes(("user_id", "region"), ("user_id",))


@pytest.mark.parametrize(
    "payload",
    ['{"user_id": 7}', '{"user_id": 7, "region": "eu"}', '{"user_id": {"$secret": "env:ID"}}', '{"$secret": "env:ALL"}', '{"user_id": '],
)
def test_what_the_names_say_nothing_against(payload: str) -> None:
    assert refusal("mail", MAIL, payload) is None


@pytest.mark.parametrize(
    ("payload", "says", "field", "hint"),
    [
        ('{"user": 7}', "mail has no argument 'user'.", "payload.user", "Did you mean user_id? It takes user_id, region (optional)."),
        ('{"user_id": 7, "x": 1}', "mail has no argument 'x'.", "payload.x", "It takes user_id, region (optional)."),
        ('{"region": "eu"}', "mail needs the argument 'user_id'.", "payload.user_id", "It takes user_id, region (optional)."),
        ("null", "mail needs the argument 'user_id'.", "payload.user_id", "It takes user_id, region (optional)."),
        ("[7]", "mail takes named arguments; the payload is a list.", "payload", "It takes user_id, region (optional)."),
        ("7", "mail takes named arguments; the payload is a number.", "payload", "It takes user_id, region (optional)."),
    ],
)
def test_what_is_refused_is_named(payload: str, says: str, field: str, hint: str) -> None:
    refused = refusal("mail", MAIL, payload)

    assert refused is not None
    assert (refused.code, refused.message, refused.field, refused.hint) == ("DULY-E117", says, field, hint)


def test_a_handler_without_arguments() -> None:
    refused = refusal("tidy", Takes(), '{"all": true}')

    assert refused is not None
    assert refused.hint == "It takes no arguments."
    assert refusal("tidy", Takes(), "null") is None
    assert refusal("tidy", Takes(), "{}") is None


def test_it_is_refused_only_if_nobody_would_take_it() -> None:
    older = Takes(("user",), ("user",))

    assert common_refusal("mail", [MAIL, older], '{"user": 7}') is None
    assert common_refusal("mail", [MAIL, None], '{"user": 7}') is None
    assert common_refusal("mail", [], '{"user": 7}') is None
    assert common_refusal("mail", [MAIL, older], '{"nobody": 7}') is not None
