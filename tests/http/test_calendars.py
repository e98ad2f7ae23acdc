"""Calendars, pauses with an end, skips and rules over the API."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from duly.domain.instants import DAY, HOUR
from tests.http.conftest import OPERATOR, STRANGER, VIEWER, Bench

WEEK = ["MON", "TUE", "WED", "THU", "FRI"]
DE: dict[str, Any] = {"businessDays": WEEK, "holidays": [{"date": "2026-01-06", "name": "Epiphany"}]}
ICS = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20260106\nSUMMARY:Epiphany\nEND:VEVENT\nEND:VCALENDAR\n"


async def put(client: httpx.AsyncClient, name: str = "de", **more: Any) -> httpx.Response:
    answer = await client.put(f"/v1/calendars/{name}", json=DE | more)
    assert answer.status_code == 200, answer.text
    return answer


class TestCalendars:
    async def test_a_calendar_is_read_as_it_was_set(self, admin: httpx.AsyncClient) -> None:
        sent = {
            "timezone": "Europe/Berlin",
            "businessDays": WEEK,
            "holidays": [{"date": "2026-12-25", "name": "Christmas"}],
            "windows": [{"start": "2026-12-01T22:00:00Z", "end": "2026-12-02T02:00:00Z", "name": None}],
            "weekly": [{"days": ["SAT", "SUN"], "from": "22:00", "to": "24:00"}],
        }

        made = await admin.put("/v1/calendars/ops", json=sent | {"name": "ops"})

        assert (made.status_code, made.headers["etag"][:4]) == (200, '"v1-')
        shown = (await admin.get("/v1/calendars/ops")).json()
        assert shown == made.json() == {"name": "ops", "version": 1, "updatedAt": "2026-01-05T12:00:00Z", **sent}
        assert (await admin.get("/v1/calendars")).json() == {"items": [shown], "nextCursor": None}

    async def test_a_stale_etag_changes_nothing(self, admin: httpx.AsyncClient) -> None:
        await put(admin)
        await put(admin, holidays=[])

        stale = await admin.put("/v1/calendars/de", json=DE, headers={"If-Match": '"v1"'})

        assert (stale.status_code, stale.json()["code"]) == (412, "DULY-E209")
        assert (await admin.put("/v1/calendars/de", json=DE, headers={"If-Match": '"v2"'})).headers["etag"].startswith('"v3-')

    async def test_a_foreign_tenant_has_calendars_of_its_own(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        await put(admin)

        assert (await bench.client(STRANGER).get("/v1/calendars/de")).status_code == 404
        assert (await bench.client(STRANGER).get("/v1/calendars")).json()["items"] == []
        refused = await bench.client(STRANGER).post(
            "/v1/jobs", json={"schedule": "0 9 * * *", "calendars": ["de"], "target": {"handler": "duly.echo"}}
        )
        assert (refused.status_code, refused.json()["code"]) == (404, "DULY-E251")

    @pytest.mark.parametrize(
        ("fields", "code", "field"),
        [
            ({"name": "fr"}, "DULY-E106", "name"),
            ({"timezone": "Mars/Olympus"}, "DULY-E103", "timezone"),
            ({"businessDays": []}, "DULY-E106", "businessDays"),
            ({"businessDays": ["FUNDAY"]}, "DULY-E106", "businessDays[0]"),
            ({"holidays": [{"date": "2026-02-30"}]}, "DULY-E106", "holidays[0].date"),
            ({"holidays": [{"date": "1900-01-01"}]}, "DULY-E135", "holidays[0].date"),
            ({"windows": [{"start": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"}]}, "DULY-E135", "windows[0].end"),
            ({"weekly": [{"days": ["SUN"], "from": "2:00", "to": "04:00"}]}, "DULY-E135", "weekly[0].from"),
            ({"weekly": [{"days": ["SUN"], "from": "02:00", "to": "02:00"}]}, "DULY-E135", "weekly[0]"),
        ],
    )
    async def test_a_bad_calendar_is_refused_by_field(
        self, admin: httpx.AsyncClient, fields: dict[str, Any], code: str, field: str
    ) -> None:
        answer = await admin.put("/v1/calendars/de", json=DE | fields)

        assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (422, code, field)
        assert (await admin.get("/v1/calendars/de")).status_code == 404

    async def test_a_job_keeps_to_it_and_follows_its_changes(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        await put(admin)
        job = await bench.job(name="report", schedule="0 9 * * *", calendars=["de"], onExcluded="next_business_day", jitterSec=30)

        before = (await admin.get(f"/v1/jobs/{job}")).json()
        await put(admin, holidays=[{"date": "2026-01-07"}])
        after = (await admin.get(f"/v1/jobs/{job}")).json()

        assert (before["calendars"], before["onExcluded"], before["jitterSec"]) == (["de"], "next_business_day", 30)
        assert before["nextFires"][:2] == ["2026-01-07T09:00:00Z", "2026-01-08T09:00:00Z"]
        assert after["nextFires"][:2] == ["2026-01-06T09:00:00Z", "2026-01-08T09:00:00Z"]
        assert (before["version"], after["version"]) == (1, 2)
        assert bench.hints.due[-1] == bench.clock.now()

    async def test_one_that_is_in_use_stays(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        await put(admin)
        job = await bench.job(name="report", schedule="0 9 * * *", calendars=["de"])

        refused = await admin.delete("/v1/calendars/de")
        await admin.delete(f"/v1/jobs/{job}")
        done = await admin.delete("/v1/calendars/de")

        assert (refused.status_code, refused.json()["code"], "report" in refused.json()["detail"]) == (409, "DULY-E252", True)
        assert (done.status_code, (await admin.get("/v1/calendars/de")).status_code) == (200, 404)

    async def test_a_schedule_that_it_leaves_no_fire_is_refused(self, admin: httpx.AsyncClient) -> None:
        await put(admin)

        answer = await admin.post("/v1/jobs", json={"schedule": "0 9 * * SUN", "calendars": ["de"], "target": {"handler": "duly.echo"}})

        assert (answer.status_code, answer.json()["code"]) == (422, "DULY-E102")

    async def test_an_import_adds_days(self, admin: httpx.AsyncClient) -> None:
        trial = await admin.post("/v1/calendars/de/import", json={"ics": ICS, "dryRun": True})
        assert (trial.json()["holidays"], (await admin.get("/v1/calendars/de")).status_code) == (1, 404)

        first = await admin.post("/v1/calendars/de/import", json={"ics": ICS})
        again = await admin.post("/v1/calendars/de/import", json={"ics": ICS})

        assert first.json()["calendar"]["holidays"] == [{"date": "2026-01-06", "name": "Epiphany"}]
        assert (first.json()["holidays"], again.json()["holidays"], again.json()["calendar"]["version"]) == (1, 0, 1)
        refused = await admin.post("/v1/calendars/de/import", json={"ics": "hello"})
        assert (refused.status_code, refused.json()["code"], refused.json()["field"]) == (422, "DULY-E135", "ics")

    async def test_viewers_look_and_admins_change(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        await put(admin)

        assert (await bench.client(VIEWER).get("/v1/calendars/de")).status_code == 200
        assert (await bench.client(OPERATOR).put("/v1/calendars/de", json=DE)).status_code == 403


class TestPreview:
    async def test_it_says_what_is_moved_and_what_is_left_out(self, admin: httpx.AsyncClient) -> None:
        await put(admin)
        asked = {"schedule": "0 9 6 * *", "calendars": ["de"], "count": 2}

        skipped = (await admin.post("/v1/schedules/preview", json=asked)).json()
        moved = (await admin.post("/v1/schedules/preview", json=asked | {"onExcluded": "next_business_day"})).json()

        reason = "Tue 06 Jan 2026 is a holiday, Epiphany (calendar de)"
        assert [fire["at"] for fire in skipped["fires"]] == ["2026-02-06T09:00:00Z", "2026-03-06T09:00:00Z"]
        assert skipped["excluded"] == [{"at": "2026-01-06T09:00:00Z", "local": "2026-01-06T09:00:00+00:00", "reason": reason}]
        assert moved["fires"][0] == {
            "at": "2026-01-07T09:00:00Z",
            "local": "2026-01-07T09:00:00+00:00",
            "note": f"moved from Tue 06 Jan: {reason}",
        }
        assert moved["excluded"] == skipped["excluded"]

    async def test_it_knows_rules_and_jitter(self, admin: httpx.AsyncClient) -> None:
        asked = {
            "type": "RRULE",
            "schedule": "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9;BYMINUTE=0;BYSECOND=0",
            "timezone": "Europe/Berlin",
            "jitterSec": 3600,
        }

        found = (await admin.post("/v1/schedules/preview", json=asked | {"count": 1})).json()

        assert found["words"].startswith("Every month on the last Friday at 09:00 Berlin time")
        assert found["fires"][0]["at"] == "2026-01-30T08:00:00Z"
        assert found["fires"][0]["note"].endswith("later (jitter)")

    async def test_an_unknown_calendar_is_not_there(self, admin: httpx.AsyncClient) -> None:
        answer = await admin.post("/v1/schedules/preview", json={"schedule": "0 9 * * *", "calendars": ["no-such"]})

        assert (answer.status_code, answer.json()["code"]) == (404, "DULY-E251")


@pytest.mark.parametrize("count", [1, 3])
async def test_a_rule_that_starts_when_the_job_is_made_fires_as_often_as_it_counts(admin: httpx.AsyncClient, count: int) -> None:
    asked = {"type": "RRULE", "schedule": f"FREQ=DAILY;COUNT={count}"}

    shown = await admin.post("/v1/schedules/preview", json=asked)
    made = await admin.post("/v1/jobs", json={**asked, "target": {"handler": "duly.echo"}})

    assert [fire["at"] for fire in shown.json()["fires"]] == [f"2026-01-0{5 + nth}T12:00:01Z" for nth in range(count)]
    assert (made.status_code, made.json()["nextFireAt"]) == (201, "2026-01-05T12:00:01Z")


async def test_a_rule_starts_when_the_job_is_made_and_survives_being_sent_back(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job(type="RRULE", schedule="FREQ=DAILY;INTERVAL=2;COUNT=3", timezone="Europe/Berlin")

    shown = (await admin.get(f"/v1/jobs/{job}")).json()
    assert (shown["type"], shown["schedule"], shown["startAt"]) == ("RRULE", "FREQ=DAILY;INTERVAL=2;COUNT=3", "2026-01-05T12:00:01Z")
    assert shown["nextFires"] == ["2026-01-05T12:00:01Z", "2026-01-07T12:00:01Z", "2026-01-09T12:00:01Z"]
    keys = ("type", "schedule", "timezone", "startAt", "target")
    changed = await admin.put(f"/v1/jobs/{job}", json={key: shown[key] for key in keys} | {"description": "other"})
    assert changed.json()["nextFireAt"] == shown["nextFireAt"]


class TestPauseUntil:
    async def test_it_is_paused_until_then_and_active_afterwards(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        job = await bench.job(schedule="0 9 * * *")
        paused = (await admin.post(f"/v1/jobs/{job}/pause", json={"until": "2026-01-08T00:00:00Z", "reason": "migration"})).json()

        assert (paused["state"], paused["nextFireAt"], paused["pausedUntil"]) == ("PAUSED", "2026-01-08T09:00:00Z", "2026-01-08T00:00:00Z")
        assert (paused["pauseReason"], paused["pausedAt"], len(paused["pausedBy"])) == ("migration", "2026-01-05T12:00:00Z", 16)
        assert [item["jobId"] for item in (await admin.get("/v1/jobs?state=PAUSED")).json()["items"]] == [job]
        assert (await admin.get("/v1/stats")).json()["jobs"] == {"PAUSED": 1}
        bench.clock.turn(3 * DAY)
        after = (await admin.get(f"/v1/jobs/{job}")).json()
        assert (after["state"], after["pausedUntil"], after["pauseReason"], after["pausedBy"]) == ("ACTIVE", None, None, None)
        assert [item["jobId"] for item in (await admin.get("/v1/jobs?state=ACTIVE")).json()["items"]] == [job]

    async def test_it_can_be_changed_made_endless_and_ended(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        job = await bench.job(schedule="0 9 * * *")

        async def pause(**body: str) -> dict[str, Any]:
            return (await admin.post(f"/v1/jobs/{job}/pause", json=body)).json()

        assert (await pause(until="2026-01-08T00:00:00Z"))["nextFireAt"] == "2026-01-08T09:00:00Z"
        assert (await pause(until="2026-01-10T09:00:00Z"))["nextFireAt"] == "2026-01-10T09:00:00Z"
        endless = await pause()
        assert (endless["state"], endless["pausedUntil"], endless["nextFireAt"]) == ("PAUSED", None, None)
        assert (await pause(until="2026-01-08T00:00:00Z"))["nextFireAt"] == "2026-01-08T09:00:00Z"
        resumed = (await admin.post(f"/v1/jobs/{job}/resume")).json()
        assert (resumed["state"], resumed["nextFireAt"]) == ("ACTIVE", "2026-01-06T09:00:00Z")

    async def test_a_new_version_keeps_it(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        job = await bench.job(name="a", schedule="0 9 * * *")
        await admin.post(f"/v1/jobs/{job}/pause", json={"until": "2026-01-08T00:00:00Z"})

        changed = await admin.put(f"/v1/jobs/{job}", json={"name": "a", "schedule": "0 7 * * *", "target": {"handler": "duly.echo"}})

        assert (changed.json()["state"], changed.json()["nextFireAt"]) == ("PAUSED", "2026-01-08T07:00:00Z")

    @pytest.mark.parametrize(
        ("until", "status", "code"), [("2026-01-05T12:00:00Z", 422, "DULY-E105"), ("2027-01-01T00:00:00Z", 409, "DULY-E210")]
    )
    async def test_a_time_that_is_over_or_behind_the_last_fire_is_refused(
        self, bench: Bench, admin: httpx.AsyncClient, until: str, status: int, code: str
    ) -> None:
        job = await bench.job(schedule="0 9 * * *", endAt="2026-06-01T00:00:00Z")

        answer = await admin.post(f"/v1/jobs/{job}/pause", json={"until": until})

        assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (status, code, "until")


class TestSkip:
    async def test_the_next_fire_is_skipped_and_can_be_taken_back(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        job = await bench.job(schedule="0 9 * * *")

        skipping = (await admin.post(f"/v1/jobs/{job}/skip")).json()
        again = await admin.post(f"/v1/jobs/{job}/skip", json={"at": "2026-01-06T09:00:00Z"})
        another = await admin.post(f"/v1/jobs/{job}/skip", json={"at": "2026-01-07T09:00:00Z"})
        back = (await admin.post(f"/v1/jobs/{job}/unskip")).json()
        that_one = await admin.post(f"/v1/jobs/{job}/skip", json={"at": "2026-01-07T09:00:00Z"})

        assert (skipping["skipAt"], skipping["nextFireAt"], len(skipping["skipBy"])) == ("2026-01-06T09:00:00Z", "2026-01-06T09:00:00Z", 16)
        assert again.json()["skipAt"] == "2026-01-06T09:00:00Z"
        assert (another.status_code, another.json()["code"]) == (409, "DULY-E253")
        assert "2026-01-06T09:00:00Z" in another.json()["detail"]
        assert (back["skipAt"], back["skipBy"]) == (None, None)
        assert that_one.json()["skipAt"] == "2026-01-07T09:00:00Z"

    @pytest.mark.parametrize("at", ["2026-01-06T09:00:01Z", "2026-01-05T09:00:00Z", "2026-01-06T09:00:00.000001Z"])
    async def test_what_is_no_coming_fire_is_refused_with_those_near_it(self, bench: Bench, admin: httpx.AsyncClient, at: str) -> None:
        job = await bench.job(schedule="0 9 * * *")

        answer = await admin.post(f"/v1/jobs/{job}/skip", json={"at": at})

        assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (422, "DULY-E136", "at")
        assert "2026-01-06T09:00:00Z" in answer.json()["hint"]

    async def test_a_job_that_waits_for_nothing_has_nothing_to_skip(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        job = await bench.job()

        answer = await admin.post(f"/v1/jobs/{job}/skip")

        assert (answer.status_code, answer.json()["code"]) == (409, "DULY-E210")
        assert (await admin.post(f"/v1/jobs/{job}/unskip")).json()["skipAt"] is None

    async def test_it_goes_with_a_pause_that_ends(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        job = await bench.job(intervalSec=3600)
        await admin.post(f"/v1/jobs/{job}/pause", json={"until": "2026-01-05T15:30:00Z"})

        skipping = (await admin.post(f"/v1/jobs/{job}/skip")).json()

        assert skipping["skipAt"] == "2026-01-05T16:00:00Z"
        bench.clock.turn(4 * HOUR)
        assert (await admin.get(f"/v1/jobs/{job}")).json()["state"] == "ACTIVE"
