"""Around the test app: snapshots of schedules, runs of production, and the pytest plugin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duly import App, Invalid, Secret
from duly.testing import TestApp, check_schedule, snapshot_schedule
from tests.testing.shop import app, nightly_report, send_welcome, with_secret

pytest_plugins = ["pytester"]


def small(cron: str = "30 2 * * *") -> App:
    made = App("small")
    made.calendar("closed", tz="Europe/Berlin", holidays=["2026-12-25"])

    @made.job(cron=cron, tz="Europe/Berlin", calendars=["closed"])
    async def nightly() -> None: ...

    @made.job(every="10m")
    async def often() -> None: ...

    @made.job
    async def now_and_then() -> None: ...

    @made.job(cron="H 4 * * *")
    async def quiet() -> None: ...

    return made


def test_a_snapshot_has_every_fire_with_what_the_clocks_did_to_it(tmp_path: Path) -> None:
    file = tmp_path / "schedules.txt"

    assert snapshot_schedule(small(), file, start="2026-03-01", days=400)

    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# The fires of small from 2026-03-01 for 400 days. tzdata ")
    assert any(line.startswith("nightly: Every day at 02:30") and line.endswith("399 fires") for line in lines)
    assert "  Sun 2026-03-29 03:00+02:00  02:30 does not exist on this day; runs at 03:00" in lines
    assert "  Sun 2026-10-25 02:30+02:00  02:30 happens twice on this day; runs at the first" in lines
    assert not any(line.startswith("  Fri 2026-12-25 02:30") for line in lines)
    assert "  2026-03-01 to 2027-04-04, each day: 144 fires, 00:00:00 to 23:50:00" in lines
    assert "now_and_then: only when enqueued" in lines
    assert any("H is a slot of the job's own" in line for line in lines)


def test_a_snapshot_changes_with_the_schedule_alone_and_shows_how(tmp_path: Path) -> None:
    file = tmp_path / "schedules.txt"
    with pytest.raises(AssertionError, match=r"There is no .*Write it with"):
        check_schedule(small(), file)
    snapshot_schedule(small(), file, start="2026-03-01", days=30)

    assert not snapshot_schedule(small(), file)
    check_schedule(small(), file)
    with pytest.raises(AssertionError) as caught:
        check_schedule(small("45 2 * * *"), file)
    assert "-  Sun 2026-03-01 02:30+01:00" in str(caught.value)
    assert "+  Sun 2026-03-01 02:45+01:00" in str(caught.value)
    assert "pytest --duly-snapshots" in str(caught.value)


def _shown(job: str, payload: object, at: str = "2026-10-25T00:30:00Z") -> dict[str, object]:
    return {"executionId": "run_01", "jobName": job, "scheduledAt": at, "payload": payload, "state": "DEAD", "attempt": 3}


def test_a_run_of_production_is_stepped_again_at_its_own_time(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(_shown("nightly_report", {"region": "us"})))
    with TestApp(app, at="2026-10-24 12:00 Europe/Berlin", mode="manual") as t:
        run = t.replay(tmp_path / "run.json")
        assert (run.state, run.payload) == ("pending", {"region": "us"})

        assert t.run_one(nightly_report).state == "succeeded"
        while run.state == "pending":
            t.run_one(nightly_report)

        assert run.result == "us 2026-10-25"


def test_a_masked_secret_has_to_be_given_and_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with TestApp(app) as t:
        masked = _shown("nightly_report", {"region": "••••••"}, at="2026-01-15T12:00:10Z")
        with pytest.raises(Invalid, match=r"payload.region is masked. Secrets are not shown"):
            t.replay(masked)
        run = t.replay(masked, region="us")
        t.travel("1s")
        assert run.result == "us 2026-01-15"
        for wrong, told in (({"id": 3}, "that is no run"), (tmp_path / "no.json", "cannot be read")):
            with pytest.raises(Invalid, match=told):
                t.replay(wrong)  # type: ignore[arg-type]
        (tmp_path / "no.json").write_text("{")
        with pytest.raises(Invalid, match="is not JSON"):
            t.replay(tmp_path / "no.json")


def test_secrets_are_those_that_the_test_gives() -> None:
    with TestApp(app, secrets={"TOKEN": "abc"}) as t:
        given, missing = t.enqueue(with_secret, Secret.env("TOKEN")), t.enqueue(with_secret, Secret.env("OTHER"))
        t.travel("1s")

        assert (given.result, missing.state) == (3, "dead")


def test_the_plugin_opens_and_closes_test_apps(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function")
    pytester.makeconftest("import pytest\nfrom tests.testing.shop import app\n\n@pytest.fixture\ndef duly_app():\n    return app\n")
    pytester.makepyfile(
        """
        import pytest
        from tests.testing.shop import app, nightly_report

        @pytest.mark.duly(at="2026-10-24 12:00 Europe/Berlin")
        def test_marked(duly):
            duly.travel("1 day")
            assert duly.fires(nightly_report) == ["2026-10-25 02:30+02:00"]

        def test_two(duly, duly_testing):
            assert duly_testing(app, at="2026-01-01T00:00Z", mode="manual").now != duly.now

        def test_snapshot(schedule_snapshot):
            schedule_snapshot(app)
        """
    )
    first = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-q")
    first.assert_outcomes(passed=2, failed=1)
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-q", "--duly-snapshots").assert_outcomes(passed=3)
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-q").assert_outcomes(passed=3)
    assert send_welcome.name in (pytester.path / "schedules.txt").read_text(encoding="utf-8")
