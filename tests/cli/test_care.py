"""Looking after it: `db` and `doctor`."""

from __future__ import annotations

import json
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from duly.cli.doctor.alerts import latest, usable
from duly.cli.doctor.machine import age_of_zones
from duly.cli.doctor.server import _clocks, _cluster, _zones, clocks_ahead
from duly.domain.calendars import OnExcluded
from duly.domain.dst import DstGap, DstOverlap
from duly.domain.instants import from_rfc3339
from duly.domain.job import JobType
from duly.wire.alerts import ChannelView, DeliveryView, RuleView
from duly.wire.cluster import ClusterView
from duly.wire.fleet import WorkerView
from duly.wire.jobs import JobView
from tests.cli.processes import Running, duly, environment


def test_upgrade_makes_a_store_and_status_says_so(tmp_path: Path) -> None:
    env = environment(tmp_path / "home")

    missing = duly("db", "status", env=env)
    plan = duly("db", "upgrade", "--plan", env=env)
    before = (tmp_path / "home").exists()
    upgraded = duly("db", "upgrade", env=env)
    status = duly("db", "status", env=env)
    again = duly("db", "upgrade", env=env)

    assert missing.code == 3
    assert "There is no store at" in missing.err
    assert "CREATE TABLE" in plan.out
    assert not before
    assert upgraded.code == 0
    assert "✓ 0001_" in upgraded.err
    assert status.code == 0
    assert {row[1] for row in status.rows} == {"applied"}
    assert "The schema is current." in status.err
    assert "Nothing to do" in again.err


def test_a_backup_is_one_private_file_that_runs(server: Running, tmp_path: Path) -> None:
    server.duly("job", "create", "--name", "backed-up", "--handler", "duly.echo")
    copy = tmp_path / "copy.db"

    answer = server.duly("db", "backup", str(copy))

    assert answer.code == 0
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["copy.db"]
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT count(*) FROM jobs WHERE name = 'backed-up'").fetchone() == (1,)
    twice = server.duly("db", "backup", str(copy))
    assert twice.code == 5
    assert "A backup never overwrites" in twice.err


def test_a_backup_that_cannot_be_written_leaves_nothing(server: Running, tmp_path: Path) -> None:
    answer = server.duly("db", "backup", str(tmp_path / "nowhere" / "copy.db"))

    assert answer.code == 6
    assert "cannot be written: No such file or directory" in answer.err
    assert list(tmp_path.iterdir()) == []


def test_a_backup_of_postgresql_names_the_right_command(tmp_path: Path) -> None:
    answer = duly("db", "backup", "copy.dump", "--store", "postgresql://me:hunter2@db/duly", env=environment(tmp_path))

    assert answer.code == 1
    assert "pg_dump --format=custom --schema=duly --file=copy.dump 'postgresql://me:…@db/duly'" in answer.err
    assert "pg_basebackup" in answer.err
    assert "hunter2" not in answer.err


def test_status_and_upgrade_of_postgresql(postgres_dsn: str, tmp_path: Path) -> None:
    env = environment(tmp_path, DULY_STORE=postgres_dsn)

    before = duly("db", "status", env=env)
    upgraded = duly("db", "upgrade", env=env)
    after = duly("db", "status", env=env)

    assert (before.code, upgraded.code, after.code) == (1, 0, 0)
    assert {row[1] for row in before.rows} == {"waiting"}
    assert {row[1] for row in after.rows} == {"applied"}


def test_up_on_postgresql(start: Callable[..., Running], postgres_dsn: str, tmp_path: Path) -> None:
    running = start("up", "--port", "0", home=tmp_path / "home", DULY_STORE=postgres_dsn).ready()
    running.duly("job", "create", "--name", "echo", "--handler", "duly.echo")

    assert running.duly("run", "echo", "--exit-status").code == 0
    assert "store    created postgresql://" in running.printed


# ---------------------------------------------------------------- doctor


def findings(answer_out: str) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for finding in json.loads(answer_out):
        found.setdefault(finding["check"], []).append(finding)
    return found


def test_doctor_finds_all_well(start: Callable[..., Running], tmp_path: Path) -> None:
    running = start("up", "--port", "0", home=tmp_path / "home").ready()
    running.duly("job", "create", "--name", "echo", "--handler", "duly.echo", "--cron", "0 3 * * *")

    answer = running.duly("doctor")

    assert answer.code == 0, answer.out
    assert "✗" not in answer.out
    assert "✓ handlers     every handler of 1 active job has a live worker" in answer.out


