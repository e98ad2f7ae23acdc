"""What dead letters have in common: the job, the type of the error, and its message without what differs from run to run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b

from duly.domain.ids import JobId

_LONGEST = 300
# Quoted strings first: what stands in them may be anything. Then ids and hashes, then numbers.
_QUOTED = re.compile(r"'[^'\n]{0,500}'|\"[^\"\n]{0,500}\"|`[^`\n]{0,500}`")
_ID = re.compile(
    r"\b(?:[a-z]{2,8}_)?[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}\b"  # a uuid, with or without hyphens and prefix
    r"|\b0x[0-9a-fA-F]+\b"
    r"|\b(?=[0-9a-f]*[0-9])[0-9a-f]{8,}\b"  # a hash: a word of hexadecimal digits is none, such as "defaced"
)
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a group of executions died. `key` names the group."""

    key: str
    type: str | None
    message: str


def normalised(message: str) -> str:
    """The first line of a message with quoted strings, ids, hashes and numbers out of it."""
    line = message.partition("\n")[0][: 4 * _LONGEST]
    for pattern, instead in ((_QUOTED, "'…'"), (_ID, "#"), (_NUMBER, "#"), (_SPACE, " ")):
        line = pattern.sub(instead, line)
    return line.strip()[:_LONGEST]


def cause_of(job: JobId, type: str | None, message: str | None) -> Cause:
    """The group that a dead letter belongs to."""
    template = normalised(message or "")
    digest = blake2b(job.bytes + f"{type or ''}\n{template}".encode(), digest_size=8)
    return Cause(digest.hexdigest(), type, template)
