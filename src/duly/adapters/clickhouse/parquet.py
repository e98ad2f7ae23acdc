"""Records as Parquet files, a directory for each day, and the questions over them with DuckDB: no server, nothing to look after."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb

from duly.adapters.clickhouse.columns import COLUMNS, NAMES, values_of
from duly.adapters.clickhouse.queries import Answer, Asked, for_duckdb
from duly.domain.errors import NotFound
from duly.domain.records import Record

FILE = "executions.parquet"
_TYPES = {column.name: column.duckdb for column in COLUMNS}


class DayFile:
    """The file of one day in the making. It replaces the one before it when it is whole, and not before."""

    def __init__(self, directory: Path, day: str) -> None:
        self.path = directory / f"day={day}" / FILE
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lines = self.path.with_suffix(f".{os.getpid()}.jsonl")
        self._file = self._lines.open("w", encoding="utf-8")
        self.rows = 0

    def add(self, records: Iterable[Record]) -> None:
        """Append them."""
        for record in records:
            self._file.write(json.dumps(dict(zip(NAMES, map(_plain, values_of(record)), strict=True))) + "\n")
            self.rows += 1

    def keep(self) -> None:
        """Write the file, sorted by id, and put it in its place."""
        self._file.close()
        whole = self.path.with_suffix(f".{os.getpid()}.new")
        with duckdb.connect() as connection:
            found = connection.read_json(str(self._lines), columns=_TYPES, format="newline_delimited")
            found.order("id").write_parquet(str(whole), compression="zstd")
        whole.replace(self.path)
        self.drop()

    def drop(self) -> None:
        """Leave no trace of what was not kept."""
        self._file.close()
        self._lines.unlink(missing_ok=True)
        self.path.with_suffix(f".{os.getpid()}.new").unlink(missing_ok=True)


def ask_files(directory: Path, name: str, asked: Asked) -> Answer:
    """Answer a named question from the files in a directory. Raises NotFound (DULY-E632) when there are none."""
    text = for_duckdb(name)
    if not any(directory.glob(f"day=*/{FILE}")):
        raise NotFound("DULY-E632", f"There are no records in {directory}.", hint=f"Export some: duly export --parquet {directory}")
    with duckdb.connect() as connection:
        connection.read_parquet(str(directory / "day=*" / FILE)).create_view("finished")
        found = connection.execute(text, asked.parameters)
        return Answer([column[0] for column in found.description or ()], found.fetchall())


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    return value.replace(tzinfo=None).isoformat(sep=" ") if hasattr(value, "isoformat") else value
