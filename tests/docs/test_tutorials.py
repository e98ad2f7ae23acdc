"""Every block of the tutorials is executed, as it stands there."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts.docs_hooks import DOCS, llms, pages, within
from tests.chaos.fleet import eventually
from tests.cli.processes import Running, duly, environment
from tests.services.postgres import Postgres

TUTORIALS = DOCS / "tutorial"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (TUTORIALS / page).read_text(encoding="utf-8"), re.DOTALL)


def commands(page: str) -> list[list[str]]:
    """The words of each command, without `duly`."""
    lines = "".join(blocks(page, "console")).splitlines()
    return [shlex.split(line.removeprefix("$ ").partition(" > ")[0])[1:] for line in lines]


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    """Starts long-running commands and leaves none behind."""
    started: list[Running] = []

    def begin(*words: str, home: Path, cwd: Path, **more: str) -> Running:
        started.append(Running.start(*words, home=home, cwd=cwd, **more))
        return started[-1]

    yield begin
    for running in started:
        running.kill()


@pytest.mark.parametrize(("page", "module"), [("first-job.md", "shop"), ("first-workflow.md", "etl")])
def test_a_tutorial_does_what_it_says(page: str, module: str, start: Callable[..., Running], tmp_path: Path) -> None:
    [code] = blocks(page, "python")
    assert code.startswith(f"# {module}.py\n")
    (tmp_path / f"{module}.py").write_text(code, encoding="utf-8")
    up, *others = commands(page)
    assert up == ["up", f"{module}:app"]

    running = start(*up, "--port", "0", home=tmp_path / ".duly", cwd=tmp_path).ready()
    answers = {" ".join(words): running.duly(*words) for words in others}

    assert {line: answer.err for line, answer in answers.items() if answer.code != 0} == {}
    if module == "shop":
        assert "us" in answers["run nightly_report region=us --wait"].out
        assert "02:30 does not exist" in answers["cron 30 2 * * * --tz Europe/Berlin --after 2027-03-27T12:00:00Z -n 2"].out
    else:
        assert answers["workflow graph etl"].out.startswith("<svg")
        eventually(lambda: "SUCCEEDED" in running.duly("run", "list", "-o", "tsv").out, 60, "the workflow ran")
        result = json.loads(running.duly("run", "list", "--json").out)
        assert any(run["state"] == "SUCCEEDED" for run in result)


@pytest.mark.slow
def test_the_deployment_of_the_tutorial_runs(postgres_server: Postgres, start: Callable[..., Running], tmp_path: Path) -> None:
    [sql] = blocks("first-deployment.md", "sql")
    [shop] = blocks("first-job.md", "python")
    (tmp_path / "shop.py").write_text(shop, encoding="utf-8")
    for statement in sql.replace(" duly", " tutorial").strip().splitlines():
        postgres_server.execute(statement.rstrip(";"))
    (tmp_path / "store").write_text(postgres_server.dsn("tutorial"), encoding="utf-8")
    (tmp_path / "admin.key").write_text("duly_" + "a" * 40, encoding="utf-8")
    for name in ("store", "admin.key"):
        (tmp_path / name).chmod(0o600)
    settings = dict(line.partition("=")[::2] for line in "".join(blocks("first-deployment.md", "text")).splitlines())
    assert set(settings) == {"DULY_STORE_FILE", "DULY_ADMIN_KEY_FILE", "DULY_HOST"}
    more = {"DULY_STORE_FILE": str(tmp_path / "store"), "DULY_ADMIN_KEY_FILE": str(tmp_path / "admin.key")}
    upgrade, doctor, server, worker = commands("first-deployment.md")

    assert duly(*upgrade, env=environment(tmp_path, **more)).code == 0
    running = start(*server, "--port", "0", home=tmp_path, cwd=tmp_path, **more).ready()
    start(*worker, home=tmp_path, cwd=tmp_path, **more).until("Ctrl-C stops it")
    url = {**more, "DULY_URL": running.url}

    examined = duly(*doctor, env=environment(tmp_path, **url))
    assert "✗" not in examined.out + examined.err
    ran = duly("run", "nightly_report", "--wait", "--json", env=environment(tmp_path, **url))
    assert '"SUCCEEDED"' in ran.out, ran.err
    postgres_server.drop_database("tutorial")


def test_the_index_for_machines_names_every_page_of_its_sections() -> None:
    listed = {link for link in re.findall(r"\]\(([^)]+)\)", llms()) if not link.startswith("https:")}

    assert listed == {str(page.relative_to(DOCS)) for page in pages() if page.parent != DOCS}


def test_links_that_leave_the_documentation_become_words() -> None:
    page = DOCS / "how-to" / "deploy.md"

    assert within("[x](../../deploy/compose.yaml)", page) == "x (`deploy/compose.yaml`)"
    assert within("[`deploy/systemd`](../../deploy/systemd)", page) == "`deploy/systemd`"
    assert within("[m](migrate)", page) == "[m](migrate/README.md)"
    assert within("[k](keys.md#a) [h](https://example.com)", page) == "[k](keys.md#a) [h](https://example.com)"
    assert within("[gone](nowhere.md)", page) == "[gone](nowhere.md)", "left for the builder to refuse"


def test_the_index_leads_to_every_guide() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")

    assert {f"tutorial/{page.name}" for page in TUTORIALS.glob("*.md")} <= set(re.findall(r"\]\(([^)]+)\)", index))
