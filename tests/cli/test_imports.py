"""Import, plan and apply, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duly.cli import definitions
from duly.cli.main import main
from duly.domain.errors import Invalid
from duly.sdk import calls
from duly.sdk.client import Client
from tests.cli.processes import Running

SAMPLES = Path(__file__).parents[1] / "imports" / "samples"
CRONTAB = "30 2 * * * /usr/local/bin/imp-backup --full\n*/15 * * * * imp-poll > /dev/null\n@reboot imp-start\n"
JOBS = """
[[jobs]]
name = "toml-backup"
cron = "30 2 * * *"
tz = "Europe/Berlin"
shell = ["pg_dump", "-Fc", "shop"]
timeout = "1h"
retry = 5
jitter = "2m"
catch_up = { policy = "all", max_count = 3 }

[[jobs]]
name = "toml-hook"
every = "15m"
http = { url = "https://example.com/hook", headers = { x_keep_me = "as it is" } }
payload = { snake_key = 1 }
paused = true
"""


def test_a_preview_needs_no_server_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DULY_HOME", str(tmp_path / "home"))
    file = tmp_path / "crontab"
    file.write_text(CRONTAB, encoding="utf-8")

    assert main(["import", "crontab", str(file), "--tz", "Europe/Berlin", "--days", "30", "--json"]) == 0

    rows = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["verdict"]) for row in rows] == [("imp-backup", "converts"), ("imp-poll", "decide"), ("imp-start", "cannot")]
    assert (rows[0]["same_fires"], rows[0]["only_old"], rows[0]["only_new"]) == (30, [], [])
    assert main(["import", "crontab", str(file), "-o", "table", "--days", "3"]) == 0
    shown = capsys.readouterr()
    assert "? imp-poll  line 2: */15 * * * * imp-poll > /dev/null" in shown.out
    assert "decide [shell]" in shown.out
    assert "1 converts, 1 needs a decision, 1 cannot. Nothing was changed" in shown.err
    assert not (tmp_path / "home").exists()


def test_what_holds_for_every_entry_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "crontab"
    file.write_text("MAILTO=ops@example.com\n" + "".join(f"{hour} 3 * * * imp-{hour}\n" for hour in range(4)), encoding="utf-8")

    assert main(["import", "crontab", str(file), "-o", "table", "--days", "3"]) == 0

    shown = capsys.readouterr()
    assert shown.out.count("MAILTO") == shown.out.count("Runs may overlap") == 1
    assert "All of them:" in shown.out
    assert "4 convert, 0 need a decision, 0 cannot" in shown.err


@pytest.mark.parametrize(
    ("kind", "file", "count"),
    [
        ("systemd", "systemd", 6),
        ("celery", "celeryconfig.py", 10),
        ("apscheduler", "apscheduler_jobs.py", 13),
        ("github", "workflow.yml", 3),
        ("kubernetes", "cronjobs.yaml", 5),
    ],
)
def test_every_kind_has_its_preview(kind: str, file: str, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", kind, str(SAMPLES / file), "--days", "3", "-o", "name"]) == 0
    assert len(capsys.readouterr().out.split()) == count


@pytest.mark.parametrize(
    ("kind", "text", "sought"),
    [
        ("crontab", "", "no line with a time and a command"),
        ("crontab", "# nothing yet\nMAILTO=me\n", "no line with a time"),
        ("celery", "scheduler.add_job(f, 'cron', hour=3)\n", "no beat_schedule"),
        ("apscheduler", "beat_schedule = {}\n", "no add_job"),
        ("kubernetes", '{"kind": "ConfigMap"}', "no document of kind CronJob"),
    ],
)
@pytest.mark.parametrize("words", [[], ["--apply"], ["-o", "FILE"], ["--json"]])
def test_an_import_that_finds_nothing_says_so(
    kind: str, text: str, sought: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DULY_HOME", str(tmp_path / "home"))
    file, written = tmp_path / "source", tmp_path / "jobs.toml"
    file.write_text(text, encoding="utf-8")

    code = main(["import", kind, str(file), *(str(written) if word == "FILE" else word for word in words)])

    shown = capsys.readouterr()
    assert code == 1
    assert f"Nothing to import in {file}: {sought}" in shown.err
    assert not written.exists()
    assert shown.out.splitlines()[1:] == []
    assert shown.out.strip() in ("[]" if words == ["--json"] else "", "verdict\tname\twords\twhy\tsame\tdiffer")


def test_a_name_that_the_source_has_not_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "crontab"
    file.write_text(CRONTAB, encoding="utf-8")

    assert main(["import", "crontab", str(file), "--only", "imp-bakup", "-o", "table"]) == 1
    assert "Nothing is called imp-bakup: there are imp-backup, imp-poll, imp-start." in capsys.readouterr().err


def test_a_crontab_becomes_jobs_once_however_often_it_is_applied(server: Running, tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_text(CRONTAB, encoding="utf-8")
    words = ("import", "crontab", str(file), "--tz", "Europe/Berlin", "--days", "2", "--apply")

    first = server.duly(*words)
    again = server.duly(*words, "--allow-shell")

    assert first.code == 9, "partly: two are not imported, and standard error says why"
    assert "not imported: imp-poll (line 2): [shell]" in first.err
    assert "@reboot" in first.err
    assert [row[:2] for row in first.rows] == [["imp-backup", "created"]]
    assert [row[:2] for row in again.rows] == [["imp-backup", "unchanged"], ["imp-poll", "created"]]
    job = json.loads(server.duly("job", "show", "imp-backup", "--json").out)
    assert (job["schedule"], job["timezone"], job["catchUp"]["policy"]) == ("30 2 * * *", "Europe/Berlin", "none")


def test_an_import_written_as_toml_is_what_apply_reads(server: Running, tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    words = ("import", "kubernetes", str(SAMPLES / "cronjobs.yaml"), "--accept", "all", "--days", "2", "--prefix", "k8s/")

    answer = server.duly(*words, "-o", str(file))

    assert answer.code == 9
    assert "2 containers" in answer.err
    planned = server.duly("plan", str(file), "--exit-status")
    assert planned.code == 1
    assert {row[1] for row in planned.rows} == {"created"}
    assert server.duly("apply", str(file)).code == 0
    assert server.duly("plan", str(file), "--exit-status").code == 0
    odd = json.loads(server.duly("job", "show", "k8s/odd-days", "--json").out)
    assert (odd["state"], odd["overlap"]) == ("PAUSED", "kill_previous")


def test_a_plan_names_each_field_and_apply_never_resumes(server: Running, tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text(JOBS, encoding="utf-8")
    assert {row[1] for row in server.duly("apply", str(file)).rows} == {"created"}
    hook = json.loads(server.duly("job", "show", "toml-hook", "--json").out)
    assert hook["state"] == "PAUSED"
    assert hook["target"]["http"]["headers"] == {"x_keep_me": "as it is"}
    assert hook["payload"] == {"snake_key": 1}
    assert server.duly("pause", "toml-backup").code == 0

    file.write_text(JOBS.replace('"1h"', '"2h"').replace("retry = 5\n", "").replace("paused = true\n", ""), encoding="utf-8")
    planned = json.loads(server.duly("plan", str(file), "--json").out)
    applied = server.duly("apply", str(file))

    changed = {row["name"]: {one["field"]: (one["before"], one["after"]) for one in row["changes"]} for row in planned}
    assert changed["toml-backup"]["timeoutSec"] == (3600, 7200)
    assert changed["toml-backup"]["retryPolicy"][1]["maxAttempts"] == 3, "what is taken out of the file has its default again"
    assert set(changed["toml-backup"]) == {"timeoutSec", "retryPolicy"}
    assert applied.code == 0
    assert sorted(server.duly("job", "list", "--search", "toml-", "--state", "paused", "-o", "name").out.split()) == [
        "toml-backup",
        "toml-hook",
    ]


def test_jobs_that_no_file_names_are_archived_only_when_asked(server: Running, tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text(JOBS.replace("toml-", "kept-"), encoding="utf-8")
    server.duly("job", "create", "--name", "left-over", "--handler", "duly.echo")

    planned, refused = (server.duly(verb, str(file), "--archive-missing") for verb in ("plan", "apply"))

    assert ["left-over", "archived"] in [row[:2] for row in planned.rows]
    assert not any(row[0] in ("nightly_report", "broken") for row in planned.rows), "what an application declares is not the file's to end"
    assert (refused.code, refused.out) == (5, ""), "nobody was there to be asked"
    assert "--yes" in refused.err
    assert json.loads(server.duly("job", "show", "left-over", "--json").out)["state"] == "ACTIVE"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[jobs]]\nname = 'a'\nhandler = 'x'\ntimout = '1h'\n", "Did you mean timeout"),
        ("[[jobs]]\nname = 'a'\nhandler = 'x'\ntimeout = 'soon'\n", "timeout"),
        ("[[jobs]]\nname = 'a'\nhandler = 'x'\n[jobs.target]\nhandler = 'y'\n", "stands beside target"),
        ("[[jobs]]\nname = 'a'\nhandler = 'x'\n[[job]]\nname = 'a'\nhandler = 'x'\n", "twice"),
        ("jobs = 3\n", "[[jobs]]"),
    ],
)
def test_a_definition_that_is_wrong_is_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text(text, encoding="utf-8")

    with pytest.raises(Invalid) as raised:
        definitions.read(tmp_path / "jobs.toml")

    assert message in f"{raised.value.message} {raised.value.hint}"


TWENTY = """\
# m h dom mon dow command: what a machine of some years has
SHELL=/bin/sh
CRON_TZ=Europe/Berlin
* * * * * tw-beat
*/5 * * * * tw-poll
7 * * * * tw-hourly
30 2 * * * tw-backup --full
0 3 * * 0 tw-weekly
15 4 1 * * tw-monthly
0 9-17 * * 1-5 tw-office
0 0 1 1 * tw-yearly
@daily tw-daily
@hourly tw-clean
45 23 * * 1-5 tw-close
0 6,18 * * * tw-twice
10 1 * 1-6 * tw-half
20 5 */2 * * tw-odd-days
0 12 * * mon,wed tw-noon
5 0 * dec * tw-advent
50 7 * * 6 tw-saturday
0 22 28 * * tw-late
35 3 * * * tw-vacuum
40 3 * * * tw-report
"""


def test_a_crontab_of_twenty_lines_is_previewed_imported_and_runs(server: Running, tmp_path: Path) -> None:
    file, directory = tmp_path / "crontab", tmp_path / "bin"
    directory.mkdir()
    beat = directory / "tw-beat"
    beat.write_text("#!/bin/sh\necho beaten\n")
    beat.chmod(0o755)
    file.write_text(TWENTY.replace("tw-beat", str(beat)), encoding="utf-8")

    previewed = server.duly("import", "crontab", str(file), "--tz", "Europe/Berlin", "--days", "400", "--json")
    rows = json.loads(previewed.out)
    assert len(rows) == 20
    assert {row["verdict"] for row in rows} == {"converts"}, [row for row in rows if row["verdict"] != "converts"]
    assert [(row["name"], row["only_old"], row["only_new"]) for row in rows if row["only_old"] or row["only_new"]] == []
    assert server.duly("job", "show", "tw-backup").code == 3, "a preview makes nothing"

    applied = server.duly("import", "crontab", str(file), "--tz", "Europe/Berlin", "--days", "1", "--apply")
    assert applied.code == 0, applied.err
    assert [row[1] for row in applied.rows] == ["created"] * 20
    waiting = {job["name"]: job for job in json.loads(server.duly("schedule", "list", "--json").out)}
    assert all(waiting[row["name"]]["nextFireAt"] for row in rows)
    ran = json.loads(server.duly("run", "tw-beat", "--exit-status", "--json").out)
    assert (ran["state"], ran["result"]["exitCode"]) == ("SUCCEEDED", 0)
    with Client(server.url, (server.home / "admin.key").read_text().strip()) as client:
        for row in rows:
            client.send(calls.cancel_job(waiting[row["name"]]["jobId"]))
