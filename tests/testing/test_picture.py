"""The examples of the page that shows the SDK, run as they are printed there."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from duly.testing import TestApp
from tests.testing.picture import (
    Welcome,
    announced,
    app,
    copy_into_db,
    etl,
    fences,
    flows,
    list_files,
    mailer,
    nightly_report,
    reindex,
    send_welcome,
)


def test_jobs_over_a_dst_weekend() -> None:
    with TestApp(app, at="2026-10-24 12:00 Europe/Berlin") as t:
        t.travel("3 days")
        assert t.fires(nightly_report) == ["2026-10-25 02:30+02:00", "2026-10-26 02:30+01:00", "2026-10-27 02:30+01:00"]
        run = t.enqueue(send_welcome, user_id=7, fail=[TimeoutError, TimeoutError])
        t.travel("1 hour")
        assert run.state == "succeeded"
        assert run.attempts == 3
        run = t.enqueue(reindex, index="docs", kill_worker_after="20m")
        t.travel("1 day")
        assert run.attempt(2).resumed_from["done"] > 0

        assert (run.state, run.attempts, run.checkpoint) == ("succeeded", 2, {"done": 5_000})
        assert len(set(fences)) == 2


def test_a_plain_function_is_a_job_and_its_log_is_kept() -> None:
    with TestApp(app, at="2026-10-24 12:00 Europe/Berlin") as t:
        t.travel("1 day")
        (run,) = t.runs(nightly_report)

        assert run.result == {"rows": 2}
        (line,) = run.logs
        assert (line.message, line.fields["region"]) == ("building", "eu")
        assert datetime.fromisoformat(line.fields["due"]) == run.due_at


def test_a_welcome_is_sent_once_for_a_user_with_a_key_that_stays() -> None:
    mailer.sent.clear()
    with TestApp(app) as t:
        for user in (7, 8, 7):
            t.enqueue(send_welcome, Welcome(user_id=user), delay="5m")
        t.travel("1 hour")

        assert sorted(user for user, _ in mailer.sent) == [7, 8]
        assert len({key for _, key in mailer.sent}) == 2
        t.assert_enqueued(send_welcome, user_id=8)
        t.refute_enqueued(send_welcome, user_id=9)


def test_a_workflow_fans_out_and_waits_for_finance() -> None:
    announced.clear()
    with TestApp(flows, at="2026-06-01 12:00 UTC") as t:
        t.travel("1 day")
        (run,) = t.runs(etl)
        assert run.due_at.hour == 4
        assert t.steps(run)["load"] == "succeeded"
        assert announced == []

        t.approve(run, by="finance")
        t.travel("1m")

        assert (run.state, announced) == ("succeeded", [sum(copy_into_db(path) for path in list_files(run.due_at.date()))])
        assert json.dumps(t.steps(run)) == '{"extract": "succeeded", "load": "succeeded", "publish": "succeeded"}'
        assert run.finished_at is not None
        assert run.finished_at - run.due_at < timedelta(days=1)
