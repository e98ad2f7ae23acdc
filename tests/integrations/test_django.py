"""Django's tasks on Duly, in processes of their own: Django is configured once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.fleet import ROOT


def run(tmp_path: Path, *arguments: str, **environment: str) -> str:
    told = {name: value for name, value in os.environ.items() if not name.startswith("DULY_")}
    told |= {"PYTHONPATH": str(ROOT), "SHOP_FILE": str(tmp_path / "shop.db"), "DULY_HOME": str(tmp_path)}
    told |= {"DULY_STORE": f"sqlite:///{tmp_path / 'duly.db'}", "DJANGO_SETTINGS_MODULE": "examples.django_shop.settings"} | environment
    done = subprocess.run([sys.executable, *arguments], cwd=tmp_path, env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def story(tmp_path: Path, where: str, **environment: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(run(tmp_path, "-m", "tests.integrations.django_story", where, **environment).splitlines()[-1])
    return told


def test_tasks_commit_with_their_transaction_and_have_results(tmp_path: Path) -> None:
    told = story(tmp_path, "memory")

    assert told == {
        "before the commit": 0,
        "after both": 1,
        "results": [["SUCCESSFUL", "BOOK"], ["SUCCESSFUL", 2], ["SUCCESSFUL", "book"]],
        "attempts": [1, 2],
        "errors": ["TimeoutError"],
        "totals": 2,
        "undone": "does not exist",
        "totals on": ["reports", "HIGH"],
    }


def test_on_another_database_a_task_is_enqueued_on_commit_and_a_worker_of_the_project_runs_it(tmp_path: Path) -> None:
    told = story(tmp_path, "store")

    assert (told["before the commit"], told["kept"], told["orders"], told["undone"]) == ("not there", "READY", 1, "does not exist")


def test_on_the_same_postgres_database_both_are_one_transaction(tmp_path: Path, postgres_dsn: str) -> None:
    told = story(tmp_path, "store", SHOP_DATABASE=postgres_dsn, DULY_STORE=postgres_dsn)

    assert (told["before the commit"], told["kept"], told["orders"], told["undone"]) == ("not there", "READY", 1, "does not exist")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["worker"], ["worker", "duly.django.jobs:app"]),
        (["up", "--port", "0"], ["up", "duly.django.jobs:app", "--port", "0"]),
        (["worker", "shop.jobs:app"], ["worker", "shop.jobs:app"]),
        (["ps"], ["ps"]),
        ([], []),
    ],
)
def test_the_command_names_the_projects_application_where_one_belongs(words: list[str], expected: list[str]) -> None:
    from duly.django.management.commands.duly import with_application

    assert with_application(words) == expected


def test_words_with_a_zone_are_a_wall_clock_and_without_one_an_interval() -> None:
    from duly.django.schedules import timing_of

    assert timing_of("every 15 minutes", has_zone=False) == {"every": "15m"}
    assert timing_of("every 15 minutes", has_zone=True) == {"cron": "every 15 minutes"}
    assert timing_of("every day at 02:30", has_zone=False) == {"cron": "every day at 02:30"}


def test_manage_py_speaks_for_duly(tmp_path: Path) -> None:
    assert "T03:00:00Z" in run(tmp_path, "-m", "examples.django_shop.manage", "duly", "cron", "0 3 * * *")
    assert run(tmp_path, "-m", "examples.django_shop.manage", "duly", "--version").startswith("duly ")


def test_the_dashboard_stands_beside_the_project_for_users_who_may(tmp_path: Path) -> None:
    settings = {"DJANGO_SETTINGS_MODULE": "examples.django_shop.web"}
    told = json.loads(run(tmp_path, "-m", "tests.integrations.django_web", **settings).splitlines()[-1])

    assert told == {
        "stranger": 401,
        "forged": 401,
        "ann": [200, "ADMIN", "ann"],
        "bob": [200, "VIEWER", "bob"],
        "eve": [401, None, None],
        "policy": True,
        "elsewhere": [],
        "unshown": "DULY-E309",
        "in the admin": True,
        "leads to": [302, "/duly/"],
        "bare": [307, "/duly/"],
        "beside": 404,
        "lifespan": ["lifespan.startup.complete", "lifespan.shutdown.complete"],
    }
