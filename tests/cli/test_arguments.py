"""A payload that no worker would take is refused when it is sent, and the refusal says what to send instead."""

from __future__ import annotations

import pytest

from duly.domain.errors import Invalid
from duly.sdk import calls
from duly.sdk.client import Client
from tests.cli.processes import Running


def test_an_argument_that_the_handler_does_not_have(server: Running) -> None:
    ran = server.duly("run", "nightly_report", "regon=north")

    assert ran.code == 2
    assert "DULY-E117" in ran.err
    assert "nightly_report has no argument 'regon'" in ran.err
    assert "Did you mean region?" in ran.err
    assert server.duly("run", "nightly_report", "region=north", "--exit-status").code == 0


def test_an_argument_that_is_missing(server: Running) -> None:
    for words in [(), ("--payload", "{}")]:
        ran = server.duly("run", "stubborn", *words)

        assert ran.code == 2
        assert "stubborn needs the argument 'seconds'" in ran.err


def test_a_client_of_the_sdk_is_told_the_same(server: Running) -> None:
    with Client(server.url, (server.home / "admin.key").read_text().strip()) as client:
        [job] = client.send(calls.list_jobs(name="nightly_report")).items
        with pytest.raises(Invalid) as refused:
            client.send(calls.run_job(job.job_id, payload={"regon": "north"}))

    assert (refused.value.code, refused.value.field) == ("DULY-E117", "payload.regon")
