"""`Secret` in Python: masked here, a reference on the way, a value in the handler."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from duly import App, Context, Secret
from duly.domain.errors import Invalid
from duly.domain.secrets import MASK
from duly.sdk import calls
from duly.sdk.arguments import Arguments, BatchArguments
from tests.executors.attempts import python


@dataclass
class Account:
    name: str
    password: Secret[str]


def send(user: str, token: Secret[str], pin: Secret[int] | None = None, account: Account | None = None) -> None:
    """A handler."""


def test_a_reference_goes_as_a_reference() -> None:
    payload = Arguments(send).to_payload(("ann", Secret.env("DULY_SECRET_TOKEN")), {"account": Account("a", Secret.file("a/b"))})

    assert json.loads(payload) == {
        "user": "ann",
        "token": {"$secret": "env:DULY_SECRET_TOKEN"},
        "account": {"name": "a", "password": {"$secret": "file:a/b"}},
    }


@pytest.mark.parametrize("token", ["plain text", Secret("plain text")])
def test_a_value_is_sent_as_a_secret_however_it_is_given(token: Any) -> None:
    payload = json.loads(Arguments(send).to_payload(("ann", token), {"account": {"name": "a", "password": "pass word"}, "pin": 1234}))

    assert payload["token"] == {"$secret": {"value": "plain text"}}
    assert payload["account"]["password"] == {"$secret": {"value": "pass word"}}
    assert payload["pin"] == {"$secret": {"value": 1234}}
    assert payload["user"] == "ann"


def test_a_reference_may_stand_for_any_text() -> None:
    payload = Arguments(send).to_payload((Secret.env("NAME"), "plain"), {})

    assert json.loads(payload)["user"] == {"$secret": "env:NAME"}
    assert json.loads(payload)["token"] == {"$secret": {"value": "plain"}}


def test_what_does_not_fit_is_refused_without_being_shown() -> None:
    with pytest.raises(Invalid) as refused:
        Arguments(send).to_payload(("ann",), {"token": "x", "pin": Secret("hunter2")})

    assert "hunter2" not in str(refused.value)


def test_the_handler_gets_a_secret_of_the_resolved_value() -> None:
    bound = Arguments(send).bind({"user": "ann", "token": "abc", "account": {"name": "a", "password": "b"}}, Context(python("send")))

    assert (bound["token"].reveal(), bound["account"].password.reveal()) == ("abc", "b")
    assert "abc" not in repr(bound)


def test_a_default_that_is_a_reference_is_told_to_the_worker() -> None:
    app = App("shop")

    @app.job(cron="0 3 * * *")
    def nightly(region: str = "eu", token: Secret[str] = Secret.env("DULY_SECRET_TOKEN")) -> None: ...  # noqa: B008

    assert app.calls()["nightly"].secret_defaults == {"token": "env:DULY_SECRET_TOKEN"}
    assert nightly.arguments.to_payload((), {"region": "us"}) == '{"region":"us"}'


def test_a_batch_handler_takes_items_with_secrets() -> None:
    def many(items: list[Account]) -> None: ...

    arguments = BatchArguments(many)

    assert json.loads(arguments.of_call(Account("a", Secret.env("P"))))["password"] == {"$secret": "env:P"}
    assert arguments.check({"name": "a", "password": "b"}).password.reveal() == "b"


def test_a_client_sends_them_too() -> None:
    request = calls.enqueue("job_1", payload={"token": Secret.env("TOKEN")}).request

    assert msgspec.json.decode(request.body or b"")["payload"] == {"token": {"$secret": "env:TOKEN"}}
    with pytest.raises(TypeError):
        calls.enqueue("job_1", payload={"token": object()})


def test_a_value_is_not_stored_in_clear(tmp_path: Any) -> None:
    app = App("shop", store=f"sqlite:///{tmp_path}/duly.db")

    @app.job
    def work(token: Secret[str]) -> None: ...

    with pytest.raises(Invalid) as refused:
        app.sync.work.enqueue(token="hunter2")
    run = app.sync.work.enqueue(token=Secret.env("TOKEN"))
    app.sync.close()

    assert refused.value.code == "DULY-E142"
    assert "hunter2" not in str(refused.value)
    assert run.startswith("run_")
    assert b"hunter2" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert str(Secret("x")) == MASK


def test_a_transaction_of_yours_stores_nothing_in_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_PAYLOAD_KEYS", "k:" + base64.b64encode(bytes(32)).decode())
    app = App("shop")

    @app.job
    def work(token: str) -> None: ...

    with pytest.raises(Invalid) as refused:
        work.using(object())

    assert refused.value.code == "DULY-E144"
