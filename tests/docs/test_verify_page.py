"""The page about `duly verify` knows every option and every kind of fault."""

from __future__ import annotations

import re
from pathlib import Path

from duly.cli.parsing import Parser
from duly.cli.verify import COMMANDS
from duly.verify.engines.engine import NAMES, engine_of
from duly.verify.faults import KINDS

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "verify.md").read_text(encoding="utf-8")


def test_every_kind_of_fault_has_a_row() -> None:
    section = PAGE.partition("## The kinds of faults")[2]

    assert re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE) == [
        *KINDS,
        *(kind.name for name in NAMES for kind in engine_of(name).kinds),
    ]


def test_every_option_has_a_row() -> None:
    parser = Parser("duly verify", "")
    COMMANDS["verify"].configure(parser)
    options = {option for action in parser._actions for option in action.option_strings} - {"-h", "--help"}

    section = PAGE.partition("## Options")[2].partition("## The store")[0]

    assert set(re.findall(r"^\| `(--?[a-z-]+)", section, re.MULTILINE)) | {"--quiet"} == options
