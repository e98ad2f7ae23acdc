"""The composition and its image: every process healthy or known to be alive, no secret in an environment, nobody root."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from duly import config
from duly.adapters.sql.postgres.address import read_address
from duly.services.available import OFFERS
from duly.usecases.access import is_key_shaped

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
# Engines name their settings; a version without one of them ignores it.
KNOWN = {setting.name for setting in config.SETTINGS} | {offer.setting for offer in OFFERS}
SECRET = {setting.name for setting in config.SETTINGS if setting.secret}


@pytest.fixture(scope="module")
def composition() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def test_a_fleet_is_two_servers_and_two_workers_on_everything_there_is(composition: dict[str, Any]) -> None:
    assert set(composition["services"]) == {"postgres", "redis", "kafka", "etcd", "server-1", "server-2", "worker-1", "worker-2"}


def test_whoever_listens_has_a_health_check_and_ours_wait_for_it(composition: dict[str, Any]) -> None:
    services = composition["services"]
    listening = [name for name in services if not name.startswith("worker")]

    assert [name for name in listening if "healthcheck" not in services[name]] == []
    for name in ("server-1", "server-2", "worker-1", "worker-2"):
        needed = services[name]["depends_on"]
        assert set(needed) == {"postgres", "redis", "kafka", "etcd"}
        assert all(condition == {"condition": "service_healthy"} for condition in needed.values())


def test_secrets_are_files_and_every_one_is_made(composition: dict[str, Any]) -> None:
    script = (DEPLOY / "make-secrets").read_text()
    for service in composition["services"].values():
        assert set(service.get("secrets", ())) <= set(composition["secrets"])
        told = {name: value for name, value in service.get("environment", {}).items() if name in SECRET}
        # An address without a password is no secret.
        assert all("://" in value and "@" not in value for value in told.values()), told
    for name, secret in composition["secrets"].items():
        assert secret == {"file": f"secrets/{name}"}
        assert f"keep {name} " in script


def test_nothing_is_open_to_others_but_by_choice(composition: dict[str, Any]) -> None:
    ports = [port for service in composition["services"].values() for port in service.get("ports", ())]

    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_our_processes_have_no_rights_and_time_to_end(composition: dict[str, Any]) -> None:
    for name in ("server-1", "server-2", "worker-1", "worker-2"):
        service = composition["services"][name]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert int(service["stop_grace_period"].removesuffix("s")) > int(service["environment"]["DULY_GRACE"].removesuffix("s"))


def test_every_setting_exists(composition: dict[str, Any]) -> None:
    for service in composition["services"].values():
        ours = {name.removesuffix("_FILE") for name in service.get("environment", {}) if name.startswith("DULY_")}
        assert ours <= KNOWN


def test_the_secrets_that_are_made_are_ones_that_duly_takes(tmp_path: Path) -> None:
    script = shutil.copy(DEPLOY / "make-secrets", tmp_path / "make-secrets")
    subprocess.run([script], check=True, capture_output=True)
    made = {path.name: path.read_text().strip() for path in (tmp_path / "secrets").iterdir()}

    subprocess.run([script], check=True, capture_output=True)

    assert is_key_shaped(made["admin_key"])
    assert made["postgres_password"] in made["store"]
    assert [host.name for host in read_address(made["store"]).hosts] == ["postgres"]
    # A second time changes nothing.
    assert {path.name: path.read_text().strip() for path in (tmp_path / "secrets").iterdir()} == made
    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0


class TestImage:
    text = (DEPLOY / "Dockerfile").read_text()

    def test_hadolint_has_nothing_to_say(self) -> None:
        hadolint = Path(sys.executable).parent / "hadolint"

        done = subprocess.run([hadolint, DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)

        assert (done.returncode, done.stdout) == (0, "")

    def test_what_builds_stays_behind_and_nobody_is_root(self) -> None:
        stages = re.findall(r"^FROM (\S+)(?: AS (\w+))?$", self.text, re.MULTILINE)

        assert [name for _, name in stages] == ["build", ""]
        assert re.search(r"^USER 10001:10001$", self.text.rpartition("FROM ")[2], re.MULTILINE)
        assert 'ENTRYPOINT ["duly"]' in self.text

    def test_what_it_copies_is_there_and_reaches_the_builder(self) -> None:
        sources = [word for line in re.findall(r"^COPY (?!--)(.+)$", self.text, re.MULTILINE) for word in line.split()[:-1]]
        admitted = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}

        assert set(sources) == admitted
        assert all((ROOT / source).exists() for source in sources)
