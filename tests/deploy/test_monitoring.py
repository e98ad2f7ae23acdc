"""The dashboard and the alert rules speak of metrics that there are, and every alert has its page."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from duly.domain.metrics import Kind
from duly.domain.metrics.catalogue import CATALOGUE
from scripts.grafana import TARGET, text

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "duly.rules.yml"
RUNBOOKS = ROOT / "docs" / "how-to" / "runbooks"
_NAME = re.compile(r"\b((?:duly|process)_[a-z_]+)(?:\{([^}]*)\})?")


def series() -> dict[str, set[str]]:
    """Every name that a query may have, with its labels."""
    found: dict[str, set[str]] = {}
    for metric in CATALOGUE:
        names = [metric.name]
        if metric.kind is Kind.COUNTER:
            names = [f"{metric.name}_total"]
        elif metric.kind is Kind.HISTOGRAM:
            names = [f"{metric.name}_{end}" for end in ("bucket", "sum", "count")]
        for name in names:
            found[name] = {*metric.labels, "instance", "job"} | ({"le"} if name.endswith("_bucket") else set())
    return found


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def queries() -> list[str]:
    panels = json.loads(TARGET.read_text(encoding="utf-8"))["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def promtool(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("promtool") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("promtool is not installed: see scripts/install-test-services")
        pytest.skip("promtool is not installed")
    return subprocess.run(["promtool", *words], cwd=cwd, capture_output=True, text=True, check=False)


def test_the_dashboard_is_what_the_script_writes() -> None:
    assert TARGET.read_text(encoding="utf-8") == text(), "run `python -m scripts.grafana`"


@pytest.mark.parametrize("query", [*queries(), *(rule["expr"] for rule in rules())])
def test_a_query_speaks_of_metrics_and_labels_that_there_are(query: str) -> None:
    known = series()
    used = _NAME.findall(query)
    assert used
    for name, matchers in used:
        assert name in known, f"{name} is not in the catalogue"
        assert {re.split(r"[=!~]", part)[0].strip() for part in matchers.split(",") if part} <= known[name]
    allowed = set[str]().union(*(known[name] for name, _ in used))
    for grouped in re.findall(r"\bby \(([^)]*)\)", query):
        assert {label.strip() for label in grouped.split(",")} <= allowed


def test_the_dashboard_shows_every_metric() -> None:
    shown = {name for query in queries() for name, _ in _NAME.findall(query)}
    rest = {metric.name for metric in CATALOGUE if not any(name.startswith(metric.name) for name in shown)}

    assert rest == {"process_start_time_seconds"}


def test_every_alert_has_its_page_and_every_page_its_alert() -> None:
    pages = {rule["annotations"]["runbook"]: rule for rule in rules()}

    assert {f"docs/how-to/runbooks/{page.name}" for page in RUNBOOKS.glob("*.md")} - {"docs/how-to/runbooks/README.md"} == set(pages)
    index = (RUNBOOKS / "README.md").read_text(encoding="utf-8")
    for page, rule in pages.items():
        written = (ROOT / page).read_text(encoding="utf-8")
        assert written.startswith(f"# {rule['alert']}\n")
        assert f"\n{rule['expr']}\n" in written
        assert f"[{rule['alert']}]({Path(page).name})" in index
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    checked = promtool("check", "rules", str(RULES), cwd=tmp_path)

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_rules_ring_when_they_should_and_only_then(tmp_path: Path) -> None:
    shutil.copy(RULES, tmp_path)
    shutil.copy(Path(__file__).with_name("duly.rules.test.yml"), tmp_path)

    tested = promtool("test", "rules", "duly.rules.test.yml", cwd=tmp_path)

    assert tested.returncode == 0, tested.stdout + tested.stderr
