"""For the audit trail: by which way a caller comes and why, as its headers say. Who it is, the key alone says."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from duly.domain.access import CHANNELS, Actor
from duly.domain.errors import Invalid
from duly.domain.redaction import without_credentials

_HEX = "[0-9A-Fa-f]"
_REST = f"%[89ABab]{_HEX}"
# Visible ASCII and spaces, and percent-encoded UTF-8 for all else; each alternative is one character.
REASON_PATTERN = f"^(?:[ -$&-~]|%[2-7]{_HEX}|%[C-Dc-d]{_HEX}{_REST}|%[Ee]{_HEX}(?:{_REST}){{2}}|%[Ff][0-7](?:{_REST}){{3}}){{0,500}}$"
HEADERS: dict[str, dict[str, Any]] = {
    "Duly-Channel": {
        "description": "By which way the caller comes, for the audit trail; `api` otherwise.",
        "schema": {"type": "string", "enum": list(CHANNELS)},
    },
    "Duly-Reason": {
        "description": "Why, for the audit trail: at most 500 characters, percent-encoded UTF-8 where they are not ASCII.",
        "schema": {"type": "string", "pattern": REASON_PATTERN},
    },
}

_REASON = re.compile(REASON_PATTERN.encode())
_CHANNELS = {name.encode(): name for name in CHANNELS}


def attributed(actor: Actor, headers: dict[bytes, bytes], request_id: str) -> Actor:
    """The actor with what the request says about itself. Raises Invalid (DULY-E271, DULY-E272)."""
    channel, reason = headers.get(b"duly-channel"), headers.get(b"duly-reason")
    if channel is not None and channel not in _CHANNELS:
        raise Invalid("DULY-E271", f"must be one of {', '.join(CHANNELS)}.", field="Duly-Channel")
    if reason is not None and not _REASON.fullmatch(reason):
        raise Invalid("DULY-E272", "must be at most 500 characters without control characters.", field="Duly-Reason")
    return replace(
        actor,
        # Who came by a session or through a proxy is known to have, whatever the header says.
        channel=_CHANNELS[channel] if channel is not None and actor.channel == "api" else actor.channel,
        request_id=request_id,
        reason=without_credentials(unquote(reason.decode(), errors="replace")) or None if reason is not None else None,
    )
