"""Whatever is sent: a problem document with a code and a field, nothing written, no 5xx."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duly.domain.codes import CODES
from duly.domain.errors import Unavailable
from duly.http.app import route_table
from tests.http.conftest import ADMIN, Bench
from tests.http.test_routing import filled

ECHO = {"handler": "duly.echo"}
# What takes JSON; the one form is tried with the sessions.
WRITING = [declared for declared in route_table().routes if declared.body is not None and not declared.form]


@pytest.fixture
def store_kind() -> str:
    return "sqlite"


def is_a_problem(answer: httpx.Response) -> bool:
    problem = answer.json()
    return (
        answer.headers["content-type"] == "application/problem+json"
        and problem["status"] == answer.status_code == CODES[problem["code"]].status
        and problem["title"] == CODES[problem["code"]].title
        and bool(problem["detail"])
        and bool(problem["hint"])
        and problem["requestId"] == answer.headers["x-request-id"]
    )


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"schedule": "x"}, "DULY-E101", "schedule"),
        ({"schedule": ""}, "DULY-E101", "schedule"),
        ({"schedule": "0 3 * *"}, "DULY-E101", "schedule"),
        ({"schedule": "0 3 * * * *"}, "DULY-E101", "schedule"),
        ({"schedule": "*/90 * * * *"}, "DULY-E101", "schedule"),
        ({"schedule": "@reboot"}, "DULY-E101", "schedule"),
        ({"schedule": "9" * 200 + " * * * *"}, "DULY-E101", "schedule"),
        ({"schedule": "0 0 30 2 *"}, "DULY-E102", "schedule"),
        ({"schedule": "* " * 200}, "DULY-E101", "schedule"),
        ({"schedule": "* " * 300}, "DULY-E106", "schedule"),
        ({"type": "RRULE"}, "DULY-E134", "schedule"),
        ({"type": "RRULE", "schedule": "FREQ=HOURLY"}, "DULY-E134", "schedule"),
        ({"type": "RRULE", "schedule": "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"}, "DULY-E102", "schedule"),
        ({"type": "RRULE", "schedule": "FREQ=DAILY", "seconds": True}, "DULY-E106", "seconds"),
        ({"schedule": "0 3 * * *", "calendars": ["no-such"]}, "DULY-E251", "calendars"),
        ({"schedule": "0 3 * * *", "onExcluded": "next_business_day"}, "DULY-E106", "onExcluded"),
        ({"schedule": "0 3 * * *", "jitterSec": 90_000}, "DULY-E106", "jitterSec"),
        ({"jitterSec": 5}, "DULY-E106", "jitterSec"),
        ({"schedule": "0 3 * * *", "timezone": "Mars/Olympus"}, "DULY-E103", "timezone"),
        ({"schedule": "0 3 * * *", "timezone": "../../etc/passwd"}, "DULY-E103", "timezone"),
        ({"schedule": "0 3 * * *", "timezone": "Ümlaut"}, "DULY-E103", "timezone"),
        ({"schedule": "0 3 * * *", "endAt": "2026-01-01T00:00:00Z"}, "DULY-E102", "schedule"),
        ({"schedule": "0 3 * * *", "startAt": "2027-01-01T00:00:00Z", "endAt": "2026-06-01T00:00:00Z"}, "DULY-E105", "endAt"),
        ({"schedule": "0 3 * * *", "startAt": "1969-01-01T00:00:00Z"}, "DULY-E105", "startAt"),
        ({"schedule": "0 3 * * *", "intervalSec": 5}, "DULY-E106", "intervalSec"),
        ({"type": "CRON"}, "DULY-E101", "schedule"),
        ({"type": "INTERVAL"}, "DULY-E104", "intervalSec"),
        ({"type": "DELAYED"}, "DULY-E104", "delaySec"),
        ({"type": "ONE_TIME"}, "DULY-E105", "runAt"),
        ({"type": "HOURLY"}, "DULY-E106", "type"),
        ({"intervalSec": 0}, "DULY-E106", "intervalSec"),
        ({"intervalSec": "60"}, "DULY-E106", "intervalSec"),
        ({"intervalSec": 10**30}, "DULY-E106", "intervalSec"),
        ({"intervalSec": 60, "timezone": "UTC"}, "DULY-E106", "timezone"),
        ({"delaySec": -1}, "DULY-E106", "delaySec"),
        ({"runAt": "tomorrow"}, "DULY-E105", "runAt"),
        ({"runAt": "2026-06-31T00:00:00Z"}, "DULY-E105", "runAt"),
        ({"runAt": "2026-06-01T00:00:60Z"}, "DULY-E105", "runAt"),
        ({"runAt": 1767614400}, "DULY-E105", "runAt"),
        ({"name": "no spaces"}, "DULY-E114", "name"),
        ({"name": "newline\n"}, "DULY-E114", "name"),
        ({"name": ""}, "DULY-E106", "name"),
        ({"name": "x" * 129}, "DULY-E106", "name"),
        ({"name": "nul\x00"}, "DULY-E110", None),
        ({"target": {}}, "DULY-E106", "target"),
        ({"target": {"handler": "a", "shell": ["b"]}}, "DULY-E106", "target"),
        ({"target": {"handler": "duly.shell"}}, "DULY-E106", "target.handler"),
        ({"target": {"handler": "no spaces"}}, "DULY-E114", "target.handler"),
        ({"target": {"handler": "a", "pool": "p/q"}}, "DULY-E114", "target.pool"),
        ({"target": {"handler": "a", "requires": {"a b": ""}}}, "DULY-E114", "target.requires"),
        ({"target": {"handler": "a", "requires": {str(n): "" for n in range(17)}}}, "DULY-E106", "target.requires"),
        ({"target": {"shell": []}}, "DULY-E106", "target.shell"),
        ({"target": {"http": {"url": "https://x", "method": "BREW"}}}, "DULY-E106", "target.http.method"),
        ({"target": {"http": {}}}, "DULY-E106", "target.http.url"),
        ({"retryPolicy": {"maxAttempts": 0}}, "DULY-E106", "retryPolicy.maxAttempts"),
        ({"retryPolicy": {"tries": 3}}, "DULY-E106", "retryPolicy.tries"),
        ({"timeoutSec": 0}, "DULY-E106", "timeoutSec"),
        ({"timeoutSec": 1e-9}, "DULY-E106", "timeoutSec"),
        ({"timeoutSec": True}, "DULY-E106", "timeoutSec"),
        ({"catchUp": {"policy": "sometimes"}}, "DULY-E106", "catchUp.policy"),
        ({"description": "x" * 1025}, "DULY-E106", "description"),
        ({"jobId": "job_1"}, "DULY-E106", "jobId"),
        ({"tenant": "other"}, "DULY-E106", "tenant"),
    ],
)
async def test_a_bad_job_is_refused_by_field_and_nothing_is_written(
    admin: httpx.AsyncClient, fields: dict[str, Any], code: str, field: str | None
) -> None:
    created = await admin.post("/v1/jobs", json={"target": ECHO, **fields})
    listed = await admin.get("/v1/jobs")

    assert is_a_problem(created)
    assert (created.json()["code"], created.json().get("field", field)) == (code, field)
    assert listed.json()["items"] == []


# What no route takes, and which codes may say so.
BAD_BODIES: list[tuple[bytes, dict[str, str], list[str]]] = [
    (b"{", {}, ["DULY-E107"]),
    (b"{} {}", {}, ["DULY-E107", "DULY-E106"]),
    (b"nope", {}, ["DULY-E107"]),
    (b"\xef\xbb\xbf{}", {}, ["DULY-E107"]),
    (b'{"a": "\xff"}', {}, ["DULY-E107"]),
    (b'{"payload": NaN}', {}, ["DULY-E107", "DULY-E106"]),
    (b'{"payload": Infinity}', {}, ["DULY-E107", "DULY-E106"]),
    (b"[]", {}, ["DULY-E106"]),
    (b"null", {}, ["DULY-E106"]),
    (b'"text"', {}, ["DULY-E106"]),
    (b"1e999", {}, ["DULY-E106", "DULY-E107"]),
    (b'{"surely not a key": 1}', {}, ["DULY-E106"]),
    (b'{"payload": "\\u0000"}', {}, ["DULY-E110"]),
    (b'{"payload": "\\ud800"}', {}, ["DULY-E110"]),
    (b"[" * 5_000 + b"]" * 5_000, {}, ["DULY-E108"]),
    (b'{"payload":' * 40 + b"1" + b"}" * 40, {}, ["DULY-E108"]),
    (b"{}", {"content-type": "text/plain"}, ["DULY-E115"]),
    (b"{}", {"content-type": ""}, ["DULY-E115"]),
    (b"{}", {"content-encoding": "gzip"}, ["DULY-E115"]),
    (b" " * (16 * 1024 * 1024 + 1), {}, ["DULY-E109"]),
]


@pytest.mark.parametrize("declared", WRITING, ids=lambda declared: f"{declared.method} {declared.path}")
async def test_every_route_refuses_bad_bodies(bench: Bench, admin: httpx.AsyncClient, declared: Any) -> None:
    job = await bench.job()
    known = {"jobId": job, "executionId": await bench.enqueue(job), "batchId": await bench.batch()}
    path = filled(declared.path, **known, name="holidays", workerId="1", tenant="default", pool="default")

    for body, headers, codes in BAD_BODIES:
        answer = await admin.request(declared.method, path, content=body, headers={"content-type": "application/json", **headers})

        assert is_a_problem(answer), (body[:30], headers)
        assert answer.json()["code"] in codes, (body[:30], headers)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" * 5_000, "[1, 1e400]"])
async def test_a_number_that_no_worker_could_read_is_refused(bench: Bench, admin: httpx.AsyncClient, number: str) -> None:
    job = await bench.job()
    sent = {"content-type": "application/json"}
    target = '{"handler": "duly.echo"}'
    answers = [
        await admin.post(f"/v1/jobs/{job}/executions", content=f'{{"payload": {number}}}', headers=sent),
        await admin.post(f"/v1/jobs/{job}/run", content=f'{{"payload": {number}}}', headers=sent),
        await admin.post("/v1/jobs", content=f'{{"target": {target}, "payload": {number}}}', headers=sent),
        await admin.post("/v1/jobs", content=f'{{"target": {{"http": {{"url": "https://x", "body": {number}}}}}}}', headers=sent),
    ]

    assert {(answer.status_code, answer.json()["code"]) for answer in answers} == {(422, "DULY-E106")}
    assert [answer.json()["field"] for answer in answers] == ["payload", "payload", "payload", "target.http.body"]


async def test_one_object_may_have_256_kib_even_in_a_batch(bench: Bench, admin: httpx.AsyncClient) -> None:
    path = f"/v1/jobs/{await bench.job()}/executions"
    large = "x" * (256 * 1024 - 100)
    fits = await admin.post(path, json={"payload": large})
    too_large = await admin.post(path, json={"payload": large + "x" * 200})
    many = await admin.post(f"{path}:batch", json={"executions": [{"payload": large}] * 20})
    one_of_many = await admin.post(f"{path}:batch", json={"executions": [{}, {"payload": large + "x" * 200}]})

    assert (fits.status_code, too_large.status_code, many.status_code, one_of_many.status_code) == (201, 413, 201, 413)
    assert one_of_many.json()["field"] == "executions[1].payload"


@pytest.mark.parametrize(
    ("query", "code", "field"),
    [
        ("colour=red", "DULY-E106", "colour"),
        ("limit=0", "DULY-E106", "limit"),
        ("limit=201", "DULY-E106", "limit"),
        ("limit=ten", "DULY-E106", "limit"),
        ("limit=1.0", "DULY-E106", "limit"),
        ("limit=", "DULY-E106", "limit"),
        ("limit=%2B5", "DULY-E106", "limit"),
        ("limit=1_0", "DULY-E106", "limit"),
        ("limit=%D9%A3", "DULY-E106", "limit"),
        ("limit=" + "9" * 5_000, "DULY-E106", "limit"),
        ("limit=1&limit=2", "DULY-E106", "limit"),
        ("state=active", "DULY-E106", "state"),
        ("state=", "DULY-E106", "state"),
        ("name=", "DULY-E106", "name"),
        ("name=" + "x" * 129, "DULY-E106", "name"),
        ("name=%00", "DULY-E110", "name"),
        ("name=%FF", "DULY-E106", None),
        ("name", "DULY-E106", None),
        ("&&", "DULY-E106", None),
        ("cursor=x", "DULY-E112", "cursor"),
        ("cursor=", "DULY-E112", "cursor"),
        ("cursor=AQ%3D%3D", "DULY-E112", "cursor"),
        ("cursor=" + "A" * 23, "DULY-E112", "cursor"),
    ],
)
async def test_a_bad_query_is_refused(admin: httpx.AsyncClient, query: str, code: str, field: str | None) -> None:
    answer = await admin.get(f"/v1/jobs?{query}")

    assert is_a_problem(answer)
    assert (answer.json()["code"], answer.json().get("field")) == (code, field)


async def test_a_route_without_parameters_takes_none(admin: httpx.AsyncClient) -> None:
    answer = await admin.get("/v1/stats?since=yesterday")

    assert (answer.status_code, answer.json()["field"]) == (422, "since")


@pytest.mark.parametrize("path", ["/v1/executions?jobId=x", "/v1/executions?jobId=run_" + "0" * 32])
async def test_a_bad_id_in_a_filter_is_a_bad_id(admin: httpx.AsyncClient, path: str) -> None:
    assert (await admin.get(path)).json()["code"] == "DULY-E111"


@pytest.mark.parametrize("key", ["", "x" * 201, "with space", "ümlaut", "tab\t"])
async def test_a_bad_idempotency_key_is_refused(admin: httpx.AsyncClient, key: str) -> None:
    answer = await admin.post("/v1/jobs", json={"target": ECHO}, headers={b"idempotency-key": key.encode()})

    assert (answer.status_code, answer.json()["code"]) == (422, "DULY-E116")


async def test_a_store_that_is_away_is_a_503_and_no_lost_acknowledgement(
    bench: Bench, admin: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise Unavailable("DULY-E501", "The SQLite file /var/lib/duly.db does not answer: disk I/O error.")

    job = await bench.job()
    monkeypatch.setattr(type(bench.store.intake), "enqueue", away)
    monkeypatch.setattr(type(bench.store.definitions), "create_jobs", away)
    answers = [
        await admin.post(f"/v1/jobs/{job}/executions"),
        await admin.post(f"/v1/jobs/{job}/run"),
        await admin.post("/v1/jobs", json={"target": ECHO}),
    ]

    for answer in answers:
        assert is_a_problem(answer)
        assert (answer.status_code, answer.headers["retry-after"], answer.json()["code"]) == (503, "1", "DULY-E501")
        assert "/var" not in answer.text


async def test_keys_cannot_be_checked_while_the_store_is_away(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> None:
        raise Unavailable("DULY-E501", "away")

    monkeypatch.setattr(type(bench.store.keys), "key", away)

    assert (await bench.client(ADMIN).get("/v1/jobs")).status_code == 503
    assert (await bench.client(None).get("/v1/jobs")).status_code == 401
    assert (await bench.client(None).get("/healthz")).status_code == 200


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["0 3 * * *", "UTC", "2026-06-01T00:00:00Z", "CRON"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["handler", "pool", "http", "shell", "policy", "url"]), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = ["name", "type", "schedule", "seconds", "timezone", "intervalSec", "anchorAt", "runAt", "delaySec", "startAt", "endAt", "payload"]
KEYS += [
    "target",
    "retryPolicy",
    "timeoutSec",
    "priority",
    "overlap",
    "maxQueued",
    "catchUp",
    "description",
    "after",
    "count",
    "dstGap",
    "x",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fields=st.dictionaries(st.sampled_from(KEYS), values, max_size=6), with_target=st.booleans())
async def test_no_body_makes_a_fault(bench: Bench, fields: dict[str, Any], with_target: bool) -> None:
    admin = bench.client(ADMIN)
    sent = {"content": json.dumps({"target": ECHO, **fields} if with_target else fields), "headers": {"content-type": "application/json"}}
    for path in ("/v1/jobs", "/v1/schedules/preview"):
        answer = await admin.post(path, **sent)  # type: ignore[arg-type]
        assert answer.status_code in (200, 201) or (answer.status_code < 500 and is_a_problem(answer)), answer.text


@pytest.mark.parametrize(
    "url", ["http://[::1", "https://[1.2.3.4]/", "https://\u2100.com/", "https://example.com:port/", "https://a:99999/", "https://a:0/"]
)
async def test_an_address_that_cannot_be_taken_apart_is_refused_wherever_it_comes(bench: Bench, admin: httpx.AsyncClient, url: str) -> None:
    job = await bench.job(name="stays")
    target = {"http": {"url": url}}

    for answer in (
        await admin.post("/v1/jobs", json={"target": target}),
        await admin.post("/v1/jobs:batch", json={"jobs": [{"target": target}]}),
        await admin.put(f"/v1/jobs/{job}", json={"name": "stays", "target": target}),
        await admin.post("/v1/jobs", json={"steps": [{"name": "call", "target": target}]}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (422, "DULY-E106")
        assert is_a_problem(answer)
        assert answer.json()["field"].endswith("http.url")


async def test_an_address_may_be_put_together_from_secrets(admin: httpx.AsyncClient) -> None:
    target = {"http": {"url": "https://${secret:env:HOOK_HOST}:${secret:env:HOOK_PORT}/nightly"}}

    assert (await admin.post("/v1/jobs", json={"target": target})).status_code == 201


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"schedule": "0 0 1 1 *", "startAt": "2030-01-02T00:00:00Z", "endAt": "2030-02-01T00:00:00Z"}, "endAt"),
        ({"schedule": "0 0 1 1 *", "endAt": "2020-02-01T00:00:00Z"}, "endAt"),
        (
            {"intervalSec": 86400, "anchorAt": "2026-01-01T00:00:00Z", "endAt": "2026-01-01T02:00:00Z"},
            "endAt",
        ),
        ({"schedule": "30 2 * 3 0#2", "timezone": "America/New_York", "dstGap": "skip"}, "schedule"),
        ({"runAt": "2026-12-01T09:00:00Z", "endAt": "2026-11-01T00:00:00Z"}, "endAt"),
        ({"runAt": "2026-12-01T09:00:00Z", "startAt": "2026-12-01T09:00:01Z"}, "startAt"),
        ({"delaySec": 3600, "endAt": "2026-01-05T12:30:00Z"}, "endAt"),
    ],
)
async def test_what_cannot_be_created_because_it_never_fires_is_no_preview_either(
    admin: httpx.AsyncClient, asked: dict[str, Any], field: str
) -> None:
    shown = await admin.post("/v1/schedules/preview", json=asked)
    made = await admin.post("/v1/jobs", json={**asked, "target": ECHO})

    assert (shown.status_code, shown.json()["code"], shown.json()["field"]) == (422, "DULY-E102", field)
    assert (made.status_code, made.json()["code"]) == (422, "DULY-E102")


async def test_a_single_time_outside_of_its_bounds_is_no_change_of_a_job_either(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job(name="once")
    once = {"name": "once", "target": ECHO, "runAt": "2026-12-01T09:00:00Z"}

    refused = await admin.put(f"/v1/jobs/{job}", json={**once, "endAt": "2026-12-01T08:59:59Z"})
    taken = await admin.put(f"/v1/jobs/{job}", json={**once, "startAt": "2026-11-01T00:00:00Z", "endAt": once["runAt"]})

    assert (refused.status_code, refused.json()["code"], refused.json()["field"]) == (422, "DULY-E102", "endAt")
    assert (taken.status_code, taken.json()["nextFireAt"]) == (200, "2026-12-01T09:00:00Z")


REFERENCE = {"$secret": "nope"}


@pytest.mark.parametrize(
    ("path", "body", "field", "hint"),
    [
        ("jobs", {"target": ECHO, "payload": REFERENCE}, "payload", '{"$secret": "env:'),
        ("jobs", {"target": {"http": {"url": "https://x.example.com/${secret:nope}"}}}, "target.http.url", "${secret:env:"),
        (
            "jobs",
            {"target": {"http": {"url": "https://x.example.com/", "headers": {"A": "${secret:nope}"}}}},
            "target.http.headers.A",
            "${secret:env:",
        ),
        (
            "jobs",
            {"steps": [{"name": "a", "target": ECHO}, {"name": "b", "target": ECHO, "payload": REFERENCE}]},
            "steps[1].payload",
            '{"$secret": "env:',
        ),
        ("jobs/{job}/executions", {"payload": REFERENCE}, "payload", '{"$secret": "env:'),
        ("jobs/{job}/executions:batch", {"executions": [{}, {"payload": REFERENCE}]}, "executions[1].payload", '{"$secret": "env:'),
    ],
)
async def test_a_malformed_reference_says_where_it_is_and_how_it_is_written_there(
    bench: Bench, path: str, body: dict[str, Any], field: str, hint: str
) -> None:
    answer = await bench.client(ADMIN).post(f"/v1/{path}".replace("{job}", await bench.job()), json=body)

    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (422, "DULY-E141", field)
    assert hint in answer.json()["hint"]


async def test_a_malformed_reference_of_a_channel_says_so_too(admin: httpx.AsyncClient) -> None:
    answer = await admin.put("/v1/alert-channels/ops", json={"kind": "slack", "secret": "nope"})

    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (422, "DULY-E141", "secret")
    assert answer.json()["hint"].startswith("For example env:")


async def test_a_name_that_stands_twice_in_a_batch_says_where(admin: httpx.AsyncClient) -> None:
    jobs = [{"target": ECHO, "name": name} for name in ("a", "b", "c", "b")]

    answer = await admin.post("/v1/jobs:batch", json={"jobs": jobs})

    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (409, "DULY-E208", "jobs[3].name")
    assert "jobs[1]" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/v1/events", "/v1/executions/{run}/logs"])
async def test_a_malformed_event_id_is_named_by_its_header(bench: Bench, path: str) -> None:
    run = await bench.enqueue(await bench.job())
    headers = {"last-event-id": "x", "accept": "text/event-stream"}

    answer = await bench.client(ADMIN).get(path.replace("{run}", run), headers=headers)

    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (422, "DULY-E112", "Last-Event-ID")


@pytest.mark.parametrize(("schedule", "said"), [("0 3 * * *\n", "ends with a line break"), ("0 3 * *\n*", "has a line break")])
async def test_a_line_break_in_a_schedule_is_called_one(admin: httpx.AsyncClient, schedule: str, said: str) -> None:
    answer = await admin.post("/v1/jobs", json={"target": ECHO, "schedule": schedule})

    assert (answer.status_code, answer.json()["code"]) == (422, "DULY-E101")
    assert said in answer.json()["detail"]
    assert answer.json()["hint"].startswith("Write it on one line")
