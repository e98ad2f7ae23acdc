"""The named questions of `queries.sql`, in the words of each engine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from duly.domain.errors import NotFound
from duly.domain.instants import Instant

_BLOCK = re.compile(r"^-- name: (\w+)\n-- ([^\n]*)\n", re.MULTILINE)
_PERCENTILE = re.compile(r"/\*p(\d\d) (\w+)\*/")
_WANTED = "finished_at >= /*since*/ AND finished_at < /*until*/ AND (:tenant = '' OR tenant = :tenant)"


@dataclass(frozen=True, slots=True)
class Asked:
    """Of which time, whose (everybody's when it is empty), and how many rows at most."""

    since: Instant
    until: Instant
    tenant: str = ""
    most: int = 100

    @property
    def parameters(self) -> dict[str, Any]:
        """By name."""
        return {"since": self.since, "until": self.until, "tenant": self.tenant, "most": self.most}


@dataclass(frozen=True, slots=True)
class Answer:
    """The names of columns, and rows."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


@cache
def questions() -> dict[str, tuple[str, str]]:
    """What each asks, in a line, and its text with the seams open."""
    source = files("duly.adapters.clickhouse").joinpath("queries.sql").read_text(encoding="utf-8")
    parts = _BLOCK.split(source)[1:]
    return {name: (words, text.strip().rstrip(";")) for name, words, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)}


def for_clickhouse(name: str, table: str) -> str:
    """The question as ClickHouse takes it: duplicates are looked through, percentiles interpolated as elsewhere."""
    text = _text(name).replace("/*finished*/", f"{table} FINAL")
    text = _PERCENTILE.sub(r"quantileExactInclusive(0.\1)(\2)", text)
    for end in ("since", "until"):
        text = text.replace(f"/*{end}*/", f"fromUnixTimestamp64Micro({{{end}:Int64}}, 'UTC')")
    return text.replace(":tenant", "{tenant:String}").replace(":most", "{most:UInt32}")


def for_duckdb(name: str) -> str:
    """The question as DuckDB takes it, of a view `finished`."""
    text = _PERCENTILE.sub(r"quantile_cont(\2, 0.\1)", _text(name).replace("/*finished*/", "finished"))
    for end in ("since", "until"):
        text = text.replace(f"/*{end}*/", f"make_timestamp(${end})")
    return text.replace(":tenant", "$tenant").replace(":most", "$most")


def _text(name: str) -> str:
    if name not in questions():
        raise NotFound("DULY-E631", f"There is no question {name!r}.", hint=f"There are: {', '.join(questions())}.")
    return questions()[name][1].replace("/*wanted*/", _WANTED)
