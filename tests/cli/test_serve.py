"""`duly up`, `server` and `worker` as real processes: what they print, how they stop, what survives."""

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.processes import Running, duly, environment

Start = Callable[..., Running]


def test_up_says_what_it_did_and_keeps_the_key_for_its_owner_only(start: Start, tmp_path: Path) -> None:
    home = tmp_path / "home"

    running = start("up", "--port", "0", home=home, cwd=tmp_path).ready()

    key = (home / "admin.key").read_text().strip()
    assert "store    created home/duly.db (SQLite" in running.printed
    assert f"key      {key}" in running.printed
    assert "shown this once; kept in home/admin.key" in running.printed
    assert "roles    api, dispatcher, sweeper, pruner, alerter, worker" in running.printed
    assert "50 slots in pool default" in running.printed
    assert stat.S_IMODE((home / "admin.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((home / "duly.db").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_the_printed_curl_line_runs_something(start: Start, tmp_path: Path) -> None:
    running = start("up", "--port", "0", home=tmp_path / "home", cwd=tmp_path).ready()
    first = next(nth for nth, line in enumerate(running.lines) if "curl" in line)
    request = " ".join(line.rstrip("\\") for line in running.lines[first : first + 2])
    key = (tmp_path / "home" / "admin.key").read_text().strip()
    words = shlex.split(request.replace("$(cat home/admin.key)", key))

    created = json.loads(subprocess.run([*words, "--silent"], capture_output=True, text=True, check=True).stdout)

    answer = running.duly("run", "list", "--job", created["jobId"], "-o", "name")
    waited = running.duly("logs", "-f", answer.out.strip() or created["jobId"])
    assert waited.code == 0
    (execution,) = json.loads(running.duly("run", "list", "--job", created["jobId"], "--json").out)
    assert execution["state"] == "SUCCEEDED"
    assert execution["result"] == {"hello": "world"}


def test_sigterm_drains_and_ends_with_zero(start: Start, tmp_path: Path) -> None:
    running = start("up", "--port", "0", home=tmp_path / "home").ready()
    running.duly("job", "create", "--name", "nap", "--handler", "duly.sleep", "--payload", '{"seconds": 8}')
    run = running.duly("run", "nap", "-o", "name").out.strip()
    while running.duly("run", "show", run, "-o", "tsv").out.find("▶ running") < 0:
        pass

    running.signal(signal.SIGTERM)

    assert "what runs may end within 20s" in running.until("Stopping")
    assert running.end() == 0
    assert running.lines[-1] == "Stopped."
    again = start("up", "--port", "0", home=tmp_path / "home").ready()
    assert "✓ succeeded" in again.duly("run", "show", run).out
    assert "attempt\t1/3" in again.duly("run", "show", run).out


def test_a_thread_that_ignores_the_stop_does_not_hold_the_process(start: Start, shop: Path, tmp_path: Path) -> None:
    running = start("up", "shop", "--port", "0", "--grace", "500ms", home=tmp_path / "home", cwd=shop).ready()
    run = running.duly("run", "stubborn", "seconds=300", "-o", "name").out.strip()
    while running.duly("run", "show", run, "-o", "tsv").out.find("▶ running") < 0:
        pass

    running.signal(signal.SIGTERM)

    assert running.end() == 0
    server = start("server", "--port", "0", home=tmp_path / "home").ready()
    assert json.loads(server.duly("run", "show", run, "--json").out)["state"] in ("SCHEDULED", "PENDING")


def test_a_second_signal_stops_at_once(start: Start, tmp_path: Path) -> None:
    running = start("up", "--port", "0", home=tmp_path / "home").ready()
    running.duly("job", "create", "--name", "nap", "--handler", "duly.sleep", "--payload", '{"seconds": 600}')
    run = running.duly("run", "nap", "-o", "name").out.strip()
    while running.duly("run", "show", run, "-o", "tsv").out.find("▶ running") < 0:
        pass
    running.signal(signal.SIGINT)
    running.until("Stopping")

    running.signal(signal.SIGINT)

    assert running.end() == 130
    assert "Stopped." not in running.lines


def test_after_kill_9_the_same_home_and_key_go_on(start: Start, tmp_path: Path) -> None:
    first = start("up", "--port", "0", home=tmp_path / "home", cwd=tmp_path).ready()
    first.duly("job", "create", "--name", "kept", "--handler", "duly.echo", "--cron", "0 3 * * *")
    key = (tmp_path / "home" / "admin.key").read_text()
    first.kill()

    second = start("up", "--port", "0", home=tmp_path / "home", cwd=tmp_path).ready()

    assert "store    opened home/duly.db" in second.printed
    assert "key      kept in home/admin.key" in second.printed
    assert key.strip() not in second.printed
    assert second.duly("job", "list", "-o", "name").out == "kept\n"
    assert second.duly("run", "kept", "--exit-status").code == 0


def test_a_second_server_on_the_same_port_is_refused(server: Running, tmp_path: Path) -> None:
    port = server.url.rpartition(":")[2]

    answer = duly("up", "--port", port, env=environment(tmp_path / "home"))

    assert answer.code == 1
    assert f"✗ DULY-E601  DULY_PORT: cannot listen on 127.0.0.1:{port}: Address already in use." in answer.err
    assert "Another process listens there; choose another one with --port." in answer.err
    assert "Traceback" not in answer.err


def test_an_address_of_another_machine_is_refused(tmp_path: Path) -> None:
    answer = duly("up", "--host", "192.0.2.1", "--port", "0", env=environment(tmp_path / "home"))

    assert answer.code == 1
    assert "cannot listen on 192.0.2.1:0" in answer.err
    assert "Choose another --host or --port." in answer.err


def test_a_store_that_cannot_be_opened_is_explained(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is not a database, however long it is" * 100)
    (tmp_path / "file").write_text("")

    garbage = duly("up", "--store", f"sqlite:///{tmp_path}/text.db", "--port", "0", env=environment(tmp_path / "home"))
    below_a_file = duly("up", "--store", f"sqlite:///{tmp_path}/file/duly.db", "--port", "0", env=environment(tmp_path / "home"))
    nobody = duly("up", "--store", "postgresql://me:hunter2@127.0.0.1:1/duly", "--port", "0", env=environment(tmp_path / "home"))
    unknown = duly("up", "--store", "mysql://host/duly", "--port", "0", env=environment(tmp_path / "home"))

    answers = (garbage, below_a_file, nobody, unknown)
    assert [(answer.code, answer.err) for answer in answers if answer.code not in (1, 6)] == []
    assert "file is not a database" in garbage.err
    assert "'mysql' is not a kind of store" in unknown.err
    for answer in answers:
        assert answer.err.startswith("✗ DULY-E")
        assert "Traceback" not in answer.err
        assert "hunter2" not in answer.err


def test_a_worker_that_made_its_own_store_is_warned(start: Start, tmp_path: Path) -> None:
    worker = start("worker", home=tmp_path / "elsewhere").ready()

    assert "! warning this store is new: is it the server's?" in worker.printed


def test_a_key_from_the_environment_is_not_printed(start: Start, tmp_path: Path) -> None:
    secret = "duly_an_admin_key_for_this_test"

    running = start("up", "--port", "0", home=tmp_path / "home", DULY_ADMIN_KEY=secret).ready()

    assert "key      from DULY_ADMIN_KEY" in running.printed
    assert secret not in running.printed
    assert not (tmp_path / "home" / "admin.key").exists()
    answer = duly("ps", env={**running.client_environment, "DULY_KEY": secret})
    assert answer.code == 0


def test_listening_beyond_this_machine_is_allowed_with_a_warning(start: Start, tmp_path: Path) -> None:
    running = start("up", "--port", "0", "--host", "0.0.0.0", home=tmp_path / "home").ready()

    assert "! warning the API listens on 0.0.0.0: every request needs a key, but there is no TLS" in running.printed
    assert running.duly("ps").code == 0


def test_server_and_worker_as_two_processes(start: Start, shop: Path, tmp_path: Path) -> None:
    server = start("server", "--port", "0", home=tmp_path / "home").ready()
    assert "roles    api, dispatcher, sweeper, pruner, alerter\n" in server.printed + "\n"

    worker = start(
        "worker", "shop:app", "--pool", "default", "--label", "region=eu", "--slots", "7", home=tmp_path / "home", cwd=shop
    ).ready()

    assert "worker   7 slots in pool default, region=eu" in worker.printed
    assert "jobs     broken, elsewhere, nightly_report, stubborn   (from shop:app)" in worker.printed
    answer = server.duly("run", "nightly_report", "region=us", "--wait", "--json")
    assert json.loads(answer.out)["result"] == {"region": "us"}
    assert json.loads(server.duly("run", "elsewhere", "--wait", "--json").out)["result"] == "child"
    worker.signal(signal.SIGTERM)
    assert worker.end() == 0
    server.signal(signal.SIGTERM)
    assert server.end() == 0


def test_scheduler_and_api_are_parts_of_the_server(start: Start, tmp_path: Path) -> None:
    api = start("api", "--port", "0", home=tmp_path / "home").ready()
    scheduler = start("scheduler", home=tmp_path / "home").ready()

    assert "  roles    api" in api.lines
    assert "dispatcher, sweeper, pruner" in scheduler.printed
    assert "  api " not in scheduler.printed


@pytest.mark.parametrize(
    ("reference", "message", "hint"),
    [
        ("shoop", "There is no module 'shoop'", "Did you mean shop?"),
        ("shop:application", "The module shop has no 'application'", "It has shop:app."),
        ("shop:time", "shop:time is a module, not a duly.App", "module:attribute"),
        ("shop.py", "'shop.py' is not the name of an application", "It is named as it is imported: shop"),
        ("unsound", "Importing unsound failed: ZeroDivisionError: division by zero", "unsound.py, line 1"),
        ("garbled", "Importing garbled failed: SyntaxError", "garbled.py, line 1"),
        ("lacking", "Importing lacking failed: ModuleNotFoundError: No module named 'nowhere'", "lacking.py, line 1"),
        ("misdeclared", "job 'nightly': ", "Write"),
    ],
)
def test_an_application_that_cannot_be_loaded_says_why(reference: str, message: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import time\nfrom duly import App\napp = App('shop')\n")
    (tmp_path / "unsound.py").write_text("1 / 0\n")
    (tmp_path / "garbled.py").write_text("x = (\n")
    (tmp_path / "lacking.py").write_text("import nowhere\n")
    (tmp_path / "misdeclared.py").write_text("from duly import App\napp = App('shop')\n@app.job(cron='99 * * * *')\ndef nightly(): ...\n")

    answer = duly("worker", reference, env=environment(tmp_path / "home"), cwd=tmp_path)

    assert answer.code in (1, 2)
    assert message in answer.err
    assert hint in answer.err
    assert "Traceback" not in answer.err


def test_an_unknown_role_is_refused(tmp_path: Path) -> None:
    answer = duly("server", "--roles", "api,worker", env=environment(tmp_path / "home"))

    assert answer.code == 2
    assert "There is no role 'worker'" in answer.err
    assert "`duly worker`" in answer.err
    assert not (tmp_path / "home").exists()


def test_logs_can_be_json_and_hide_secrets(start: Start, tmp_path: Path) -> None:
    code = (
        "import logging\n"
        "from duly import config\n"
        "from duly.cli import journal\n"
        "journal.set_up(config.load({'DULY_LOG_FORMAT': 'json'}))\n"
        "logging.getLogger('duly.roles').warning('at postgresql://me:hunter2@db/duly with %s', 'duly_' + 'a1' * 32)\n"
    )

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr

    line = json.loads(printed)
    assert line["message"] == "at postgresql://me:••••••@db/duly with duly_••••••"
    assert (line["level"], line["logger"]) == ("warning", "duly.roles")


def test_dev_starts_again_when_code_changes(start: Start, tmp_path: Path) -> None:
    app = tmp_path / "jobs.py"
    app.write_text("from duly import App\napp = App('jobs')\n@app.job\ndef first(): return 1\n")
    running = start("dev", "jobs", "--port", "0", home=tmp_path / "home", cwd=tmp_path).ready()

    app.write_text("from duly import App\napp = App('jobs')\n@app.job\ndef second(): return 22\n")

    assert "jobs.py changed" in running.until("changed")
    assert "for jobs" in running.until("✓ running at")
    app.write_text("app = (\n")
    running.until("✗ DULY-E602")
    running.until("waiting for a change")
    os.utime(app, ns=(1, 1))
    running.until("waiting for a change")
    running.signal(signal.SIGTERM)
    assert running.end() == 0
