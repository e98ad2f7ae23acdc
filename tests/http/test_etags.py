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
