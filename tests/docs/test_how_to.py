"""The code in the how-to pages about running is executed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from duly.domain.errors import Invalid
from duly.ports.endings import Discard, GiveUp, RetryLater, Snooze
from tests.executors.attempts import WatchedAttempt
from tests.executors.attempts import python as attempt_of

PAGES = Path(__file__).parents[2] / "docs" / "how-to"


@pytest.fixture
def page(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """The names that a page's Python blocks define."""
    text = (PAGES / request.param).read_text(encoding="utf-8")
    module = ModuleType("how_to")
    sys.modules["how_to"] = module
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, request.param, "exec"), module.__dict__)
    yield module.__dict__
    del sys.modules["how_to"]


@pytest.mark.parametrize("page", ["retries-and-timeouts.md"], indirect=True)
async def test_each_ending_of_the_page_is_raised(page: dict[str, Any]) -> None:
    call = page["app"].calls()["charge"].call

    assert await call(attempt_of("charge", payload={"order": "7"})) == "7"
    for order, ending in {"busy": RetryLater, "not yet": Snooze, "no such customer": GiveUp, "paid already": Discard}.items():
        with pytest.raises(ending):
            await call(attempt_of("charge", payload={"order": order}))
    rules = page["app"].tasks["charge"].spec.retry.rules
    assert [(rule.error, rule.retry, rule.max_attempts) for rule in rules] == [
        ("ValueError", False, None),
        ("how_to.RateLimited", True, 10),
    ]


@pytest.mark.parametrize("page", ["checkpoints.md"], indirect=True)
async def test_an_import_goes_on_where_it_was(page: dict[str, Any]) -> None:
    from concurrent.futures import Future

    from duly.ports.handlers import Attempt, Kept

    saved: list[str] = []

    def keep(attempt: Attempt, data: str) -> Future[None]:
        saved.append(data)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    attempt: WatchedAttempt = attempt_of("import_rows", payload={"rows": 950})
    attempt.keeper = keep
    attempt.extras.kept = Kept(7, "700")

    assert await page["app"].calls()["import_rows"].call(attempt) == 950
    assert saved == ["800", "900", "950"]
    assert attempt.extras.progress == '{"done":950,"total":950,"message":"importing"}'


@pytest.mark.parametrize("page", ["batch.md"], indirect=True)
async def test_items_that_do_not_fit_fail_alone(page: dict[str, Any]) -> None:
    send = page["app"].tasks["send"]
    payloads = [{"to": "a@example.com", "text": "hello"}, {"to": "nobody", "text": "hello"}, {"text": "to whom?"}]

    results = await send.call().call([attempt_of("send", payload=payload) for payload in payloads])

    assert results[0] == {"sent": "a@example.com"}
    assert [type(result).__name__ for result in results[1:]] == ["ValueError", "Failure"]
    by_fields = send.arguments.to_payload((), {"to": "a@example.com", "text": "hello"})
    assert by_fields == send.arguments.to_payload((page["Message"]("a@example.com", "hello"),), {})
    with pytest.raises(Invalid, match="missing required field"):
        send.arguments.to_payload((), {"to": "a@example.com"})


@pytest.mark.parametrize("page", ["overlap-and-limits.md"], indirect=True)
def test_the_limits_of_the_page_are_declared(page: dict[str, Any]) -> None:
    specs = {name: task.spec for name, task in page["app"].tasks.items()}

    assert specs["crawl"].overlap.places == 3
    assert specs["refresh"].overlap.policy == "cancel_previous"
    assert [specs[name].limits.gated for name in ("render", "sync_user", "charge", "call_api")] == [True] * 4
    assert specs["welcome"].limits.unique.key == ("user_id",)
    assert specs["rebuild"].limits.unique.window == 3600 * 1_000_000


@pytest.mark.parametrize("page", ["secrets.md"], indirect=True)
async def test_the_handlers_of_the_page_take_secrets(page: dict[str, Any]) -> None:
    from duly import Secret

    call = page["app"].calls()["charge"]
    attempt = attempt_of("charge", payload={"token": "four"})

    assert call.secret_defaults == {"token": "env:DULY_SECRET_STRIPE"}
    assert await call.call(attempt) == "4"
    assert [line.fields for line in attempt.logs] == [{"token": "••••••"}]
    sent = page["send"].arguments.to_payload((), {"user": "ann", "password": Secret.file("ann/password")})
    assert sent == '{"user":"ann","password":{"$secret":"file:ann/password"}}'


@pytest.mark.parametrize("page", ["webhooks.md"], indirect=True)
async def test_the_receiver_of_the_page_knows_what_duly_signed(page: dict[str, Any]) -> None:
    from duly.executors.http import http_handler
    from tests.executors.attempts import NOW, http
    from tests.executors.servers import answer, serve

    verify, now = page["verify"], NOW / 1_000_000
    handler = http_handler(signing_secret=b"shared", allow=["127.0.0.1"])
    async with serve(answer()) as server:
        await handler.run(http(f"http://127.0.0.1:{server.port}/", payload={"day": "yesterday"}))
    [(_, headers, body)] = server.requests
    signature = headers["duly-signature"]

    assert verify(b"shared", signature, body, now)
    assert verify(b"shared", signature, body, now + 299)
    assert not verify(b"shared", signature, body, now + 301), "a replay from yesterday"
    assert not verify(b"shared", signature, body, now - 301), "a clock that is far off"
    assert not verify(b"other", signature, body, now)
    assert not verify(b"shared", signature, body + b" ", now)
    for forged in (
        "",
        "t=1",
        "v1=00",
        f"t={int(now)},v1=",
        f"t={int(now)},v1=\u00e9",
        "t=\u0661,v1=00",
        "t=-1,v1=00",
        signature.replace("t=", "t=1"),
    ):
        assert not verify(b"shared", forged, body, now)
