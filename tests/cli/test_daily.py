"""The verbs of every day against a real server: jobs, runs, ps, next, logs."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from duly.domain.instants import from_rfc3339
from tests.cli.processes import DULY, Running, duly, environment
from tests.package.starting import processor_seconds


def created(server: Running, *words: str) -> dict[str, object]:
    answer = server.duly("job", "create", *words, "--json")
    assert answer.code == 0, answer.err
    job: dict[str, object] = json.loads(answer.out)
    return job


# ---------------------------------------------------------------- jobs


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--handler", "duly.echo"),
            {"type": "CRON", "words": "Every day at 02:30 Berlin time"},
        ),
        (("--every", "15m", "--handler", "duly.echo"), {"type": "INTERVAL", "intervalSec": 900.0}),
        (("--at", "2030-01-01T09:00:00+01:00", "--handler", "duly.echo"), {"type": "ONE_TIME", "runAt": "2030-01-01T08:00:00Z"}),
        (("--in", "1h", "--handler", "duly.echo"), {"type": "DELAYED"}),
        (("--handler", "duly.echo", "--payload", '{"n": 1}', "--timeout", "90s"), {"payload": {"n": 1}, "timeoutSec": 90.0}),
        (
            ("--handler", "duly.echo", "--retry", "9", "--overlap", "allow", "--description", "tries"),
            {"overlap": "allow", "description": "tries"},
        ),
    ],
)
def test_a_job_can_be_created_from_flags(
    server: Running, words: tuple[str, ...], expected: dict[str, object], request: pytest.FixtureRequest
) -> None:
    job = created(server, "--name", f"flags-{abs(hash(request.node.name))}", *words)

    assert {key: job[key] for key in expected} == expected


def test_a_shell_job_takes_words_that_look_like_options(server: Running) -> None:
    created(server, "--name", "shell", "--shell", "echo", "--json", "--", "-n", "hello there")

    ran = server.duly("run", "shell", "--exit-status", "-o", "name")

    assert ran.code == 0
    assert "hello there" in server.duly("logs", "shell").out


def test_a_webhook_job(server: Running) -> None:
    job = created(server, "--name", "hook", "--url", "https://example.com/hook", "--method", "put", "--pool", "other")

    assert job["target"]["http"]["method"] == "PUT"  # type: ignore[index]
    assert job["target"]["pool"] == "other"  # type: ignore[index]


def test_a_job_from_a_file_and_flags_over_it(server: Running, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text('{"name": "from-file", "target": {"handler": "duly.echo", "pool": "a"}, "payload": {"n": 1}}')

    job = created(server, "--file", str(file), "--name", "from-file-and-flags", "--pool", "b", "--payload", "[2]")

    assert (job["name"], job["payload"]) == ("from-file-and-flags", [2])
    assert job["target"]["pool"] == "b"  # type: ignore[index]


def test_creating_says_what_is_wrong(server: Running) -> None:
    nothing = server.duly("job", "create", "--name", "nothing")
    cron = server.duly("job", "create", "--cron", "61 * * * *", "--handler", "duly.echo")
    both = server.duly("job", "create", "--cron", "0 3 * * *", "--every", "5m", "--handler", "duly.echo")
    created(server, "--name", "taken", "--handler", "duly.echo")
    taken = server.duly("job", "create", "--name", "taken", "--handler", "duly.echo")

    assert (nothing.code, cron.code, both.code, taken.code) == (2, 2, 2, 5)
    assert "Nothing says what to run" in nothing.err
    assert "DULY-E101" in cron.err
    assert "(request req_" in cron.err
    assert "not allowed with argument --cron" in both.err
    assert "DULY-E208" in taken.err


def test_a_job_is_paused_resumed_and_deleted(server: Running) -> None:
    job = created(server, "--name", "switched", "--handler", "duly.echo", "--cron", "0 3 * * *")

    paused = json.loads(server.duly("job", "pause", "switched", "-m", "db move", "--json").out)
    silent = server.duly("next", "switched")
    resumed = json.loads(server.duly("job", "resume", str(job["jobId"]), "--json").out)
    deleted = json.loads(server.duly("job", "delete", "switched", "--json").out)

    assert (paused["state"], paused["pauseReason"]) == ("PAUSED", "db move")
    assert "switched was paused" in silent.err
    assert ": db move. `duly job resume switched`" in silent.err
    assert resumed["state"] == "ACTIVE"
    assert deleted["state"] == "CANCELLED"
    assert "switched" not in server.duly("job", "list", "-o", "name").out
    assert "switched" in server.duly("job", "list", "--state", "cancelled", "-o", "name").out
    assert server.duly("run", "switched").code == 5


def test_a_name_that_is_nearly_right_is_suggested(server: Running) -> None:
    answer = server.duly("job", "show", "nightly-reprot")

    assert answer.code == 3
    assert answer.out == ""
    assert "✗ DULY-E204  There is no job 'nightly-reprot'." in answer.err
    # Other tests may have left jobs whose names are near as well; the nearest comes first.
    assert "Did you mean nightly_report" in answer.err


def test_show_tells_the_whole_story(server: Running) -> None:
    server.duly("run", "nightly_report", "--wait")

    answer = server.duly("job", "show", "nightly_report", "-o", "table")

    assert "schedule  Every day at 02:30 Berlin time   (30 2 * * *)" in answer.out
    assert "about     Builds the nightly report." in answer.out
    assert "source    code:shop" in answer.out
    assert "✓ succeeded" in answer.out


def test_a_list_as_tsv_json_jsonl_and_names(server: Running) -> None:
    created(server, "--name", "listed-one", "--handler", "duly.echo")
    created(server, "--name", "listed-two", "--handler", "duly.echo", "--cron", "0 3 * * *")
    words = ("job", "list", "--search", "listed-")

    tsv, names = server.duly(*words), server.duly(*words, "-o", "name")
    whole, lines = server.duly(*words, "--json"), server.duly(*words, "-o", "jsonl")

    assert tsv.out.splitlines()[0].split("\t") == ["state", "name", "schedule", "next", "runs", "pool", "id"]
    assert [row[1] for row in tsv.rows] == ["listed-two", "listed-one"]
    assert names.out == "listed-two\nlisted-one\n"
    assert json.loads(whole.out) == [json.loads(line) for line in lines.out.splitlines()]


# ---------------------------------------------------------------- runs


def test_run_takes_key_value_words_as_json_or_text(server: Running) -> None:
    created(server, "--name", "echo", "--handler", "duly.echo")

    answer = server.duly(
        "run", "echo", "--wait", "n=5", "who=eu", 'tags=["a"]', "none=null", "empty=", "--json", "--payload", '{"n": 1, "x": 2}'
    )

    assert json.loads(answer.out)["result"] == {"n": 5, "x": 2, "who": "eu", "tags": ["a"], "none": None, "empty": ""}


def test_run_reads_a_payload_from_a_file_or_standard_input(server: Running, tmp_path: Path) -> None:
    created(server, "--name", "echo-file", "--handler", "duly.echo", "--payload", '{"own": true}')
    (tmp_path / "payload.json").write_text("[1, 2]")

    own = server.duly("run", "echo-file", "--wait", "--json")
    file = server.duly("run", "echo-file", "--wait", "--json", "--payload", f"@{tmp_path / 'payload.json'}")
    piped = server.duly("run", "echo-file", "--wait", "--json", "--payload", "-", stdin='"text"')

    assert [json.loads(answer.out)["result"] for answer in (own, file, piped)] == [{"own": True}, [1, 2], "text"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--payload", "{oops"), "DULY-E107  --payload: is not JSON: "),
        (("--payload", "@nowhere.json"), "nowhere.json cannot be read: No such file or directory"),
        (("region",), "'region' is not key=value"),
        (("--payload", "[1]", "n=1"), "key=value goes with an object only"),
        (("--in", "soon"), "DULY-E104  --in: 'soon' is not a duration"),
    ],
)
def test_run_refuses_what_it_cannot_read(server: Running, words: tuple[str, ...], said: str) -> None:
    answer = server.duly("run", "nightly_report", *words)

    assert answer.code == 2
    assert said in answer.err


def test_run_without_waiting_prints_the_id(server: Running) -> None:
    answer = server.duly("run", "nightly_report", "-o", "name")

    assert answer.code == 0
    assert answer.out.startswith("run_")
    assert server.duly("run", "show", answer.out.strip()).code == 0


def test_exit_status_says_whether_it_succeeded(server: Running) -> None:
    good = server.duly("run", "nightly_report", "--exit-status")
    bad = server.duly("run", "broken", "--exit-status", "-o", "table")
    unasked = server.duly("run", "broken", "--wait")

    assert (good.code, bad.code, unasked.code) == (0, 8, 0)
    assert "state     ✗ dead" in bad.out
    assert "error     ValueError: no such table: orders" in bad.out


def test_waiting_too_long_ends_with_7_and_the_run_goes_on(server: Running) -> None:
    created(server, "--name", "long", "--handler", "duly.sleep", "--payload", '{"seconds": 600}')

    answer = server.duly("run", "long", "--wait", "--timeout", "300ms", "-o", "name")

    run = answer.out.strip()
    assert answer.code == 7
    assert f"it goes on: duly run show {run}" in answer.err
    cancelled = server.duly("run", "cancel", run)
    assert cancelled.code == 0
    assert "⊘ cancelled" in server.duly("logs", "-f", run).err
    succeeded = server.duly("run", "nightly_report", "--wait", "-o", "name").out.strip()
    assert server.duly("run", "cancel", succeeded).code == 5


def test_a_run_that_nobody_can_run_is_pointed_out(server: Running) -> None:
    created(server, "--name", "homeless", "--handler", "nobody_has_it")

    answer = server.duly("run", "homeless", "--wait", "--timeout", "4s")

    assert answer.code == 7
    assert "! No live worker of pool default offers nobody_has_it." in answer.err


def test_a_run_in_the_future_waits_and_is_cancelled(server: Running) -> None:
    later = json.loads(server.duly("run", "nightly_report", "--in", "1h", "--json").out)

    cancelled = json.loads(server.duly("run", "cancel", later["executionId"], "--json").out)

    assert later["state"] == "SCHEDULED"
    assert cancelled["state"] == "CANCELLED"


def test_runs_are_found_by_what_they_are(server: Running) -> None:
    created(server, "--name", "searched", "--handler", "duly.echo")
    run = server.duly("run", "searched", "customer=42", "--wait", "-o", "name").out.strip()
    server.duly("run", "searched", "customer=43", "--wait")

    for words in (
        ("--payload", "customer=42"),
        (
            "--payload",
            "customer=42",
            "--outcome",
            "succeeded",
            "--trigger",
            "manual",
            "--pool",
            "default",
            "--since",
            "2020-01-01T00:00:00Z",
        ),
    ):
        assert server.duly("run", "list", "--job", "searched", *words, "-o", "name").out.split() == [run], words
    nothing = server.duly("run", "list", "--payload", "customer=44")
    assert (nothing.code, "No run is like that." in nothing.err) == (0, True)
    malformed = server.duly("run", "list", "--payload", "customer")
    assert (malformed.code != 0, "PATH=VALUE" in malformed.err) == (True, True)
    assert server.duly("job", "list", "--type", "on_demand", "--search", "searched", "-o", "name").out == "searched\n"


def test_runs_are_listed_shown_and_replayed(server: Running) -> None:
    created(server, "--name", "again", "--handler", "duly.echo")
    first = json.loads(server.duly("run", "again", "n=1", "--wait", "--json").out)

    second = json.loads(server.duly("run", "replay", first["executionId"], "--wait", "--json").out)
    third = json.loads(server.duly("run", "replay", first["executionId"], "n=3", "--wait", "--json").out)
    listed = server.duly("run", "list", "--job", "again", "-o", "name").out.split()
    attempts = server.duly("run", "attempts", third["executionId"])

    assert (second["result"], third["result"]) == ({"n": 1}, {"n": 3})
    assert listed == [third["executionId"], second["executionId"], first["executionId"]]
    assert attempts.rows[0][:2] == ["1", "SUCCEEDED"]
    assert server.duly("run", "list", "--job", "again", "--state", "dead").err == "No runs of again are dead. `duly run JOB` starts one.\n"


@pytest.mark.parametrize("verb", ["show", "attempts", "cancel", "replay", "logs"])
def test_a_run_that_is_not_there(server: Running, verb: str) -> None:
    answer = server.duly("run", verb, "run_" + "0" * 32)

    assert answer.code == 3
    assert "DULY-E205" in answer.err
    assert "(request req_" in answer.err


def test_a_job_named_like_a_verb_is_run_through_the_noun(server: Running) -> None:
    created(server, "--name", "list", "--handler", "duly.echo")

    assert json.loads(server.duly("job", "run", "list", "--wait", "--json").out)["state"] == "SUCCEEDED"


# ---------------------------------------------------------------- ps, next, logs


def test_ps_takes_its_budget_of_processor_time_and_no_more(server: Running) -> None:
    """A quarter of a second, or on a slow machine as many times the start of Python as that is on a quick one."""
    empty = processor_seconds("-c", "")

    assert processor_seconds(*DULY[1:], "ps", environment=server.client_environment) < max(0.250, 17 * empty)


def test_ps_shows_what_runs_and_what_waits(server: Running) -> None:
    created(server, "--name", "busy", "--handler", "duly.sleep", "--payload", '{"seconds": 600}')
    created(server, "--name", "stuck", "--handler", "nobody_has_this")
    running = server.duly("run", "busy", "-o", "name").out.strip()
    waiting = server.duly("run", "stuck", "-o", "name").out.strip()
    while json.loads(server.duly("run", "show", running, "--json").out)["state"] != "RUNNING":
        pass

    answer = server.duly("ps", "-o", "table")

    states = {line.split()[-1]: " ".join(line.split()[:2]) for line in answer.out.splitlines()}
    assert states[running] == "▶ running"
    assert states[waiting] == "○ pending"
    assert "running" in answer.err
    server.duly("run", "cancel", running)
    server.duly("run", "cancel", waiting)


def test_next_merges_the_fires_of_all_jobs_in_order(server: Running) -> None:
    created(server, "--name", "hourly", "--handler", "duly.echo", "--cron", "@hourly")

    # Other jobs of this server may fire every few minutes: far enough ahead, the hourly one comes up all the same.
    rows = server.duly("next", "-n", "500").rows
    berlin = server.duly("next", "nightly_report", "-n", "2", "--tz", "Europe/Berlin").rows

    assert [row[0] for row in rows] == sorted((row[0] for row in rows), key=from_rfc3339)
    assert sum(row[2] == "hourly" for row in rows) >= 3
    assert all(" 02:30:00 +0" in row[1] for row in berlin)


def test_next_agrees_with_what_the_server_waits_for(server: Running) -> None:
    created(server, "--name", "hashed", "--handler", "duly.echo", "--cron", "H H * * *", "--tz", "Asia/Kolkata")

    fires = json.loads(server.duly("next", "hashed", "-n", "5", "--json").out)

    assert [fire["at"] for fire in fires] == json.loads(server.duly("job", "show", "hashed", "--json").out)["nextFires"]


def test_next_of_a_job_without_a_schedule_says_so(server: Running) -> None:
    answer = server.duly("next", "stubborn")

    assert answer.code == 0
    assert "stubborn has no schedule; it runs when it is asked to: duly run stubborn" in answer.err


def test_logs_of_the_latest_run_of_a_job(server: Running) -> None:
    server.duly("run", "nightly_report", "region=us", "--wait")

    plain = server.duly("logs", "nightly_report")
    lines = server.duly("logs", "nightly_report", "-o", "jsonl", "-q")

    assert plain.out.rstrip().endswith("info    building region=us")
    assert json.loads(lines.out)["fields"] == {"region": "us"}
    assert lines.err == ""


def test_logs_are_followed_to_the_end(server: Running) -> None:
    created(server, "--name", "counting", "--shell", "sh", "--json", "--", "-c", "for n in 1 2 3; do echo line $n; sleep 0.2; done")
    run = server.duly("run", "counting", "-o", "name").out.strip()

    answer = server.duly("logs", "-f", run)

    assert [line.split(maxsplit=2)[2] for line in answer.out.splitlines()] == ["line 1", "line 2", "line 3"]
    assert answer.err == "✓ succeeded\n"


def test_logs_of_a_job_that_has_not_run(server: Running) -> None:
    created(server, "--name", "fresh", "--handler", "duly.echo")

    answer = server.duly("logs", "fresh")

    assert answer.code == 3
    assert "fresh has not run yet." in answer.err


# ---------------------------------------------------------------- the way there


def test_without_a_server_the_exit_code_is_6(server: Running) -> None:
    answer = duly("ps", "--server", "http://127.0.0.1:1", env=server.client_environment)

    assert answer.code == 6
    assert "✗ DULY-E603  No Duly server answers at http://127.0.0.1:1: connection refused." in answer.err
    assert "duly up" in answer.err


def test_with_a_wrong_key_the_exit_code_is_4(server: Running) -> None:
    answer = duly("ps", env={**server.client_environment, "DULY_KEY": "duly_of_somebody_else"})

    assert answer.code == 4
    assert "DULY-E302" in answer.err
    assert "somebody_else" not in answer.err


def test_without_a_key_it_says_where_one_is_kept(server: Running, tmp_path: Path) -> None:
    answer = duly("ps", env=environment(tmp_path, DULY_URL=server.url))

    assert answer.code == 4
    assert "There is no key to use." in answer.err
    assert "admin.key" in answer.err


def test_a_terminal_gets_a_coloured_table_and_no_color_is_honoured(server: Running) -> None:
    words = ("job", "list", "--search", "nightly")

    coloured = on_a_terminal(*words, env={**server.client_environment, "TERM": "xterm"})
    plain = on_a_terminal(*words, env={**server.client_environment, "TERM": "xterm", "NO_COLOR": "1"})
    unasked = on_a_terminal(*words, "--no-color", env={**server.client_environment, "TERM": "xterm"})

    assert "\x1b[32m● active" in coloured
    assert "STATE" in plain
    assert "● active" in plain
    assert "\x1b[" not in plain + unasked


def on_a_terminal(*words: str, env: dict[str, str]) -> str:
    """What a command prints when its output is a terminal."""
    outside, inside = pty.openpty()
    with subprocess.Popen([*DULY, *words], env=env, stdin=subprocess.DEVNULL, stdout=inside, stderr=subprocess.DEVNULL) as process:
        os.close(inside)
        printed = b""
        while True:
            try:
                piece = os.read(outside, 65_536)
            except OSError:  # Linux says so when the other side is closed
                break
            if not piece:
                break
            printed += piece
        assert process.wait(timeout=60) == 0
    os.close(outside)
    return printed.decode()


def test_what_a_reader_does_not_want_is_not_an_error(server: Running) -> None:
    command = [*DULY, "next", "-n", "20000"]
    with subprocess.Popen(command, env=server.client_environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()

        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == ""


def test_a_run_that_no_worker_can_take_says_so_wherever_one_looks(server: Running) -> None:
    reason = "No live worker of pool default offers nightly_reprot. Did you mean nightly_report?"
    made = server.duly("job", "create", "--name", "misspelled", "--handler", "nightly_reprot", "--json")
    run = server.duly("run", "misspelled", "--json")
    shown = server.duly("run", "show", json.loads(run.out)["executionId"], "--json")

    assert [reason in answer.err for answer in (made, run, shown)] == [True, True, True]
    assert json.loads(shown.out)["state"] == "PENDING"
    server.duly("run", "cancel", json.loads(run.out)["executionId"])
    server.duly("job", "delete", "misspelled", "--yes")
