"""Puts secrets in their places, right before the handler runs: in the payload and in what the attempt calls.

What is resolved stays in the attempt and ends with it. Nothing of it is written: whatever the handler logs, returns,
saves or raises goes through the attempt's veil first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from json import dumps, loads
from typing import Any

from duly.domain.errors import Invalid
from duly.domain.job import Target
from duly.domain.redaction import Veil
from duly.domain.secrets import (
    MARK,
    SEALED,
    check_value,
    fill_text,
    filled,
    has_marks,
    parse_reference,
    references_in,
    values_in,
    wanted_by,
)
from duly.domain.unreadable import UNREADABLE, Unreadable
from duly.ports.endings import Failure
from duly.ports.handlers import Attempt
from duly.ports.secrets import Secrets


class NoSecrets:
    """A worker that has none: every reference fails its attempt."""

    async def read(self, reference: object) -> str:
        raise Failure(f"The secret {reference} cannot be read: this worker has none.", type="SecretNotResolved", retry=False)

    def hide(self, values: object) -> None:
        """There is no log to hide them in."""


async def unveil(attempt: Attempt, defaults: Mapping[str, str], secrets: Secrets) -> None:
    """Resolve what the attempt names, and what its handler takes by default. Raises Failure that names the reference and never a value."""
    payload, target = _with_defaults(attempt.payload, defaults), attempt.version.spec.target
    if isinstance(payload, Unreadable):
        raise Failure(f"The payload cannot be read: {payload.why}", type=UNREADABLE, retry=False)
    if isinstance(payload, dict) and SEALED in payload:
        raise Failure(
            "The payload is encrypted, and this worker cannot read it: it needs the key it was written with in DULY_PAYLOAD_KEYS.",
            type="PayloadSealed",
        )
    marked = has_marks(payload)
    body = None if target.http is None or target.http.body is None else loads(target.http.body)
    texts = list(_texts(target))
    try:
        for document, field in ((payload, "payload"), (body, "target.http.body")):
            check_value(document, field, values=document is payload)
        wanted = dict.fromkeys([*wanted_by(payload), *wanted_by(body), *(name for text in texts for name in references_in(text))])
        found = {name: await secrets.read(parse_reference(name)) for name in wanted}
    except Invalid as error:
        # What came in through SQL was not looked at before.
        raise Failure(str(error), type="SecretNotResolved", retry=False) from None
    came = [value if isinstance(value, str) else dumps(value) for value in values_in(payload)]
    if found or came:
        secrets.hide(came)
        attempt.extras.veil = Veil([*found.values(), *came])
    if marked:
        attempt.payload = filled(payload, found.__getitem__)
    if any(map(references_in, texts)) or wanted_by(body):
        attempt.extras.target = _filled_target(target, body, found)


def _with_defaults(payload: Any, defaults: Mapping[str, str]) -> Any:
    """The payload with the arguments that the handler takes from secrets, unless it has them."""
    if not defaults or not (payload is None or isinstance(payload, dict)):
        return payload
    given = payload or {}
    return given | {name: {MARK: reference} for name, reference in defaults.items() if name not in given}


def _texts(target: Target) -> Iterator[str]:
    yield from target.env.values()
    if target.http is not None:
        yield target.http.url
        yield from target.http.headers.values()


def _filled_target(target: Target, body: Any, found: dict[str, str]) -> Target:
    value_of = found.__getitem__
    http = target.http
    if http is not None:
        headers = {name: fill_text(value, value_of) for name, value in http.headers.items()}
        text = None if http.body is None else dumps(filled(body, value_of), ensure_ascii=False) if wanted_by(body) else http.body
        http = replace(http, url=fill_text(http.url, value_of), headers=headers, body=text)
    return replace(target, http=http, env={name: fill_text(value, value_of) for name, value in target.env.items()})
