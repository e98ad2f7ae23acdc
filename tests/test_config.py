"""Settings that are read from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from duly import config
from duly.compose import open_node


@pytest.mark.parametrize("name", ["plain", "a b", "c#1", "50%", "%41", "really?", "ä & ö;x=1"])
async def test_the_default_store_is_in_the_state_directory_whatever_its_name(tmp_path: Path, name: str) -> None:
    home = tmp_path / name

    node = await open_node(config.load({"DULY_HOME": str(home)}))
    await node.close()

    assert (home / "duly.db").is_file()
    assert [path.name for path in tmp_path.iterdir()] == [name]


async def test_a_relative_state_directory_is_below_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    node = await open_node(config.load({"DULY_HOME": "state #1"}))
    await node.close()

    assert (tmp_path / "state #1" / "duly.db").is_file()
