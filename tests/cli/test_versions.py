"""Jobs as text and over time, runs beside each other, and where to look."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest

from duly.cli.versions import _masked
from duly.dashboard.pages import ROUTES
from duly.domain.secrets import MASK
from tests.cli.processes import Running, duly

JOBS = """
[[jobs]]
name = "exported-cron"
cron = "30 2 * * 1-5"
tz = "Europe/Berlin"
handler = "duly.echo"
retry = 5
timeout = "10m"
overlap = "queue_one"
description = "Says \\"hello\\" on workdays."
payload = { region = "eu", rows = [1, 2, { deep = true }] }

[[jobs]]
name = "exported-rule"
rrule = "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9;BYMINUTE=0;BYSECOND=0"
http = { url = "https://example.com/hook", method = "PUT" }
rate_limit = { count = 10, per_sec = 60 }

[[jobs]]
name = "exported-interval"
every = "15m"
shell = ["echo", "--", "a b"]
pool = "default"
paused = true

[[jobs]]
name = "exported-by-hand"
handler = "duly.echo"
unique = { key = "id" }
"""


@pytest.fixture(scope="module")
def jobs(server: Running, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    file = tmp_path_factory.mktemp("export") / "jobs.toml"
    file.write_text(JOBS)
    applied = server.duly("apply", str(file))
    assert applied.code == 0, applied.err
    return ["exported-cron", "exported-rule", "exported-interval", "exported-by-hand"]


def test_what_is_exported_is_what_apply_would_leave_alone(server: Running, jobs: list[str], tmp_path: Path) -> None:
    exported = server.duly("job", "export", *jobs)
    (tmp_path / "jobs.toml").write_text(exported.out)

    planned = server.duly("plan", str(tmp_path / "jobs.toml"), "--json")

    assert exported.code == 0, exported.err
    assert {row["name"]: row["was"] for row in json.loads(planned.out)} == dict.fromkeys(jobs, "unchanged")
    assert "max_queued" not in exported.out, "what is as it would be anyway is not written"
    everything = server.duly("job", "export", "--json")
    assert set(jobs) <= {body["name"] for body in json.loads(everything.out)}


def test_a_null_that_toml_cannot_say_is_not_lost(server: Running) -> None:
    server.duly("job", "create", "--name", "with-null", "--handler", "duly.echo", "--payload", '{"a": null}')

    refused, exported = server.duly("job", "export", "with-null"), server.duly("job", "export", "with-null", "--json")

    assert refused.code == 2
    assert "has a null" in refused.err
    assert json.loads(exported.out)[0]["payload"] == {"a": None}
    server.duly("job", "delete", "with-null")


def test_a_masked_secret_is_never_sent_back_as_if_it_were_one(server: Running, tmp_path: Path) -> None:
    assert _masked({"a": [{"token": {"$secret": MASK}}]})
    assert not _masked({"a": [{"token": {"$secret": "env:DULY_SECRET_TOKEN"}}], "b": MASK})

    file = tmp_path / "jobs.toml"
    file.write_text(f'[[jobs]]\nname = "with-mask"\nhandler = "duly.echo"\npayload = {{ token = {{ "$secret" = "{MASK}" }} }}\n')

    assert server.duly("apply", str(file)).code == 2


def editor(directory: Path, script: str) -> str:
    file = directory / "editor"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def test_a_job_is_edited_and_its_history_says_what_changed(server: Running, jobs: list[str], tmp_path: Path) -> None:
    change = editor(tmp_path, "sed -i 's/30 2/45 3/' \"$1\"")
    env = {**server.client_environment, "EDITOR": change}

    withheld = duly("job", "edit", "exported-cron", "--dry-run", env=env)
    before = server.duly("job", "history", "exported-cron", "--json")
    edited = duly("job", "edit", "exported-cron", env=env)
    untouched = duly("job", "edit", "exported-cron", env={**env, "EDITOR": "true"})

    assert withheld.out.splitlines()[-1].startswith("PUT /v1/jobs/"), withheld
    assert len(json.loads(before.out)) == 1
    assert edited.code == 0, edited.err
    assert "Nothing was changed." in untouched.err
    newest, first = json.loads(server.duly("job", "history", "exported-cron", "--json").out)
    assert (newest["version"], first["changes"]) == (2, [])
    assert newest["changes"] == [{"field": "schedule", "before": "30 2 * * 1-5", "after": "45 3 * * 1-5"}]
    assert server.duly("job", "diff", "exported-cron").rows == [["schedule", '"30 2 * * 1-5"', '"45 3 * * 1-5"']]
    assert server.duly("job", "diff", "exported-cron", "1", "1").rows == []
    assert server.duly("job", "diff", "exported-cron", "7").code == 3


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("exit 3", "ended with 3"),
        ("echo 'nonsense = [' > \"$1\"", "cannot be read"),
        ("sed -i 's/exported-cron/another-name/' \"$1\"", "keeps its name"),
        ('cat "$1" | sed \'s/exported-cron/second/\' > "$1.x"; cat "$1.x" >> "$1"', "several were written"),
    ],
)
def test_an_edit_that_went_wrong_sends_nothing(server: Running, jobs: list[str], tmp_path: Path, script: str, told: str) -> None:
    before = server.duly("job", "history", "exported-cron", "-o", "name").out
    answer = duly("job", "edit", "exported-cron", env={**server.client_environment, "EDITOR": editor(tmp_path, script)})

    assert answer.code != 0
    assert told in answer.err
    assert server.duly("job", "history", "exported-cron", "-o", "name").out == before


def test_two_runs_stand_beside_each_other_where_they_differ(server: Running) -> None:
    first, second = (
        json.loads(server.duly("run", "nightly_report", f"region={region}", "--wait", "--json").out)["executionId"]
        for region in ("eu", "us")
    )

    found = {row[0]: row[1:] for row in server.duly("run", "compare", first, second).rows}
    itself = server.duly("run", "compare", first, first)
    before = server.duly("run", "compare", second)

    assert found["payload"] == ['{"region":"eu"}', '{"region":"us"}']
    assert "job" not in found
    assert "state" not in found
    assert itself.rows == []
    assert ["run", second, first] in before.rows


def test_who_serves_what_is_listed(server: Running) -> None:
    pools, workers = json.loads(server.duly("pool", "list", "--json").out), json.loads(server.duly("worker", "list", "--json").out)

    assert [pool["pool"] for pool in pools] == ["default"]
    assert [worker["state"] for worker in workers] == ["LIVE"]
    assert server.duly("worker", "list", "--pool", "nowhere").rows == []


def test_the_address_of_a_run_and_of_a_job_is_that_of_a_page(server: Running) -> None:
    run = json.loads(server.duly("run", "nightly_report", "--wait", "--json").out)["executionId"]

    paths = {re.sub(r"{\w+}", "{}", route.path) for route in ROUTES}

    for words, path in (((), "/"), ((run,), f"/executions/{run}"), (("nightly_report",), "/jobs/job_")):
        url = server.duly("open", *words, "-o", "name").out.strip()
        assert url.startswith(server.url + path)
        assert re.sub(r"(job|run)_\w+", "{}", url.removeprefix(server.url)) in paths
    assert server.duly("open", "nightly_reprot").code == 3


def test_a_dead_run_is_retried_by_the_short_verb(server: Running) -> None:
    dead = json.loads(server.duly("run", "broken", "--wait", "--json").out)["executionId"]

    again = json.loads(server.duly("retry", dead, "--json").out)

    assert again["executionId"] != dead


def test_the_grid_shows_runs_side_by_side(server: Running, jobs: list[str]) -> None:
    before = server.duly("job", "grid", "exported-by-hand")
    assert (before.code, "None of the newest runs of exported-by-hand has begun." in before.err) == (0, True)
    for nth in range(3):
        assert server.duly("job", "run", "exported-by-hand", "--payload", json.dumps({"id": nth}), "--wait").code == 0

    shown = server.duly("job", "grid", "exported-by-hand", "-o", "table")
    assert shown.code == 0, shown.err
    assert re.search(r"attempt 1 +3 +0 +✓✓✓", shown.out)
    assert re.search(r"took +3 +0 +[▁-█]{3}", shown.out)
    assert "3 runs, oldest on the left" in shown.err
    told = json.loads(server.duly("job", "grid", "exported-by-hand", "--runs", "2", "--json").out)
    assert [run["cells"] for run in told["runs"]] == ["S", "S"]
    assert server.duly("job", "grid", "exported-by-hand", "--runs", "501").code == 2
    assert server.duly("job", "grid", "no-such-job").code == 3