def test_doctor_looks_for_who_serves_the_steps_of_a_workflow(start: Callable[..., Running], tmp_path: Path) -> None:
    running = start("up", "--port", "0", home=tmp_path / "home").ready()

    def create(name: str, *steps: dict[str, object]) -> None:
        assert running.duly("job", "create", "--file", "-", stdin=json.dumps({"name": name, "steps": steps})).code == 0

    create("served", {"name": "a", "target": {"handler": "duly.echo"}}, {"name": "b", "dependsOn": ["a"], "approval": {}})
    assert "✓ handlers     every handler of 1 active job has a live worker" in running.duly("doctor").out

    create("lonely", {"name": "a", "target": {"handler": "nobody", "pool": "gpu"}})
    [finding] = findings(running.duly("doctor", "--json").out)["handlers"]
    assert finding["text"] == "no live worker serves nobody in pool gpu: lonely cannot run"


def test_doctor_names_a_fix_for_each_finding(start: Callable[..., Running], tmp_path: Path) -> None:
    running = start("server", "--port", "0", home=tmp_path / "home").ready()
    running.duly("job", "create", "--name", "orphan", "--handler", "nobody")
    (tmp_path / "home" / "admin.key").chmod(0o644)

    answer = running.duly("doctor", "--json")

    found = findings(answer.out)
    assert answer.code == 1
    assert found["workers"][0]["verdict"] == "fail"
    assert "duly worker" in found["workers"][0]["fix"]
    assert found["permissions"][0]["fix"].startswith("chmod 600 ")
    assert {finding["verdict"] for finding in found["store"] + found["schema"] + found["key"]} == {"pass"}


def test_doctor_names_handlers_that_nobody_serves(server: Running) -> None:
    server.duly("job", "create", "--name", "unserved", "--handler", "unserved_handler", "--pool", "faraway")

    found = findings(server.duly("doctor", "--json").out)

    assert "unserved_handler in pool faraway" in found["handlers"][0]["text"]
    server.duly("job", "delete", "unserved")


def test_doctor_without_a_server_or_a_store(tmp_path: Path) -> None:
    answer = duly("doctor", "--server", "http://127.0.0.1:1", env=environment(tmp_path / "home"))

    assert answer.code == 1
    assert "! store        there is no store at" in answer.out
    assert "✗ server       No Duly server answers at http://127.0.0.1:1" in answer.out
    assert "fix: Start one with `duly up`, or set DULY_URL." in answer.out
    assert not (tmp_path / "home").exists()


def test_doctor_with_a_wrong_key(server: Running) -> None:
    answer = duly("doctor", "--json", env={**server.client_environment, "DULY_KEY": "duly_of_somebody_else"})

    assert answer.code == 1
    assert "DULY-E302" in findings(answer.out)["key"][0]["text"]


def test_doctor_puts_right_what_it_can_without_asking(tmp_path: Path) -> None:
    env = environment(tmp_path / "home")
    duly("db", "upgrade", env=env)
    file = tmp_path / "home" / "duly.db"
    file.chmod(0o644)

    looked = duly("doctor", "--json", "--server", "http://127.0.0.1:1", env=env)
    after_a_look = stat.S_IMODE(file.stat().st_mode)
    fixed = duly("doctor", "--fix", "--json", "--server", "http://127.0.0.1:1", env=env)

    assert findings(looked.out)["permissions"][0]["verdict"] == "fail"
    assert after_a_look == 0o644
    assert findings(fixed.out)["permissions"][0]["verdict"] == "pass"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def cluster(**more: object) -> ClusterView:
    """A fleet of one dispatcher that owns the only shard."""
    return msgspec.structs.replace(
        msgspec.convert(
            {
                "now": "2026-03-08T07:00:00Z",
                "clockSkewMs": 1.5,
                "store": {"kind": "postgres", "roundTripMs": 1.0},
                "leaseService": {"kind": "store", "isReachable": True, "members": [], "trouble": None},
                "dispatchers": [
                    {
                        "name": "one",
                        "host": "a",
                        "pid": 1,
                        "version": "0.1.0",
                        "expiresAt": "2026-03-08T07:00:09Z",
                        "shards": 1,
                        "isPresent": None,
                        "clockSkewMs": -20.0,
                    }
                ],
                "shards": [{"shard": 0, "owner": "one", "epoch": 3, "leaseUntil": "2026-03-08T07:00:09Z", "progressAt": None}],
            },
            ClusterView,
        ),
        **more,
    )


