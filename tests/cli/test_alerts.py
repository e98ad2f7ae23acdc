"""Alerts on the command line, against a real server."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.processes import Running


def test_alerts_are_looked_after(server: Running) -> None:
    hook = json.dumps({"kind": "webhook", "url": "https://127.0.0.1/hook"})
    assert server.duly("alert", "set-channel", "ops", "-", stdin=hook).code == 0
    rule = json.dumps({"kind": "failures", "count": 2, "channels": ["ops"]})
    made = json.loads(server.duly("alert", "set-rule", "two", "-", "--json", stdin=rule).out)
    again = server.duly("alert", "set-rule", "two", "-", "--json", stdin=json.dumps(made))

    assert (made["kind"], made["count"]) == ("failures", 2)
    assert json.loads(again.out)["version"] == 1, again.err
    tested = server.duly("alert", "test", "ops", "--json")
    assert (tested.code, json.loads(tested.out)["isSent"]) == (1, False)
    assert "not a public address" in tested.out
    assert server.duly("alert", "rules").rows[0][:2] == ["two", "failures"]
    assert "until" in server.duly("alert", "snooze", "two", "--for", "2h").err or server.duly("alert", "snooze", "two", "--end").code == 0
    preview = json.loads(server.duly("alert", "preview", "-", "--json", stdin=rule).out)
    assert preview["times"] == 0
    assert server.duly("alert", "list").code == 0
    assert server.duly("alert", "missed").code == 0
    link = json.loads(server.duly("alert", "link", "calendar", "--json").out)
    assert link["path"].startswith("/v1/upcoming.ics?token=dulylink_")
    assert server.duly("alert", "unlink", link["linkId"]).code == 0
    assert server.duly("alert", "delete-channel", "ops").code == 5
    assert server.duly("alert", "delete-rule", "two").code == 0
    assert server.duly("alert", "delete-channel", "ops").code == 0
    assert server.duly("alert", "rule", "two").code == 3


WATCHED = """
[[jobs]]
name = "watched"
cron = "0 3 * * *"
handler = "duly.echo"
alert = { missed_after = "15m", overrun_after = "45m", to = "told" }
"""


def test_an_alert_in_a_file_is_applied_shown_and_written_back(server: Running, tmp_path: Path) -> None:
    server.duly("alert", "set-channel", "told", "-", stdin=json.dumps({"kind": "webhook", "url": "https://ops.example.com/hook"}))
    file = tmp_path / "jobs.toml"
    file.write_text(WATCHED, encoding="utf-8")
    assert server.duly("apply", str(file)).code == 0

    shown = server.duly("job", "show", "watched").out
    assert "15m" in shown
    assert "tells told" in shown
    assert json.loads(server.duly("job", "show", "watched", "--json").out)["alert"]["overrunAfterSec"] == 2700
    names = [row[0] for row in server.duly("alert", "rules").rows]
    assert {"watched.missed", "watched.overrun"} <= set(names)
    file.write_text(server.duly("job", "export", "watched").out, encoding="utf-8")
    assert "alert = " in file.read_text(encoding="utf-8")
    assert server.duly("plan", str(file), "--exit-status").code == 0

    file.write_text(WATCHED.replace('"15m"', '["soon"]'), encoding="utf-8")
    wrong = server.duly("apply", str(file))
    assert "alert.missed_after: is not a duration" in wrong.err
    file.write_text(WATCHED.replace('to = "told"', "too = 1"), encoding="utf-8")
    assert "DULY-E106" in server.duly("plan", str(file)).err
