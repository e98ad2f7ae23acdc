"""Every importer on samples as they are found in the world: what becomes of each entry, and when the old system really fires."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from duly.domain.imports import apscheduler, celery, crontab, github, kubernetes, systemd, systemd_calendar
from duly.domain.imports.draft import Draft, with_names_apart
from duly.usecases.imports import Preview, preview
from tests.imports.daemons import controller, cron

SAMPLES = Path(__file__).parent / "samples"
BEGIN = int(datetime(2026, 8, 1, tzinfo=UTC).timestamp())
DAYS = 400
END = BEGIN + DAYS * 86_400
NOW = BEGIN * 1_000_000
BERLIN = "Europe/Berlin"
RECORDED: dict[str, dict[str, Any]] = json.loads((SAMPLES / "recorded.json").read_text(encoding="utf-8"))


def by_name(drafts: list[Draft]) -> dict[str, Draft]:
    return {draft.name: draft for draft in with_names_apart(drafts)}


def seen(draft: Draft, days: int = DAYS) -> Preview:
    [found] = preview([draft], NOW, days)
    return found


@cache
def user_crontab() -> dict[str, Draft]:
    return by_name(crontab.read((SAMPLES / "user.crontab").read_text(encoding="utf-8"), zone=BERLIN, system=False))


@cache
def beat() -> dict[str, Draft]:
    return by_name(celery.read((SAMPLES / "celeryconfig.py").read_text(encoding="utf-8")))


@cache
def scheduler() -> dict[str, Draft]:
    return by_name(apscheduler.read((SAMPLES / "apscheduler_jobs.py").read_text(encoding="utf-8"), zone="UTC"))


@cache
def timers() -> dict[str, Draft]:
    found: list[Draft] = []
    for path in sorted((SAMPLES / "systemd").glob("*.timer")):
        timer = systemd.parse_unit(path.read_text(encoding="utf-8"))
        service = path.parent / systemd.service_of(timer, path.name)
        unit = systemd.parse_unit(service.read_text(encoding="utf-8")) if service.exists() else None
        found += systemd.read(timer, unit, name=path.name, zone=BERLIN)
    return by_name(found)


@cache
def cluster() -> dict[str, Draft]:
    return by_name(kubernetes.read(yaml.safe_load_all((SAMPLES / "cronjobs.yaml").read_text(encoding="utf-8")), zone="UTC"))


# ---------------------------------------------------------------- when the old system fires


@pytest.mark.parametrize(
    "name",
    ["backup", "rsync", "curl", "sync-mail", "either-day", "both-days", "office-hours", "weekly"],
)
def test_cron_fires_as_its_daemon_does(name: str) -> None:
    draft = user_crontab()[name]
    expression = draft.source.split()[0] if draft.source.startswith("@") else " ".join(draft.source.split()[:5])
    daemon = cron(expression, BERLIN, BEGIN, DAYS)

    assert draft.old is not None
    assert sorted(draft.old(BEGIN, END)) == daemon
    difference = seen(draft).difference
    assert difference is not None
    # Only what the daemon starts several times at one instant is started once here.
    assert Counter(difference.only_old) == Counter(daemon) - Counter(set(daemon))
    assert difference.only_new == ()


def test_a_cron_tz_is_a_wall_that_nobody_looks_after() -> None:
    draft = user_crontab()["new-york"]

    assert draft.old is not None
    assert draft.old(BEGIN, END) == controller("30 2 * * *", "America/New_York", BEGIN, DAYS)
    assert seen(draft).difference is not None
    assert seen(draft).difference.is_none


@pytest.mark.parametrize("name", sorted(RECORDED["celery"]))
def test_beat_fires_as_celery_does(name: str) -> None:
    _as_recorded(beat()[name], RECORDED["celery"][name])


@pytest.mark.parametrize("name", sorted(RECORDED["apscheduler"]))
def test_triggers_fire_as_apscheduler_does(name: str) -> None:
    _as_recorded(scheduler()[name], RECORDED["apscheduler"][name])


@pytest.mark.parametrize("expression", sorted(RECORDED["systemd"]))
def test_calendars_elapse_as_systemd_says(expression: str) -> None:
    calendar = systemd_calendar.read(expression)
    fires = calendar.fires("UTC", BEGIN, END)

    _equal(fires, RECORDED["systemd"][expression])
    body = {**calendar.timing("UTC"), "target": {"handler": "a"}}
    draft = Draft(name="a", where="", source="", body=body, old=lambda after, until: calendar.fires("UTC", after, until))
    difference = seen(draft).difference
    assert difference is not None
    if len(calendar.hours) < 24:
        assert difference.is_none
    else:
        # systemd is silent while the clocks show an hour for the second time; here every hour has its fire.
        assert difference.only_old == ()
        assert all(BEGIN + 84 * 86_400 < at < BEGIN + 86 * 86_400 for at in difference.only_new)


def _as_recorded(draft: Draft, recorded: dict[str, Any]) -> None:
    assert draft.old is not None
    _equal(draft.old(BEGIN, END), recorded)


def _equal(fires: list[int], recorded: dict[str, Any]) -> None:
    near = set(recorded["near_changes"])
    assert near <= set(fires), "what happens when the clocks change"
    assert len(fires) == recorded["count"]
    assert hashlib.sha256(json.dumps(fires).encode()).hexdigest() == recorded["sha256"]


def test_cronjobs_fire_as_the_controller_does() -> None:
    found = cluster()
    assert found["shop/backup"].old is not None
    assert found["shop/backup"].old(BEGIN, END) == controller("30 2 * * *", BERLIN, BEGIN, DAYS)
    assert found["odd-days"].old is not None
    assert found["odd-days"].old(BEGIN, END) == controller("0 4 */2 * 1", "UTC", BEGIN, DAYS)
    for name in ("shop/backup", "odd-days", "every-hour-and-a-half"):
        assert seen(found[name]).difference is not None
        assert seen(found[name]).difference.is_none, name


def test_github_fires_in_utc() -> None:
    [nightly, office, wrong] = github.read(
        yaml.safe_load((SAMPLES / "workflow.yml").read_text(encoding="utf-8")), file=".github/workflows/workflow.yml", repository="a/b"
    )

    assert nightly.old is not None
    assert nightly.old(BEGIN, END) == controller("17 3 * * *", "UTC", BEGIN, DAYS)
    assert office.old is not None
    assert office.old(BEGIN, END) == controller("20-59/15 8-17 * * 1-5", "UTC", BEGIN, DAYS)
    assert seen(nightly).difference is not None
    assert seen(nightly).difference.is_none
    assert seen(office).difference is not None
    assert seen(office).difference.is_none
    assert nightly.body is not None
    assert nightly.body["target"]["http"]["url"] == "https://api.github.com/repos/a/b/actions/workflows/workflow.yml/dispatches"
    assert nightly.decisions == ()
    assert "out of range" in str(wrong.cannot)


def workflow(*schedules: Any) -> list[Draft]:
    return github.read({"on": {"schedule": list(schedules), "workflow_dispatch": None}}, file="a.yml", repository="a/b")


def test_what_github_does_not_take_has_never_run() -> None:
    macro, sunday, seconds, zone, unknown = workflow(
        {"cron": "@daily"},
        {"cron": "0 5 * * 7"},
        {"cron": "0 0 5 * * *"},
        {"cron": "0 5 * * *", "timezone": "Mars/Base"},
        {"cron": "0 5 * * *", "x": 1},
    )

    assert (macro.body, macro.old) == (None, None)
    assert "GitHub does not take @daily and never ran it; write 0 0 * * *" in str(macro.cannot)
    assert "out of range" in str(sunday.cannot)
    assert "6 fields" in str(seconds.cannot)
    assert "Mars" in str(zone.cannot)
    assert "x beside cron" in str(unknown.cannot)


def test_github_starts_nothing_more_often_than_every_five_minutes() -> None:
    minutely, edges, calm, apart = workflow(
        {"cron": "* * * * *"}, {"cron": "0,58 * * * *"}, {"cron": "*/5 * * * *"}, {"cron": "0,58 3 * * *"}
    )

    for draft, before, now in ((minutely, 288, 1440), (edges, 25, 48), (calm, 288, 288), (apart, 2, 2)):
        assert draft.old is not None
        assert len(draft.old(BEGIN - 1, BEGIN + 86_399)) == before
        difference = seen(draft, 2).difference
        assert difference is not None
        assert difference.is_none is (before == now)
        assert any("every 5 minutes at most" in note for note in draft.notes) is (before != now)


def test_a_timezone_beside_github_s_cron_is_kept() -> None:
    fixed, wild = workflow({"cron": "30 2 * * *", "timezone": BERLIN}, {"cron": "*/15 * * * *", "timezone": BERLIN})
    spring = int(datetime(2027, 3, 28, 1, tzinfo=UTC).timestamp())

    assert fixed.body is not None
    assert (fixed.body["schedule"], fixed.body["timezone"]) == ("30 2 * * *", BERLIN)
    assert fixed.old is not None
    # "A 2:30 AM schedule advances to 3:00 AM", says GitHub.
    assert fixed.old(spring - 7200, spring + 7200) == [spring]
    for draft in (fixed, wild):
        assert seen(draft).difference is not None
        assert seen(draft).difference.is_none
        assert any("comes twice" in note for note in draft.notes)


# ---------------------------------------------------------------- what becomes of them


def test_a_crontab_with_its_variables_its_shells_and_its_percent_signs() -> None:
    found = user_crontab()
    backup, artisan, mail, weekly = (found[name].body for name in ("backup", "artisan", "mail", "weekly"))

    assert backup is not None
    assert backup["target"]["shell"] == ["/usr/local/bin/backup.sh", "--full"]
    assert backup["target"]["env"] == {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "LANG": "C.UTF-8"}
    assert (backup["overlap"], backup["catchUp"], backup["retryPolicy"]) == ("allow", "none", {"maxAttempts": 1})
    assert artisan is not None
    assert artisan["target"]["shell"] == ["/bin/bash", "-c", "php /srv/shop/artisan schedule:run >> /dev/null 2>&1"]
    assert [one.key for one in found["artisan"].decisions] == ["shell"]
    assert found["artisan"].undecided(["shell"]) == ()
    assert mail is not None
    assert mail["target"]["shell"][2] == "printf %s 'Disk report\nSee above.\n' | mail -s \"50% full\" ops@example.com"
    assert [one.key for one in found["mail"].decisions] == ["stdin", "shell"]
    assert weekly is not None
    assert weekly["target"]["shell"][1:] == ["-c", 'cd /srv/shop && ./weekly "$HOME"']
    assert "@reboot" in str(found["warm-cache"].cannot)
    assert "out of range" in str(found["no-such-hour"].cannot)
    assert found["wide-step"].body is not None
    assert found["wide-step"].body["schedule"] == "0 0 * * *"
    assert any("MAILTO" in note for note in found["backup"].notes)
    assert all(seen(draft, 2).refusal is None for draft in found.values())


def test_a_system_crontab_has_users() -> None:
    text = (SAMPLES / "system.crontab").read_text(encoding="utf-8")
    found = by_name(crontab.read(text, zone="UTC", system=crontab.is_system(text, "copy")))

    assert crontab.is_system("", "/etc/cron.d/php")
    assert not crontab.is_system((SAMPLES / "user.crontab").read_text(encoding="utf-8"), "mine")
    assert found["vacuum"].body is not None
    assert found["vacuum"].body["target"]["shell"] == ["/usr/lib/postgresql/vacuum", "--all"]
    assert "as postgres" in found["vacuum"].decisions[0].question
    assert {one.key for draft in found.values() for one in draft.decisions} == {"user", "shell"}


def test_a_beat_schedule_is_read_and_never_run() -> None:
    found = beat()

    assert {name for name, draft in found.items() if draft.cannot} == {"sunset", "elsewhere"}
    report = found["nightly-report"].body
    assert report is not None
    assert report["target"] == {"pool": "reports", "handler": "shop.tasks.nightly_report"}
    assert report["payload"] == {"region": "eu"}
    # A plain task is not tried again.
    assert all(draft.body["retryPolicy"] == {"maxAttempts": 1} for draft in found.values() if draft.body is not None)
    assert any("autoretry_for" in note for note in found["nightly-report"].notes)
    assert (report["timezone"], report["dstGap"], report["dstOverlap"]) == (BERLIN, "shift", "first")
    assert found["sync"].body is not None
    assert found["sync"].body["payload"] == {"args": [16, "full"]}
    assert [one.key for one in found["sync"].decisions] == ["args"]
    assert found["first-monday"].body is not None
    assert found["first-monday"].body["type"] == "RRULE"
    for name in ("nightly-report", "first-monday", "winter", "remind-on-mondays", "sync"):
        assert seen(found[name]).difference is not None
        assert seen(found[name]).difference.is_none, name
    # Beat drops two of three times that the clocks jump over, and is silent for an hour in autumn.
    assert [len(seen(found[name]).difference.only_new) for name in ("twice-in-the-gap", "every-quarter")] == [2, 4]


def test_apschedulers_jobs_are_read_and_never_run() -> None:
    found = scheduler()

    assert {name for name, draft in found.items() if draft.cannot} == {"at-once", "weeks", "computed", "job"}
    reasons = " ".join(str(draft.cannot) for draft in found.values() if draft.cannot)
    assert all(text in reasons for text in ("weeks of the year", "when the program starts", "not a literal", "** take in"))
    nightly = found["nightly"].body
    assert nightly is not None
    assert (nightly["overlap"], nightly["maxRunning"]) == ("allow", 3)
    assert nightly["catchUp"] == {"policy": "all", "windowSec": 3600}
    assert found["month-end"].body is not None
    assert found["month-end"].body["overlap"] == "skip"
    assert found["once"].body is not None
    assert found["once"].body["runAt"] == "2026-12-24T17:00:00Z"
    assert found["anchored"].body is not None
    assert found["anchored"].body["anchorAt"] == "2026-08-03T00:30:00Z"
    for name, draft in found.items():
        if draft.cannot is None and name != "both":
            assert seen(draft).difference is not None
            assert seen(draft).difference.is_none, name


def test_timers_bring_their_services_along() -> None:
    found = timers()

    backup = found["backup"].body
    assert backup is not None
    assert backup["target"] == {
        "pool": "default",
        "shell": ["/usr/local/bin/backup", "--all", "/srv/my data"],
        "env": {"BACKUP_TARGET": "s3", "GREETING": "hello world"},
    }
    assert (backup["jitterSec"], backup["catchUp"], backup["timeoutSec"], backup["overlap"]) == (900, "latest", 5400, "skip")
    assert backup["retryPolicy"] == {"maxAttempts": 5, "backoff": "FIXED", "initialDelayMs": 30_000}
    assert [one.key for one in found["month-end"].decisions] == ["hooks", "user", "directory"]
    assert found["month-end"].body is not None
    assert found["month-end"].body["schedule"] == "FREQ=DAILY;BYMONTHDAY=-3;BYHOUR=6;BYMINUTE=0;BYSECOND=0"
    assert found["month-end-2"].body is not None
    assert found["poll"].body is not None
    assert found["poll"].body["intervalSec"] == 86_400
    assert [one.key for one in found["poll"].decisions] == ["shell"]
    assert "boot" in str(found["boot"].cannot)
    assert "not found" in str(found["orphan"].cannot)
    for name in ("backup", "month-end", "month-end-2", "poll"):
        assert seen(found[name]).difference is not None
        assert seen(found[name]).difference.is_none, name


def test_cronjobs_keep_their_policies() -> None:
    found = cluster()

    backup = found["shop/backup"].body
    assert backup is not None
    assert backup["target"] == {"pool": "default", "shell": ["/usr/bin/backup", "--all"], "env": {"LEVEL": "9"}}
    assert (backup["overlap"], backup["catchUp"], backup["executionTimeoutSec"]) == ("skip", {"policy": "latest", "windowSec": 600}, 3600)
    assert backup["retryPolicy"]["maxAttempts"] == 3
    assert [one.key for one in found["shop/backup"].decisions] == ["image"]
    assert found["odd-days"].paused
    assert found["odd-days"].body is not None
    assert found["odd-days"].body["overlap"] == "kill_previous"
    assert [one.key for one in found["odd-days"].decisions] == ["image", "env", "volumes"]
    assert "starts by itself" in str(found["entrypoint"].cannot)
    assert "2 containers" in str(found["two"].cannot)


def container(**more: Any) -> Draft:
    pod = {"containers": [{"image": "a", **more}]}
    document = {
        "kind": "CronJob",
        "metadata": {"name": "a"},
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": pod}}}},
    }
    [draft] = kubernetes.read([document], zone="UTC")
    return draft


def test_variables_in_a_command_are_expanded_as_the_kubelet_does() -> None:
    draft = container(
        command=["sh", "-c", "backup --to $(TARGET) --at $(date +%F) $HOME $$ $$(TARGET) $(NOBODY) $(", "$("],
        args=["$(WITH_MORE)", "$$$(HOST)", "$(LATER)$x$"],
        env=[
            {"name": "HOST", "value": "s3"},
            {"name": "TARGET", "value": "$(HOST)/shop"},
            {"name": "WITH_MORE", "value": "$$(HOST) $(LATER) $(TARGET)"},
            {"name": "LATER", "value": 7},
            {"name": "EMPTY"},
        ],
    )

    assert draft.body is not None
    assert draft.body["target"]["shell"] == [
        "sh",
        "-c",
        "backup --to s3/shop --at $(date +%F) $HOME $ $(TARGET) $(NOBODY) $(",
        "$(",
        "$(HOST) $(LATER) s3/shop",
        "$s3",
        "7$x$",
    ]
    assert draft.body["target"]["env"] == {
        "HOST": "s3",
        "TARGET": "s3/shop",
        "WITH_MORE": "$(HOST) $(LATER) s3/shop",
        "LATER": "7",
        "EMPTY": "",
    }
    assert [one.key for one in draft.decisions] == ["image"]


def test_a_command_with_a_value_that_only_the_cluster_knows_needs_a_decision() -> None:
    secret = {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}
    address = {"name": "DSN", "value": "postgres://shop:$(PASSWORD)@db"}
    direct = container(command=["dump", "--password=$(PASSWORD)"], env=[secret])
    through = container(command=["dump", "$(DSN)"], env=[secret, address])
    sources = container(command=["sh", "-c", "dump $(TOKEN) $(date +%F)"], envFrom=[{"secretRef": {"name": "tokens"}}])
    service = container(command=["curl", "$(SHOP_SERVICE_HOST)"])

    assert direct.body is not None
    assert direct.body["target"]["shell"] == ["dump", "--password=$(PASSWORD)"]
    for draft, used in (
        (direct, "$(PASSWORD)"),
        (through, "$(PASSWORD), $(DSN)"),
        (sources, "$(TOKEN)"),
        (service, "$(SHOP_SERVICE_HOST)"),
    ):
        [decision] = [one for one in draft.decisions if one.key == "variables"]
        assert f"the values of {used} into" in decision.question
    assert "variables" not in [one.key for one in container(command=["sh", "-c", "echo $(hostname)"]).decisions]


@pytest.mark.parametrize("text", ["$(" * 400_000, "$" * 800_000, "$(a" * 300_000 + ")"])
def test_no_text_makes_the_expansion_slow(text: str) -> None:
    began = time.perf_counter()

    container(command=[text])

    assert time.perf_counter() - began < 5


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("* * * *", "5 fields"),
        ("1 2 3 4 5", "no command"),
        ("5/15 * * * * x", "step without a range"),
        ("0~59 * * * * x", "at random"),
        ("*/0 * * * * x", "step of 0"),
        ("CRON_TZ=Mars/Base\n0 * * * * x", "Mars"),
    ],
)
def test_a_line_that_cannot_be_a_job_says_why(text: str, reason: str) -> None:
    [draft] = crontab.read(text, zone="UTC", system=False)

    assert draft.body is None
    assert reason in str(draft.cannot)


@pytest.mark.parametrize("text", ["", "Foo 02:00", "*-*-* 25:00", "2026-*-*", "*-*-* 01:00 Nowhere/City", "*:*:0.5", "10..5:00", "a b c d"])
def test_a_calendar_expression_that_has_no_equal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        systemd_calendar.read(text).timing("UTC")


# What `systemd-analyze calendar` (252) answers with "Invalid argument": such a timer has never elapsed.
@pytest.mark.parametrize(
    "text",
    [
        "Fri..Mon 05:00", "Fri-Mon 05:00", "Sun..Sat 05:00", "Mon..Tue,Sun..Mon 05:00", "Mon,,Wed 05:00", "Tues 05:00", "Thurs 05:00",
        "*:*/15", "*/2:00", "*,5:00", "1,*:00", "*-*-*,1 05:00", "*-*-1, 05:00", "*:0/60", "*-*-31/2", "*-*-5/40", "5/:00", "5..:00",
        "*-*~3..1", "*-*~31", "*-*~1/1", "24:00", "2026-05", "daily 05:00", "Mon daily", "+5:00",
    ],
)  # fmt: skip
def test_what_systemd_refuses_has_no_fires(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        systemd_calendar.read(text)
    [draft] = systemd.read(
        systemd.parse_unit(f"[Timer]\nOnCalendar={text}\n"), systemd.parse_unit("[Service]\nExecStart=/bin/a"), name="a.timer", zone="UTC"
    )
    assert draft.body is None
    assert draft.old is None
    assert draft.cannot


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Sat..Sun,Wed 05:00", "2026-08-01T05:00:00"),
        ("Mon, 05:00", "2026-08-03T05:00:00"),
        ("*:0/15", "2026-08-01T00:15:00"),
        ("5..24/2:50", "2026-08-01T05:50:00"),
        ("5..10/40:00", "2026-08-01T05:00:00"),
        ("*-*~*", "2026-08-02T00:00:00"),
        ("*-*~7..17/3", "2026-08-16T00:00:00"),
        ("*-*~24/15", "2026-08-08T00:00:00"),
        ("bi-annually", "2027-01-01T00:00:00"),
        ("05:00 utc", "2026-08-01T05:00:00"),
        ("05:00 CET", "2026-08-01T03:00:00"),
    ],
)
def test_what_systemd_takes_elapses_when_it_says(text: str, first: str) -> None:
    assert systemd_calendar.read(text).fires("UTC", BEGIN, END)[0] == datetime.fromisoformat(f"{first}+00:00").timestamp()


def test_what_fires_too_often_is_compared_over_fewer_days() -> None:
    found = preview([beat()["heartbeat"]], NOW, 400, most=10_000)[0]

    assert found.days == 3
    assert found.difference is not None
    assert found.difference.is_none


def test_cronies_dash_keeps_a_command_out_of_the_log_and_nothing_else() -> None:
    found = by_name(
        crontab.read("-*/5 * * * * /bin/a\n-@daily /bin/b\n-30 2 * * * root /bin/c\n- 5 * * * /bin/d\n", zone="UTC", system=False)
    )
    [system] = crontab.read("-30 2 * * * root /bin/c\n", zone="UTC", system=True)

    assert [(draft.body or {}).get("schedule") for draft in found.values()] == ["*/5 * * * *", "@daily", "30 2 * * *", None]
    assert found["a"].source == "-*/5 * * * * /bin/a"
    assert any("syslog" in note for note in found["a"].notes)
    assert found["a"].body is not None
    assert found["a"].body["target"]["shell"] == ["/bin/a"]
    assert found["b"].old is not None
    assert len(found["b"].old(BEGIN, END)) == DAYS
    assert system.body is not None
    assert (system.body["schedule"], system.name) == ("30 2 * * *", "c")


def test_names_stay_apart_and_stay_the_same() -> None:
    text = "0 1 * * * /bin/a\n0 2 * * * /bin/a\n0 3 * * * /bin/b\n"

    assert list(by_name(crontab.read(text, zone="UTC", system=False))) == ["a", "a-2", "b"]
    assert [draft.name for draft in with_names_apart(crontab.read(text, zone="UTC", system=False), "old/")] == ["old/a", "old/a-2", "old/b"]
