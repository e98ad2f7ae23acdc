"""`duly logs --grep`, `duly export` and `duly analytics` against a real server."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from tests.cli.processes import Running


def test_logs_are_looked_through_across_runs_and_by_level(server: Running) -> None:
    for region in ("north", "south"):
        assert server.duly("run", "nightly_report", f"region={region}", "--exit-status").code == 0

    across = server.duly("logs", "nightly_report", "--grep", "SOUTH", "-o", "jsonl")
    latest = server.duly("logs", "nightly_report", "--level", "error")
    misused = server.duly("logs", "nightly_report", "--grep", "x", "--attempt", "1")

    (line,) = [json.loads(text) for text in across.out.splitlines()]
    assert (line["fields"], line["executionId"][:4]) == ({"region": "south"}, "run_")
    assert (latest.out, "It logged nothing like that" in latest.err) == ("", True)
    assert misused.code == 2
    assert "DULY-E604" in misused.err


def test_what_has_ended_is_exported_once_and_asked(server: Running, tmp_path: Path) -> None:
    assert server.duly("run", "broken", "--wait").code == 0
    target = tmp_path / "files"
    today = f"{datetime.now(UTC):%Y-%m-%d}"

    first = server.duly("export", "--parquet", str(target), "--since", "1d")
    written = (target / f"day={today}" / "executions.parquet").stat().st_mtime_ns
    again = server.duly("export", "--parquet", str(target), "--since", "1d")
    kept = (target / f"day={today}" / "executions.parquet").stat().st_mtime_ns
    assert server.duly("run", "broken", "--wait").code == 0
    more = server.duly("export", "--parquet", str(target), "--since", "1d")
    asked = server.duly("analytics", "failures", "--parquet", str(target), "--json")

    assert first.code == again.code == more.code == 0, first.err
    assert "0 executions in 0 of" in again.err
    assert written == kept
    assert "0 executions" not in more.err
    failures = {row["job"]: row for row in json.loads(asked.out)}
    assert failures["broken"]["cause"] == "ValueError"
    assert failures["broken"]["dead"] >= 2
    assert failures["broken"]["example"] == "no such table: orders"
    days = json.loads((target / "export.json").read_text())
    assert (days["tenant"], list(days["days"])[-1]) == ("default", today)


def test_questions_are_listed_and_mistakes_are_explained(server: Running, tmp_path: Path) -> None:
    listed = server.duly("analytics", "-o", "name")
    nowhere = server.duly("analytics", "waits")
    empty = server.duly("analytics", "waits", "--parquet", str(tmp_path))
    unknown = server.duly("analytics", "weather", "--parquet", str(tmp_path))
    backwards = server.duly("export", "--parquet", str(tmp_path), "--since", "1d", "--until", "2d")
    (tmp_path / "export.json").write_text("[]")
    foreign = server.duly("export", "--parquet", str(tmp_path))

    assert listed.out.split() == ["throughput", "lateness", "slowest", "failures", "retries", "tenants", "waits"]
    for answer, code in [(nowhere, "E604"), (empty, "E632"), (unknown, "E631"), (backwards, "E106"), (foreign, "E604")]:
        assert answer.code != 0
        assert f"DULY-{code}" in answer.err


def test_files_of_one_tenant_are_not_mixed_with_another_s(server: Running, tmp_path: Path) -> None:
    (tmp_path / "export.json").write_text('{"tenant": "somebody-else", "days": {}}')
    assert server.duly("run", "broken", "--wait").code == 0

    refused = server.duly("export", "--parquet", str(tmp_path), "--since", "1d")

    assert refused.code != 0
    assert "somebody-else" in refused.err
    assert list(tmp_path.rglob("*.parquet")) == []
    assert list(tmp_path.rglob("*.jsonl")) == []