def test_clocks_that_are_off_are_findings_of_those_who_fire_and_of_those_who_run() -> None:
    [dispatcher] = cluster().dispatchers
    fast = cluster(dispatchers=[msgspec.structs.replace(dispatcher, clock_skew_ms=1800.0)])

    [well] = _clocks(cluster(), [worker("a", 3.0), worker("old", None)])
    [off] = _clocks(fast, [worker("a", -2500.0), worker("b", 999.0)])

    assert (well.verdict, well.text) == ("pass", "the clocks of the fleet are within 20 ms of the store's")
    assert off.verdict == "warn"
    assert off.text.endswith("dispatcher one by +1.8 s, worker a by -2.5 s")
    assert "chrony" in (off.fix or "")


def worker(name: str, skew: float | None) -> WorkerView:
    at = "2026-03-08T07:00:00Z"
    said = {"workerId": "1", "name": name, "state": "LIVE", "pool": "default", "labels": {}, "handlers": [], "slots": 1, "running": 0}
    more = {"host": "h", "pid": 1, "version": "0.1.0", "startedAt": at, "expiresAt": at, "clockSkewMs": skew}
    return msgspec.convert(said | more, WorkerView)


def test_shards_of_nobody_are_findings() -> None:
    well = {finding.check: finding for finding in _cluster(cluster())}
    [shard] = cluster().shards
    gone = msgspec.structs.replace(shard, owner="two", lease_until="2026-03-08T06:59:00Z")
    stray = {f.check: f for f in _cluster(cluster(shards=[gone]))}
    [nobody] = _cluster(cluster(dispatchers=[]))

    assert {check: finding.verdict for check, finding in well.items()} == {"dispatchers": "pass"}
    assert stray["dispatchers"].verdict == "fail"
    assert nobody.verdict == "fail"


def test_zones_of_years_ago_are_a_finding() -> None:
    assert [finding.verdict for finding in age_of_zones("2023c", 2026)] == ["warn"]
    assert list(age_of_zones("2025b", 2026)) == []


def test_dispatchers_with_zones_of_different_or_old_releases_are_findings() -> None:
    [one] = cluster().dispatchers
    another = msgspec.structs.replace(one, name="two", tzdata="2019c")
    mixed = cluster(dispatchers=[msgspec.structs.replace(one, tzdata="2026b"), another])

    assert list(_zones(cluster())) == [], "an older release of Duly does not say"
    different, old = _zones(mixed)
    assert "tzdata 2019c, 2026b" in different.text
    assert "of the servers are those of 2019" in old.text
    assert {different.verdict, old.verdict} == {"warn"}


def test_a_herd_and_an_odd_schedule_are_findings(start: Callable[..., Running], tmp_path: Path) -> None:
    running = start("up", "--port", "0", home=tmp_path / "home").ready()
    herd = [f'[[job]]\nname = "midnight-{nth}"\ncron = "0 0 * * *"\nhandler = "duly.echo"\n' for nth in range(12)]
    odd = '[[job]]\nname = "odd"\ncron = "*/7 * * * *"\nhandler = "duly.echo"\n'
    (tmp_path / "jobs.toml").write_text("\n".join([*herd, odd]))
    applied = running.duly("apply", str(tmp_path / "jobs.toml"))
    assert applied.code == 0, applied.err

    found = findings(running.duly("doctor", "--json").out)

    assert found["herd"][0]["verdict"] == "warn"
    assert "fires share one minute" in found["herd"][0]["text"]
    assert "duly schedule spread" in found["herd"][0]["fix"]
    assert "odd" in found["lint"][0]["text"]
    assert found["dispatchers"][0]["verdict"] == found["clocks"][0]["verdict"] == "pass"
    assert found["dead man"][0]["verdict"] == "note"


def job(name: str, schedule: str, **more: object) -> JobView:
    said = {"jobId": "job_" + "0" * 31 + "1", "name": name, "type": JobType.CRON, "schedule": schedule, "timezone": "Europe/Berlin"}
    rules = {
        "dstGap": DstGap.RUN_AFTER,
        "dstOverlap": DstOverlap.FIRST,
        "seconds": False,
        "calendars": [],
        "onExcluded": OnExcluded.SKIP,
        "jitterSec": 0.0,
    }
    return stub(JobView, said | rules | more)


