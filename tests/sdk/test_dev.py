"""`app.dev()` in a script: everything runs, on one port, and again when the code changes."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from duly import App, Invalid
from tests.cli.processes import environment

SCRIPT = """
from duly import App, Context

app = App("shop")


@app.job(cron="30 2 * * *", tz="Europe/Berlin", overlap="skip", catch_up="latest",
         retry=5, timeout="10m", alert=app.alert(missed_after="15m"))
def nightly_report(ctx: Context, region: str = "eu") -> dict[str, int]:
    ctx.log.info("building", region=region, due=ctx.due_at, lateness=ctx.lateness)
    return {"rows": build(region)}


if __name__ == "__main__":
    print(nightly_report.schedule.explain())
    app.dev(port=0)
"""


def run(*words: str, cwd: Path, home: Path) -> subprocess.Popen[str]:
    env = environment(home, PYTHONUNBUFFERED="1", NO_COLOR="1")
    return subprocess.Popen([sys.executable, *words], cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def until(process: subprocess.Popen[str], text: str) -> list[str]:
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.rstrip())
        if text in line:
            return lines
    raise AssertionError("\n".join(lines))


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "from elsewhere"])
def test_a_script_explains_its_schedule_and_runs_everything(tmp_path: Path, elsewhere: bool) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "shop_jobs.py").write_text(SCRIPT)
    process = run(str(scripts / "shop_jobs.py"), cwd=tmp_path if elsewhere else scripts, home=tmp_path / "home")
    try:
        lines = until(process, "Ctrl-C stops it")
        assert lines[0] == "nightly_report: Every day at 02:30 Berlin time"
        (url,) = [line.split()[1] for line in lines if line.startswith("  api ")]
        with urllib.request.urlopen(f"{url}/readyz", timeout=10) as answer:
            assert answer.status == 200
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_call_that_is_not_the_scripts_is_refused_and_says_where_it_belongs(tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text("from duly import App\napp = App('bare')\napp.dev(port=0)\n")
    (tmp_path / "two-words.py").write_text("from duly import App\napp = App('two')\napp.dev(port=0)\n")
    # It starts itself, and is told so by what it has started.
    process = run("bare.py", cwd=tmp_path, home=tmp_path / "home")
    try:
        lines = until(process, "__main__")
        assert any("DULY-E602" in line for line in lines)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)

    unnamed = run("two-words.py", cwd=tmp_path, home=tmp_path / "home")
    out, _ = unnamed.communicate(timeout=60)
    assert "two-words.py cannot be imported. Give the file a name such as jobs.py." in out
    with pytest.raises(Invalid, match="__main__") as refused:
        App("here").dev()
    assert refused.value.code == "DULY-E602"
