"""The stores of a file: who they are, which is the default one, and where a new tenant is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from duly import config
from duly.compose.stores import shares
from duly.domain.errors import Invalid
from duly.domain.homes import Plot, store_for

TWO = """
[[stores]]
name = "eu"
url = "postgresql://duly:eu-secret@eu/duly"
tenants = ["acme", "eu-*"]

[[stores]]
name = "main"
url_file = "main.url"
default = true
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "main.url").write_text("sqlite:///main.db\n")
    path = tmp_path / "duly.toml"
    path.write_text(TWO)
    return path


def test_the_default_store_comes_first_and_its_address_may_stand_in_a_file(file: Path) -> None:
    settings = config.load({"DULY_CONFIG": str(file)})

    assert [store.name for store in settings.stores] == ["main", "eu"]
    assert settings.store == "sqlite:///main.db"
    assert settings.all_stores[1].tenants == ("acme", "eu-*")
    assert settings.veil.over("eu-secret") != "eu-secret"
    assert "eu-secret" not in repr(settings)


def test_a_file_beside_the_command_is_read_and_an_address_comes_before_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)

    assert len(config.load({}).stores) == 2
    assert config.load({"DULY_STORE": "sqlite:///other.db"}).stores == ()
    assert config.load({}, store="sqlite:///flag.db").stores == ()


def test_some_stores_are_chosen_by_name(file: Path) -> None:
    settings = config.load({"DULY_CONFIG": str(file)}, store="eu")

    assert [store.name for store in settings.stores] == ["eu"]
    assert settings.store.endswith("@eu/duly")
    assert [store.name for store in settings.all_stores] == ["main", "eu"]
    with pytest.raises(Invalid, match="There is no store 'us'"):
        config.load({"DULY_CONFIG": str(file)}, store="us")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[stores]]\nname = 'A'\nurl = 'x'", "small letters"),
        ("[[stores]]\nname = 'a'", "url or url_file"),
        ("[[stores]]\nname = 'a'\nurl = 'x'\nurl_file = 'y'", "url or url_file"),
        ("[[stores]]\nname = 'a'\nurl_file = 'nowhere'", "cannot be read"),
        ("[[stores]]\nname = 'a'\nurl = 'x'\nteants = []", "teants is not known"),
        ("[[stores]]\nname = 'a'\nurl = 'x'\ntenants = [1]", "list of names"),
        ("[[stores]]\nname = 'a'\nurl = 'x'\n[[stores]]\nname = 'a'\nurl = 'y'", "two stores are named a"),
        ("[[stores]]\nname = 'a'\nurl = 'x'\ndefault = 1", "true or false"),
        ("stores = 3", r"\[\[stores\]\]"),
        ("[[stores", "not TOML"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "duly.toml").write_text(text)

    with pytest.raises(Invalid, match=message) as found:
        config.load({"DULY_CONFIG": str(tmp_path / "duly.toml")})
    assert found.value.field == "DULY_CONFIG"


def test_one_store_and_several_contradict_one_another(file: Path) -> None:
    with pytest.raises(Invalid, match="contradicts DULY_STORE"):
        config.load({"DULY_CONFIG": str(file), "DULY_STORE": "sqlite:///one.db"})


def test_a_tenant_is_made_where_it_is_named_then_where_a_pattern_fits_then_in_the_default_store() -> None:
    plots = [Plot("a", ("*-eu", "z*")), Plot("b", ("acme-eu",)), Plot("c", ("z?",))]

    assert [store_for(name, plots, "d") for name in ("acme-eu", "beta-eu", "zz", "other")] == ["b", "a", "a", "d"]


def test_slots_are_shared_evenly_and_none_goes_without() -> None:
    assert shares(50, 3) == [17, 17, 16]
    assert shares(1, 3) == [1, 1, 1]
