"""The public names are those that were agreed on, and the package says that it is typed."""

from __future__ import annotations

from importlib.resources import files

from scripts.public_api import MODULES, TARGET, public_api


def test_public_names_and_signatures_are_as_committed() -> None:
    assert TARGET.read_text(encoding="utf-8") == public_api(), (
        "the public API has changed: run `python -m scripts.public_api`, and say in CHANGELOG.md what it means to users"
    )


def test_every_public_module_has_its_names_in_order() -> None:
    for name in MODULES:
        module = __import__(name, fromlist=["__all__"])

        assert list(module.__all__) == sorted(module.__all__)


def test_the_package_is_typed() -> None:
    assert files("duly").joinpath("py.typed").is_file()
