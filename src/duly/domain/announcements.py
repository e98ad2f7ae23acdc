"""What is said on the way from a queue to its workers: which executions are ready, by the keys under which the store finds them.

An announcement has no secret in it and nothing of it is believed: whoever receives one asks the store for exactly these rows, and gets
those that are there. So a lost, repeated, late, forged or damaged one costs a question at most. The check sum keeps damaged ones
from costing even that.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from duly.domain.ids import ExecutionId

# How many executions one message may name: more would be a burst for one worker while the others wait.
MOST_NAMED = 200
_HEAD = struct.Struct("!4sIHH")
_ROUTE = struct.Struct("!i")
_ROW = struct.Struct("!iiq16s")
_MARK = b"dly1"


class Named(NamedTuple):
    """A ready execution by its place in the queue: all four must be right for a claim to find it."""

    route: int
    tenant: int
    rank: int
    id: ExecutionId


@dataclass(frozen=True, slots=True)
class Announcement:
    """Executions that are ready, in the order in which they should be taken; and routes with more work than is worth naming."""

    named: Sequence[Named] = ()
    deep: Sequence[int] = ()


def encode(announcement: Announcement) -> bytes:
    """As bytes: a mark, a check sum over what follows, two counts, and rows of fixed size."""
    named, deep = announcement.named, announcement.deep
    body = b"".join([_ROUTE.pack(route) for route in deep])
    body += b"".join([_ROW.pack(name.route, name.tenant, name.rank, name.id.bytes) for name in named])
    counts = struct.pack("!HH", len(deep), len(named))
    return _HEAD.pack(_MARK, zlib.crc32(counts + body), len(deep), len(named)) + body


def decode(message: bytes | None) -> Announcement | None:
    """What somebody has said; None when it is not one of ours, or not as it was sent."""
    if message is None or len(message) < _HEAD.size:
        return None
    mark, crc, deep, named = _HEAD.unpack_from(message)
    body = message[_HEAD.size :]
    if mark != _MARK or len(body) != deep * _ROUTE.size + named * _ROW.size:
        return None
    if zlib.crc32(message[8 : _HEAD.size] + body) != crc:
        return None
    at = deep * _ROUTE.size
    rows = [Named(route, tenant, rank, UUID(bytes=id)) for route, tenant, rank, id in _ROW.iter_unpack(body[at:])]
    return Announcement(rows, [route for (route,) in _ROUTE.iter_unpack(body[:at])])


def in_messages(named: Sequence[Named], listeners: int) -> Iterator[Announcement]:
    """Spread what is ready over those who may listen, its order kept: the first of it goes out first."""
    if not named:
        return
    each = min(max(-(-len(named) // max(listeners, 1)), 1), MOST_NAMED)
    for at in range(0, len(named), each):
        yield Announcement(named[at : at + each])
