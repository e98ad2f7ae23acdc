"""What becomes of tests whose service is not on this machine."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

IN_CI = os.environ.get("CI") == "true"


def service_missing(service: str, reason: str) -> NoReturn:
    """Skip on a laptop, fail in CI; either way the reason stands in the summary."""
    message = f"!!! {service} IS NOT HERE, its tests did not run: {reason}"
    if IN_CI:
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
