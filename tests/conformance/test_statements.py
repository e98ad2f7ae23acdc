"""Statements have names of their own: one that took another's would give somebody the wrong rows."""

from __future__ import annotations

import pytest

from duly.adapters.sql import statements

ONE, TWO = "-- name: member\nSELECT 1;\n", "-- name: member\nSELECT 2;\n"


def test_two_files_cannot_have_a_statement_of_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "_files", lambda engine: ([], [ONE, TWO]))

    with pytest.raises(ValueError, match="two files have a statement named member"):
        statements.statements.__wrapped__("sqlite")


def test_an_engine_may_override_what_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "_files", lambda engine: ([ONE], [TWO]))

    assert statements.statements.__wrapped__("sqlite")["member"].text == "SELECT 2"