def stub(view: type[Any], said: dict[str, object]) -> Any:
    """A view of which only this is known; all else is null."""
    return view(**{field.name: said.get(field.encode_name) for field in msgspec.structs.fields(view)})


def test_schedules_that_meet_a_change_of_the_clocks_are_noted_with_what_happens() -> None:
    now = from_rfc3339("2026-01-15T12:00:00Z")
    jobs = [
        job("late", "30 2 * 10 *"),
        job("nightly", "30 2 * * *"),
        job("skipping", "15 2 * * *", dstGap=DstGap.SKIP),
        job("at-noon", "0 12 * * *"),
        job("often", "*/5 * * * *"),
        job("asked", "30 2 * * *", type=JobType.ON_DEMAND),
    ]

    [note] = clocks_ahead(jobs, {}, now)

    assert (note.check, note.verdict) == ("dst", "note")
    assert note.text == (
        "3 schedules meet a change of the clocks within a year: "
        "nightly on 2026-03-29 (02:30 does not exist on this day; runs at 03:00), "
        "skipping on 2026-03-29 (02:15 does not exist on this day and is left out), "
        "late on 2026-10-25 (02:30 happens twice on this day; runs at the first)"
    )
    assert "dstGap" in (note.fix or "")
    assert list(clocks_ahead(jobs[3:], {}, now)) == []


def test_channels_that_would_tell_nobody_are_findings() -> None:
    def channel(name: str, **more: object) -> ChannelView:
        return stub(ChannelView, {"name": name, "kind": "webhook", "url": f"https://{name}.example/hook", "enabled": True} | more)

    def delivery(channel: str, event: str = "opened", *, tries: int = 1, **more: object) -> DeliveryView:
        return stub(DeliveryView, {"channel": channel, "event": event, "tries": tries} | more)

    sent = {"sentAt": "2026-03-08T07:00:00Z"}
    names = ("well", "fails", "off", "bad", "masked", "new", "unused")
    rule = stub(RuleView, {"name": "all", "enabled": True, "channels": list(names[:-1])})
    channels = [channel(name) for name in names]
    channels[2].enabled = False
    channels[3].url = "https://[::1"
    channels[4].url = "https://hooks.example/…"
    newest = [delivery("well", error="no answer"), delivery("well", "resolved", **sent), delivery("new", tries=0)]
    older = [
        delivery("fails", tries=9, givenUpAt="2026-03-08T07:00:00Z", error="404\x1b[31m"),
        delivery("well", error="no answer"),
        delivery("masked", **sent),
    ]

    found = list(usable(channels, [rule], latest([newest, older], names)))

    assert [(finding.verdict, finding.text) for finding in found] == [
        ("warn", "the last alert by fails was given up (9 tries): 404\\x1b[31m"),
        ("warn", "off is off: all would tell nobody by it"),
        ("warn", "the address of bad is none: Invalid IPv6 URL"),
        ("note", "no recent alert went out by new: whether they arrive is not known"),
    ]
    assert [finding.check for finding in found] == ["channel"] * 4
    assert all("duly alert" in (finding.fix or "") for finding in found)
    assert (found[0].fix or "").startswith("duly alert test fails")


def test_no_more_incidents_are_looked_at_than_it_takes() -> None:
    looked: list[int] = []

    def incidents() -> Iterator[list[DeliveryView]]:
        for nth in range(10):
            looked.append(nth)
            yield [stub(DeliveryView, {"channel": "ops", "event": "opened", "tries": 1})]

    assert latest(incidents(), {"ops"}).keys() == {"ops"}
    assert looked == [0]


def test_a_channel_that_was_never_tried_is_a_note(server: Running) -> None:
    server.duly("alert", "set-channel", "quiet", "-", stdin=json.dumps({"kind": "webhook", "url": "https://127.0.0.1/hook"}))
    server.duly("alert", "set-rule", "quiet", "-", stdin=json.dumps({"kind": "failures", "count": 2, "channels": ["quiet"]}))

    [found] = findings(server.duly("doctor", "--json").out)["channel"]

    server.duly("alert", "delete-rule", "quiet")
    server.duly("alert", "delete-channel", "quiet")
    assert (found["verdict"], found["fix"]) == ("note", "duly alert test quiet")
