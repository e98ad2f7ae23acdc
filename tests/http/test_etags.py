"""Who has read a definition need not read it again, and changes nothing that somebody else has changed meanwhile."""

from __future__ import annotations

import httpx
import pytest

from tests.http.conftest import Bench

DAILY = {"name": "daily", "schedule": "0 3 * * *", "target": {"handler": "duly.echo"}}


async def test_what_is_unchanged_is_not_sent_again(bench: Bench, admin: httpx.AsyncClient) -> None:
    path = f"/v1/jobs/{await bench.job(**DAILY)}"
    shown = await admin.get(path)
    tag = shown.headers["etag"]

    for sent in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        again = await admin.get(path, headers={"If-None-Match": sent})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert "content-type" not in again.headers


async def test_whatever_changes_in_the_answer_is_sent(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job(**DAILY)
    path = f"/v1/jobs/{job}"
    seen = [(await admin.get(path)).headers["etag"]]
    for change in (f"{path}/pause", f"{path}/resume", f"{path}/run"):
        assert (await admin.post(change)).status_code < 300
        answer = await admin.get(path, headers={"If-None-Match": ", ".join(seen)})
        # Resumed, it is as it was at first: the answer is the same again, and so is its tag.
        assert answer.status_code == (304 if change.endswith("resume") else 200)
        seen.append(answer.headers["etag"])

    assert len(set(seen)) == 3


async def test_a_calendar_is_read_the_same_way(admin: httpx.AsyncClient) -> None:
    await admin.put("/v1/calendars/de", json={"holidays": [{"date": "2026-12-25"}]})
    tag = (await admin.get("/v1/calendars/de")).headers["etag"]
    unchanged = await admin.get("/v1/calendars/de", headers={"If-None-Match": tag})
    await admin.put("/v1/calendars/de", json={"holidays": []})

    assert unchanged.status_code == 304
    assert (await admin.get("/v1/calendars/de", headers={"If-None-Match": tag})).status_code == 200


@pytest.mark.parametrize("sent", ["v1", '"v1', "'v1'", '"a" "b"', '"é"', "", '"' + "x" * 70 + '"', ",".join(['"x"'] * 33)])
async def test_what_is_no_etag_is_refused(bench: Bench, admin: httpx.AsyncClient, sent: str) -> None:
    path = f"/v1/jobs/{await bench.job(**DAILY)}"
    answer = await admin.get(path, headers={"If-None-Match": sent.encode()})

    assert (answer.status_code, answer.json()["field"]) == (422, "If-None-Match")


@pytest.mark.parametrize(("method", "verb"), [("POST", "/pause"), ("POST", "/resume"), ("DELETE", "")])
async def test_a_change_is_refused_after_another(bench: Bench, admin: httpx.AsyncClient, method: str, verb: str) -> None:
    path = f"/v1/jobs/{await bench.job(**DAILY)}"
    read = (await admin.get(path)).headers["etag"]
    await admin.put(path, json=DAILY | {"schedule": "0 4 * * *"})
    if verb == "/resume":
        await admin.post(f"{path}/pause")
    before = (await admin.get(path)).json()
    stale = await admin.request(method, path + verb, headers={"If-Match": read})
    bare = await admin.request(method, path + verb, headers={"If-Match": '"v1"'})
    after = (await admin.get(path)).json()
    fresh = await admin.request(method, path + verb, headers={"If-Match": (await admin.get(path)).headers["etag"]})

    assert (stale.status_code, stale.json()["code"]) == (bare.status_code, bare.json()["code"]) == (412, "DULY-E209")
    assert before == after
    assert fresh.status_code == 200


async def test_a_calendar_is_deleted_as_it_was_read(admin: httpx.AsyncClient) -> None:
    await admin.put("/v1/calendars/de", json={"holidays": []})
    read = (await admin.get("/v1/calendars/de")).headers["etag"]
    await admin.put("/v1/calendars/de", json={"holidays": [{"date": "2026-12-25"}]})

    assert (await admin.delete("/v1/calendars/de", headers={"If-Match": read})).status_code == 412
    assert (await admin.delete("/v1/calendars/de", headers={"If-Match": '"v2"'})).status_code == 200


DEFINITIONS = {
    "/v1/calendars/de": ({"holidays": [{"date": "2026-12-25"}]}, {"holidays": []}),
    "/v1/alert-rules/late": ({"kind": "missed", "afterSec": 900}, {"kind": "missed", "afterSec": 60}),
    "/v1/alert-channels/ops": (
        {"kind": "webhook", "url": "https://ops.example.com/hook"},
        {"kind": "webhook", "url": "https://ops.example.com/other"},
    ),
}


@pytest.mark.parametrize("path", DEFINITIONS)
async def test_a_put_may_only_make_or_only_change(admin: httpx.AsyncClient, path: str) -> None:
    first, other = DEFINITIONS[path]
    absent = await admin.put(path, json=first, headers={"If-Match": "*"})
    nothing = await admin.get(path)
    made = await admin.put(path, json=first, headers={"If-None-Match": "*"})
    there = await admin.put(path, json=other, headers={"If-None-Match": "*"})
    kept = await admin.get(path)
    changed = await admin.put(path, json=other, headers={"If-Match": "*"})

    assert (absent.status_code, absent.json()["code"], nothing.status_code) == (412, "DULY-E209", 404)
    assert (there.status_code, there.json()["code"]) == (412, "DULY-E209")
    assert (made.status_code, changed.status_code) == (200, 200)
    assert kept.json() == made.json()


@pytest.mark.parametrize("path", DEFINITIONS)
async def test_a_put_answers_the_tag_of_a_read(admin: httpx.AsyncClient, path: str) -> None:
    for body in DEFINITIONS[path]:
        put, read = await admin.put(path, json=body), await admin.get(path)

        assert put.headers["etag"] == read.headers["etag"]
        assert (await admin.get(path, headers={"If-None-Match": put.headers["etag"]})).status_code == 304
        assert (await admin.put(path, json=body, headers={"If-Match": put.headers["etag"]})).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"If-None-Match": '"v1"'}, 422),
        ({"If-None-Match": "*", "If-Match": "*"}, 412),
    ],
)
async def test_what_cannot_be_expected_is_refused(admin: httpx.AsyncClient, headers: dict[str, str], status: int) -> None:
    answer = await admin.put("/v1/calendars/de", json={}, headers=headers)

    assert (answer.status_code, answer.json()["field"]) == (status, "If-None-Match")


