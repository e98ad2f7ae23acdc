"""Prometheus' own tool looks at a text of metrics."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def promtool_says(text: str) -> tuple[int, str]:
    """How it ended and what it had to say. Skips the test where it is not installed, and fails it in CI."""
    if shutil.which("promtool") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("promtool is not installed: see scripts/install-test-services")
        pytest.skip("promtool is not installed")
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    return checked.returncode, checked.stdout + checked.stderr
