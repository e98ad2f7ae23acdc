"""The wheel, as somebody installs it who has nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from tests.chaos.fleet import ROOT, Member

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path) -> str:
    dropped = ("PYTHONPATH", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in dropped} | {"DULY_HOME": str(cwd / "home")}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", target, ROOT, cwd=target)
    [built] = target.glob("duly-*.whl")
    return built


def test_the_wheel_has_what_it_needs_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"duly"}
    assert "duly/py.typed" in names
    assert sum(name.endswith(".sql") for name in names) > 50
    assert not [name for name in names if name.endswith((".pyc", ".orig")) or "/tests/" in name]


@pytest.mark.timeout(600)
def test_it_installs_alone_in_a_clean_environment_and_runs_a_first_job(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "clean", cwd=tmp_path)
    python = tmp_path / "clean" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel, cwd=tmp_path)
    version = run(tmp_path / "clean" / "bin" / "duly", "--version", cwd=tmp_path)
    assert version.startswith("duly ")
    (tmp_path / "jobs.py").write_text(
        textwrap.dedent(
            """
            from duly import App
            from duly.testing import TestApp

            app = App("first")

            @app.job
            async def hello(name: str) -> str:
                return f"hello {name}"

            if __name__ == "__main__":
                with TestApp(app) as t:
                    run = t.enqueue(hello, "world")
                    t.travel("1s")
                    print(run.result)
            """
        )
    )
    assert run(python, "jobs.py", cwd=tmp_path).strip() == "hello world"
    environment = {"PATH": os.environ["PATH"], "DULY_HOME": str(tmp_path / "home"), "DULY_PORT": "0", "PYTHONPATH": str(tmp_path)}
    up = Member(["up", "jobs:app"], environment, tmp_path, str(python))
    try:
        url = up.wait_for(r"(http://127\.0\.0\.1:\d+)", 60)[1]
        ran = run(
            tmp_path / "clean" / "bin" / "duly", "run", "hello", "name=world", "--exit-status", "--json", "--server", url, cwd=tmp_path
        )
        assert json.loads(ran)["result"] == "hello world"
    finally:
        up.kill()