async def test_what_a_put_cannot_make_is_there_already(bench: Bench, admin: httpx.AsyncClient) -> None:
    path = f"/v1/jobs/{await bench.job(**DAILY)}"

    refused = await admin.put(path, json=DAILY, headers={"If-None-Match": "*"})
    taken = await admin.put(path, json=DAILY, headers={"If-Match": "*"})
    tenant = await admin.put("/v1/tenants/strangers", json={"weight": 5}, headers={"If-None-Match": "*"})

    assert (refused.status_code, taken.status_code, tenant.status_code) == (412, 200, 412)


@pytest.mark.parametrize("verb", ["skip", "unskip"])
async def test_a_skip_is_refused_after_a_change(bench: Bench, admin: httpx.AsyncClient, verb: str) -> None:
    path = f"/v1/jobs/{await bench.job(**DAILY)}"
    if verb == "unskip":
        await admin.post(f"{path}/skip")
    read = (await admin.get(path)).headers["etag"]
    await admin.put(path, json=DAILY | {"description": "another"})
    before = (await admin.get(path)).json()

    stale = await admin.post(f"{path}/{verb}", headers={"If-Match": read})
    after = (await admin.get(path)).json()
    fresh = await admin.post(f"{path}/{verb}", headers={"If-Match": (await admin.get(path)).headers["etag"]})

    assert (stale.status_code, stale.json()["code"], fresh.status_code) == (412, "DULY-E209", 200)
    assert before == after


async def test_an_import_and_a_snooze_are_refused_after_a_change(admin: httpx.AsyncClient) -> None:
    ics = {"ics": "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20261225\nSUMMARY:X\nEND:VEVENT\nEND:VCALENDAR"}
    for path, verb, sent in (("/v1/calendars/de", "import", ics), ("/v1/alert-rules/late", "snooze", {"forSec": 60})):
        first, other = DEFINITIONS[path]
        read = (await admin.put(path, json=other)).headers["etag"]
        await admin.put(path, json=first)
        before = (await admin.get(path)).json()

        stale = await admin.post(f"{path}/{verb}", json=sent, headers={"If-Match": read})
        after = (await admin.get(path)).json()
        fresh = await admin.post(f"{path}/{verb}", json=sent, headers={"If-Match": (await admin.get(path)).headers["etag"]})

        assert (stale.status_code, stale.json()["code"], fresh.status_code) == (412, "DULY-E209", 200)
        assert before == after
    new = await admin.post("/v1/calendars/new/import", json=ics, headers={"If-Match": "*"})
    assert new.status_code == 412
