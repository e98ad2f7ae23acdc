"""The units: systemd takes every line of them, and a stop gives the worker its grace."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from duly import config
from duly.domain.durations import parse_duration
from duly.domain.instants import SECOND

UNITS = sorted((Path(__file__).parents[2] / "deploy" / "systemd").glob("*.service"))
OURS = Path(sys.executable).parent / "duly"


@pytest.fixture(params=UNITS, ids=lambda path: path.name)
def unit(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_there_are_a_server_and_a_worker() -> None:
    assert [path.name for path in UNITS] == ["duly-server.service", "duly-worker@.service"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="this machine has no systemd-analyze")
def test_systemd_takes_every_line(unit: Path, tmp_path: Path) -> None:
    # With the program that is here in place of the one that will be there: it must exist.
    text = unit.read_text().replace("/opt/duly/bin/duly", str(OURS))
    copy = tmp_path / unit.name
    copy.write_text(text)

    done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False)

    # It ends well though it ignores a line; what it says tells.
    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_unit_needs_is_there(unit: Path) -> None:
    parser = configparser.RawConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit)
    service = parser["Service"]

    assert service["ExecStart"].split()[:2] == ["/opt/duly/bin/duly", "worker" if "worker" in unit.name else "server"]
    assert service["User"] == "duly"
    assert service["Restart"] == "always"
    assert service["NoNewPrivileges"] == "yes"
    assert parser["Install"]["WantedBy"] == "multi-user.target"
    grace = next(setting.default for setting in config.SETTINGS if setting.name == "DULY_GRACE")
    assert int(service["TimeoutStopSec"]) * SECOND > parse_duration(grace)


def test_secrets_come_as_credentials(unit: Path) -> None:
    text = unit.read_text()

    assert "LoadCredential=store:/etc/duly/store" in text
    assert "DULY_STORE_FILE=%d/store" in text
    assert re.search(r"^Environment=.*DULY_STORE=", text, re.MULTILINE) is None
