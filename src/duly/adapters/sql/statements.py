"""Loads the named statements: `-- name: x` blocks with `:named` parameters.

One text serves both engines wherever it can be the same: `sql/x.sql`. Files that end in the
name of an engine (`sql/postgres.sql`, `sql/x.sqlite.sql`) add what only that one has, and may
override a shared text by name, with the reason beside it. `/*again*/` is a seam: a statement that has it exists twice, plain and as
`…_again`, where the seam reads ON CONFLICT DO NOTHING (see sql/postgres.sql). `/*for update*/`
locks the row on PostgreSQL, and `/*postgres: …*/` stands there without its stars. A `-- part: x`
stands in every statement of its file that says `/*x*/`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from operator import itemgetter
from typing import Any

_BLOCK = re.compile(r"^-- (name|part): (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_WRITES = re.compile(r"insert into|update |delete from|create trigger|drop trigger", re.IGNORECASE)
_OWN_WORDS = re.compile(r"/\*postgres: ([^*]+)\*/")
_ENGINES = ("sqlite", "postgres")


@dataclass(frozen=True, slots=True)
class Statement:
    """A named text, ready for one engine; `names` are its parameters in the order of their numbers."""

    name: str
    text: str
    names: tuple[str, ...]
    # The values of its parameters in that order, out of whatever else a row has.
    values: Callable[[Mapping[str, Any]], tuple[Any, ...]] = field(init=False, repr=False, compare=False)
    # Whether a reader's connection may run it. Asked for whenever it is run, so the text is looked through once.
    only_reads: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _picker(self.names))
        object.__setattr__(self, "only_reads", _WRITES.search(self.text) is None)


class Statements(Mapping[str, Statement]):
    """Statements by name, each made ready when it is first asked for: of six hundred a process runs some dozens."""

    def __init__(self, texts: Mapping[str, str], mark: str) -> None:
        self._texts = texts
        self._mark = mark
        self._made: dict[str, Statement] = {}

    def __getitem__(self, name: str) -> Statement:
        made = self._made.get(name)
        if made is None:
            # Two threads may make it at the same time: it is the same.
            made = self._made[name] = Statement(name, *_numbered(self._texts[name], self._mark))
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


@cache
def statements(engine: str) -> Statements:
    """Every statement of an engine."""
    texts: dict[str, str] = {}
    for files_of_a_kind in _files(engine):
        named: dict[str, str] = {}
        for text in files_of_a_kind:
            found = _parse(text)
            if twice := named.keys() & found.keys():
                raise ValueError(f"{engine}: two files have a statement named {', '.join(sorted(twice))}")
            named |= found
        texts |= named
    seamed = {f"{name}_again": text.replace("/*again*/", "ON CONFLICT DO NOTHING") for name, text in texts.items() if "/*again*/" in text}
    if engine == "postgres":
        # With one writer nothing needs it; here a change of a job excludes every other until it commits.
        texts = {name: _OWN_WORDS.sub(r"\1", text.replace("/*for update*/", "FOR UPDATE")) for name, text in texts.items()}
    else:
        texts = {name: _OWN_WORDS.sub("", text) for name, text in texts.items()}
    # By number on both: SQLite's driver asks for each name of a statement whenever it is run, which costs a third of a small one.
    mark = "$" if engine == "postgres" else "?"
    return Statements(texts | seamed, mark)


def _files(engine: str) -> tuple[list[str], list[str]]:
    """The texts that an engine has: the shared ones first, then its own, which may override them."""
    shared, own = [], []
    for file in sorted(files("duly.adapters.sql").joinpath("sql").iterdir(), key=lambda file: file.name):
        kind = file.name.removesuffix(".sql").rpartition(".")[2]
        if file.name.endswith(".sql") and kind not in _ENGINES:
            shared.append(file.read_text(encoding="utf-8"))
        elif kind == engine:
            own.append(file.read_text(encoding="utf-8"))
    return shared, own


def _parse(source: str) -> dict[str, str]:
    """The statements of a file, with its parts put in where they are named."""
    blocks = _BLOCK.split(source)[1:]
    kinds: dict[str, dict[str, str]] = {"name": {}, "part": {}}
    for kind, name, body in zip(blocks[::3], blocks[1::3], blocks[2::3], strict=True):
        kinds[kind][name] = _COMMENT.sub("", body).strip().rstrip(";")
    for part, text in kinds["part"].items():
        kinds["name"] = {name: body.replace(f"/*{part}*/", text) for name, body in kinds["name"].items()}
    return kinds["name"]


def _numbered(text: str, mark: str) -> tuple[str, tuple[str, ...]]:
    names = list(dict.fromkeys(_PARAMETER.findall(text)))
    return _PARAMETER.sub(lambda found: f"{mark}{names.index(found[1]) + 1}", text), tuple(names)


def _picker(names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    match names:
        case ():
            return lambda _: ()
        case (name,):
            return lambda params: (params[name],)
        case _:
            return itemgetter(*names)
