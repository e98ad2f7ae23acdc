"""A fuzzer that knows the OpenAPI document finds no 5xx, no undocumented status, and nothing that is not as the document says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.http.fuzz import Server, fuzz
from tests.services.postgres import Postgres


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_api_is_what_its_document_says(tmp_path: Path, request: pytest.FixtureRequest, kind: str) -> None:
    if kind == "postgres":
        postgres: Postgres = request.getfixturevalue("postgres_server")
        store = postgres.create_database("fuzzed")
    else:
        store = f"sqlite:///{tmp_path / 'duly.db'}"

    with Server(tmp_path, store) as server:
        done = fuzz(server.url, tmp_path, phases="examples,fuzzing", seconds=25, examples=20, seed=1)

    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
    assert "FAILURES" not in done.stdout
    assert not server.faults
