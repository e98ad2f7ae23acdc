"""Bodies that are made to hurt: each must be refused, quickly, and without being held in memory."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache

CHUNK = 64 * 1024
MEGABYTE = 1 << 20


def nested(depth: int, opening: bytes, closing: bytes) -> bytes:
    return opening * depth + b"1" + closing * depth


def job_with(payload: bytes) -> bytes:
    return b'{"target": {"handler": "duly.echo"}, "payload": ' + payload + b"}"


@cache
def made(bomb: Callable[[], bytes]) -> bytes:
    """A bomb at its first use: whoever only lists the tests makes none."""
    return bomb()


# Each fits into what one object may have, and is refused for what it is.
SMALL: dict[str, bytes] = {
    "arrays 10,000 deep": nested(10_000, b"[", b"]"),
    "objects 10,000 deep": nested(10_000, b'{"a":', b"}"),
    "arrays 100,000 deep, never closed": b"[" * 100_000,
    "a payload 10,000 deep": job_with(nested(10_000, b"[", b"]")),
    "objects 33 deep": job_with(nested(33, b'{"a":', b"}")),
    "NaN": job_with(b"NaN"),
    "Infinity": job_with(b"-Infinity"),
    "a number of 200,000 digits": job_with(b"9" * 200_000),
    "an exponent beyond all sense": job_with(b"1e999999999"),
    "NUL": job_with(b'"\x00"'),
    "an escaped NUL": job_with(b'"\\u0000"'),
    "half a surrogate pair": job_with(b'"\\ud800"'),
    "the other half": job_with(b'"\\udc00\\ud800"'),
    "100,000 halves": job_with(b'"' + b"\\ud800" * 40_000 + b'"'),
    "not UTF-8": job_with(b'"\xff\xfe"'),
    "an overlong slash": job_with(b'"\xc0\xaf"'),
    "a million spaces of nothing": b" " * 250_000,
    "a string without an end": job_with(b'"' + b"x" * 200_000),
    "200,000 quotes": b'"' * 200_000,
    "200,000 backslashes": b'"' + b"\\" * 200_000,
    "a body of commas": b"[" + b"," * 200_000 + b"]",
    "30,000 unknown keys": json.dumps({f"k{n}": 0 for n in range(20_000)}).encode(),
    "the same key 30,000 times": b"{" + b",".join([b'"target":1'] * 20_000) + b"}",
    "100,000 numbers for an object": b"[" + b",".join([b"1"] * 100_000) + b"]",
}

# Each is more than one object may have.
LARGE: Mapping[str, Callable[[], bytes]] = {
    "a million keys": lambda: json.dumps({f"k{n}": 0 for n in range(1_000_000)}).encode(),
    "an array of a million": lambda: b'{"payload": [' + b",".join([b"1"] * 1_000_000) + b"]}",
    "a string of 20 MB": lambda: b'{"payload": "' + b"x" * (20 * MEGABYTE) + b'"}',
}


def zipped() -> bytes:
    """Twenty megabytes in as many kilobytes."""
    return gzip.compress(b"[" * (20 * MEGABYTE), 9)


# Values that a parser of schedules could get lost in, by the fields that they stand in.
SCHEDULES: list[dict[str, object]] = [
    {"schedule": "*/1 " * 100},
    {"schedule": ",".join(["0-59/1"] * 80) + " * * * *"},
    {"schedule": "0 0 30 2 *"},
    {"schedule": "0 0 29 2 1#5"},
    {"schedule": "0 0 31 4,6,9,11 *"},
    {"schedule": "9" * 500},
    {"schedule": "* * * * *" + " " * 400},
    {"schedule": "H(0-59) " * 50},
    {"schedule": "٣ * * * *"},
    {"type": "RRULE", "schedule": "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"},
    {"type": "RRULE", "schedule": "FREQ=SECONDLY;BYSECOND=" + ",".join(str(n) for n in range(60))},
    {"type": "RRULE", "schedule": "FREQ=YEARLY;BYYEARDAY=366;BYDAY=MO;BYMONTH=2;BYHOUR=9"},
    {"type": "RRULE", "schedule": "FREQ=YEARLY;INTERVAL=999999999;BYMONTHDAY=31;BYMONTH=2;BYHOUR=9"},
    {"type": "RRULE", "schedule": "FREQ=DAILY;COUNT=99999999999999999999;BYHOUR=9"},
    {"type": "RRULE", "schedule": ";".join(["FREQ=DAILY"] * 40)},
    {"schedule": "0 3 * * *", "timezone": "../" * 20 + "etc/passwd"},
    {"schedule": "0 3 * * *", "timezone": "A" * 5000},
    {"schedule": "0 3 * * *", "timezone": "Europe/Berlin\x00"},
    {"intervalSec": 1e308},
    {"intervalSec": 10**40},
    {"delaySec": 1e-320, "runAt": "2026-01-01T00:00:00Z"},
    {"runAt": "9" * 4000},
    {"name": "x" * 200_000},
    {"target": {"handler": "h" * 200_000}},
    {"target": {"handler": "duly.echo", "requires": {f"k{n}": "v" for n in range(5000)}}},
    {"target": {"shell": ["x"] * 50_000}},
]


def chunks_of(size: int, read: list[int]) -> Iterator[bytes]:
    """So many bytes, piece by piece; `read` counts what was taken of them."""
    for _ in range(size // CHUNK):
        read.append(CHUNK)
        yield b"[" * CHUNK
