"""The worker's secrets: what the operator lists, and files that lie where they should."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from duly import config
from duly.adapters.system.vault import LARGEST_FILE, Vault
from duly.domain.redaction import Veil
from duly.domain.secrets import Reference, parse_reference
from duly.ports.endings import Failure


async def read(reference: str, directory: Path | None = None, **variables: str) -> str:
    return await Vault(variables, None if directory is None else str(directory), Veil()).read(parse_reference(reference))


async def refusal(reference: str, directory: Path | None = None, **variables: str) -> str:
    with pytest.raises(Failure) as refused:
        await read(reference, directory, **variables)
    assert (refused.value.type, refused.value.retry) == ("SecretNotResolved", False)
    assert reference in str(refused.value)
    return str(refused.value)


async def test_a_file_is_read_as_it_is_now(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    assert await read("file:token", tmp_path) == "first"

    (tmp_path / "token").write_text("second\r\n")
    assert await read("file:token", tmp_path) == "second"

    (tmp_path / "pem").write_text("a\nb\n\n")
    assert await read("file:pem", tmp_path) == "a\nb\n"


async def test_a_link_inside_the_directory_is_followed_and_one_out_of_it_is_not(tmp_path: Path) -> None:
    """Kubernetes mounts secrets as links into `..data`."""
    secrets, outside = tmp_path / "secrets", tmp_path / "outside"
    (secrets / "..data").mkdir(parents=True)
    outside.mkdir()
    (secrets / "..data" / "token").write_text("inside")
    (outside / "token").write_text("outside")
    (secrets / "token").symlink_to("..data/token")
    (secrets / "escape").symlink_to(outside / "token")
    (secrets / "door").symlink_to(outside)

    assert await read("file:token", secrets) == "inside"
    for name in ("escape", "door/token"):
        said = await refusal(f"file:{name}", secrets)
        assert "leads out" in said
        assert str(outside) not in said


async def test_a_directory_that_is_a_link_itself_is_the_operators_choice(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "token").write_text("here")
    (tmp_path / "link").symlink_to(tmp_path / "real")

    assert await read("file:token", tmp_path / "link") == "here"


async def test_only_regular_files_of_a_sane_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_bytes(b"x" * (LARGEST_FILE + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "nul").write_bytes(b"a\0b")
    (tmp_path / "most").write_bytes(b"x" * LARGEST_FILE)

    assert "regular" in await refusal("file:pipe", tmp_path)
    assert "regular" in await refusal("file:folder", tmp_path)
    assert "larger" in await refusal("file:large", tmp_path)
    assert "UTF-8" in await refusal("file:binary", tmp_path)
    assert "NUL" in await refusal("file:nul", tmp_path)
    assert len(await read("file:most", tmp_path)) == LARGEST_FILE
    assert "No such file" in await refusal("file:missing", tmp_path)
    assert "DULY_SECRETS_DIR" in await refusal("file:token")


async def test_a_name_that_was_never_checked_leads_nowhere_either(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "other").write_text("other")
    vault = Vault({}, str(tmp_path / "secrets"), Veil())

    for name in ("../other", str(tmp_path / "other")):
        with pytest.raises(Failure, match="leads out"):
            await vault.read(Reference("file", name))


async def test_only_listed_variables_are_read() -> None:
    environment = {
        "DULY_SECRET_A": "a-value",
        "SHOP_B": "b-value",
        "OTHER": "c-value",
        "PATH": "/bin",
        "DULY_KEY": "duly_0123456789",
        "DULY_WEBHOOK_SECRET": "signing",
        "DULY_SECRETS_ENV": "DULY_*, SHOP_*, OTHER",
    }

    assert config.load({"DULY_SECRET_A": "x", "OTHER": "y"}).secrets_env == {"DULY_SECRET_A": "x"}
    listed = config.load(environment).secrets_env
    assert listed == {"DULY_SECRET_A": "a-value", "SHOP_B": "b-value", "OTHER": "c-value"}, "never Duly's own settings"
    assert await read("env:SHOP_B", **listed) == "b-value"
    assert "DULY_SECRETS_ENV" in await refusal("env:PATH", **listed)
