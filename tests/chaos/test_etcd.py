"""`duly verify --with etcd`: dispatchers that a real etcd tells of one another, while both are broken."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from duly.services import ServiceMissing
from duly.services.etcd import find_binary
from duly.verify import run
from duly.verify.stage import Size
from tests.chaos.test_verify import held
from tests.conftest import service_missing

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3600)]

ETCD = "etcd-kill,etcd-pause,etcd-revoke,etcd-ghost"


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_the_promises_hold_while_etcd_is_broken_with_everything_else(store: str, tmp_path: Path, long_form: bool) -> None:
    if not long_form:
        pytest.skip("minutes: `make chaos` runs it")
    try:
        find_binary()
    except ServiceMissing as missing:
        service_missing("etcd", str(missing))
    options = run.Options(minutes=5, store=store, seed=4, size=Size(apis=1, schedulers=3, workers=3, remote=1), engines="etcd", gap=1.2)

    history, _ = held(options, tmp_path / "proof")

    kinds = Counter(fault.kind for fault in history.faults)
    assert set(ETCD.split(",")) <= set(kinds)
