"""Looks at the raw tables: every execution stands in exactly one place, and nothing is left over."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from duly.adapters.sql.engine import Engine, Lane
from duly.adapters.sql.engine_sqlite import SqliteEngine
from duly.adapters.sql.rows import NEVER, as_uuid, as_uuids
from duly.domain.lifecycle import COSTS_AN_ATTEMPT, JobState, State

Row = dict[str, Any]

_TABLES = {
    "executions": "SELECT id, job_id, tenant, route, holds_place, skip_reason, due_at, rank, gates FROM executions",
    "timers": "SELECT id, route, tenant, rank, due_at, attempt, failures FROM timers",
    "blocked": "SELECT id, reason, route, tenant, rank, attempt, failures FROM blocked",
    "gates": "SELECT gate, capacity, lasts FROM gates",
    "gate_waits": "SELECT gate, rank, id FROM gate_waits",
    "slots": "SELECT gate, id, attempt, lasts, until FROM slots",
    "ready": "SELECT id, route, tenant, rank, attempt, failures FROM ready",
    "outcomes": "SELECT id, state, attempt, lease_id FROM outcomes",
    "attempts": "SELECT id, attempt, outcome, lease_id, retry_at FROM attempts ORDER BY id, attempt",
    "waits": "SELECT waits_for, id FROM waits",
    "places": "SELECT job_id, place, id FROM places",
    "cancels": "SELECT id FROM cancels",
    "logs": "SELECT DISTINCT id FROM logs",
    "leases": "SELECT lease_id FROM leases",
    "flows": "SELECT run AS id FROM flows",
    "flow_waits": "SELECT id, run FROM flow_waits",
    "jobs": "SELECT j.id, j.state, v.job_id FROM jobs j LEFT JOIN job_versions v ON v.id = j.version",
    "schedules": """SELECT s.job_id, s.next_fire_at, s.paused, j.version AS current, s.version
                    FROM schedules s LEFT JOIN jobs j ON j.id = s.job_id""",
}
_MEMBERS = {
    "sqlite": "SELECT lease_id, id, attempt, failures FROM leased",
    "postgres": """SELECT l.lease_id, m.*
                   FROM leases l CROSS JOIN LATERAL unnest(l.ids, l.attempts, l.failures) AS m (id, attempt, failures)""",
}


async def raw(engine: Engine, sql: str) -> list[Row]:
    """Run SQL beside the ports; uuids come as such from both engines."""
    if isinstance(engine, SqliteEngine):
        rows = await engine._submit(engine._writes, lambda connection: connection.execute(sql).fetchall())
    else:
        async with engine._pools[Lane.GENERAL].connection() as connection:
            rows = await connection.fetch(sql)
    return [{name: _value(row[name]) for name in row.keys()} for row in rows]  # noqa: SIM118


def _value(value: Any) -> Any:
    if isinstance(value, bytes) and len(value) == 16:
        return as_uuid(value)
    if isinstance(value, list):
        return [UUID(int=one.int) for one in value]
    return UUID(int=value.int) if isinstance(value, UUID) else value


async def tables(engine: Engine) -> dict[str, list[Row]]:
    """Every table that says where executions stand."""
    wanted = _TABLES | {"members": _MEMBERS[engine.name]}
    if isinstance(engine, SqliteEngine):
        return {name: await raw(engine, sql) for name, sql in wanted.items()}
    # One round trip for all of them: these laws are asked for after every step of every walk.
    (row,) = await raw(engine, f"SELECT {', '.join(f'(SELECT json_agg(t) FROM ({sql}) t) AS {name}' for name, sql in wanted.items())}")
    return {name: [] if row[name] is None else [_row(one) for one in json.loads(row[name])] for name in wanted}


def _row(read: Row) -> Row:
    return {name: _uuid(value) for name, value in read.items()}


def _uuid(value: Any) -> Any:
    if isinstance(value, list):
        return [_uuid(one) for one in value]
    return UUID(value) if isinstance(value, str) and len(value) == 36 else value


async def assert_ledger_is_sound(engine: Engine) -> None:
    """The laws that hold between any two calls, whatever happened before."""
    rows = await tables(engine)
    headers = {row["id"]: row for row in rows["executions"]}
    attempts: dict[UUID, list[Row]] = defaultdict(list)
    for row in rows["attempts"]:
        attempts[row["id"]].append(row)
    running = _running(rows, attempts)

    _each_stands_in_one_place(headers, rows, running)
    _nothing_is_left_over(headers, rows, attempts)
    _attempts_have_no_holes(headers, rows, attempts, running)
    _keys_can_be_computed(headers, rows, attempts)
    _places_belong_to_the_living(headers, rows)
    _gates_are_passed_in_order(headers, rows, running)
    _schedules_follow_their_jobs(rows)


def _running(rows: Mapping[str, Sequence[Row]], attempts: Mapping[UUID, Sequence[Row]]) -> list[Row]:
    """Members of leases that have not ended: neither an outcome, nor this attempt recorded."""
    final = {row["id"] for row in rows["outcomes"]}
    return [
        member
        for member in rows["members"]
        if member["id"] not in final and member["attempt"] not in {row["attempt"] for row in attempts.get(member["id"], ())}
    ]


def _each_stands_in_one_place(headers: Mapping[UUID, Row], rows: Mapping[str, Sequence[Row]], running: Sequence[Row]) -> None:
    places = {name: rows[name] for name in ("timers", "blocked", "ready", "outcomes", "flows")} | {"leases": running}
    stands: dict[UUID, list[str]] = defaultdict(list)
    for name, found in places.items():
        for row in found:
            stands[row["id"]].append(name)
    assert stands.keys() <= headers.keys(), f"without a header: {stands.keys() - headers.keys()}"
    wrong = {run_id: stands.get(run_id, []) for run_id in headers if len(stands.get(run_id, [])) != 1}
    assert not wrong, f"not in exactly one place: {wrong}"


def _nothing_is_left_over(headers: Mapping[UUID, Row], rows: Mapping[str, Sequence[Row]], attempts: Mapping[UUID, Sequence[Row]]) -> None:
    for name in ("cancels", "logs", "members"):
        orphans = {row["id"] for row in rows[name]} - headers.keys()
        assert not orphans, f"{name} without a header: {orphans}"
    assert attempts.keys() <= headers.keys(), "attempts without a header"
    with_members = {row["lease_id"] for row in rows["members"]}
    leases = {row["lease_id"] for row in rows["leases"]}
    assert leases == with_members, f"empty leases {leases - with_members}, members without a lease {with_members - leases}"
    # A cancelled step leaves what it waited for to the end of its run.
    blocked = {row["id"] for row in rows["blocked"]}
    somebody = [row for row in rows["flow_waits"] if row["id"] in blocked]
    waiting = Counter(row["id"] for row in (*rows["waits"], *rows["gate_waits"], *somebody))
    assert waiting == Counter(row["id"] for row in rows["blocked"]), "who is blocked waits for exactly one thing"
    for row in rows["waits"]:
        assert row["waits_for"] == headers[row["id"]]["job_id"]


def _attempts_have_no_holes(
    headers: Mapping[UUID, Row], rows: Mapping[str, Sequence[Row]], attempts: Mapping[UUID, Sequence[Row]], running: Sequence[Row]
) -> None:
    for run_id, ended in attempts.items():
        assert [row["attempt"] for row in ended] == list(range(1, len(ended) + 1)), f"holes in the attempts of {run_id}"
        fences = [row["lease_id"] for row in ended]
        assert fences == sorted(set(fences)), f"fences of {run_id} do not grow"
    for row in (*rows["timers"], *rows["ready"], *rows["blocked"], *running):
        ended = attempts.get(row["id"], ())
        assert row["attempt"] == len(ended) + 1, f"{row['id']} is at attempt {row['attempt']} after {len(ended)}"
        assert row["failures"] == sum(one["outcome"] in COSTS_AN_ATTEMPT for one in ended), f"budget of {row['id']}"
    for row in running:
        assert all(row["lease_id"] > one["lease_id"] for one in attempts.get(row["id"], ())), "an older fence runs"
    for row in rows["outcomes"]:
        ended = attempts.get(row["id"], ())
        # Runs, and steps that only waited, succeed without an attempt.
        by_worker = row["state"] == State.SUCCEEDED and row["lease_id"] is not None
        assert row["attempt"] == len(ended) + by_worker, f"outcome of {row['id']} after {len(ended)} attempts: {row}"
        if by_worker:
            assert all(row["lease_id"] > one["lease_id"] for one in ended), "an older fence succeeded"
        elif ended:
            assert ended[-1]["retry_at"] is None or row["lease_id"] is None, f"the last attempt of {row['id']} claims a retry"


def _keys_can_be_computed(headers: Mapping[UUID, Row], rows: Mapping[str, Sequence[Row]], attempts: Mapping[UUID, Sequence[Row]]) -> None:
    """A cancel finds a ready row by its key, so the key must follow from header and attempts."""
    for row in (*rows["timers"], *rows["ready"], *rows["blocked"]):
        header = headers[row["id"]]
        ended = attempts.get(row["id"])
        due_at = ended[-1]["retry_at"] if ended else header["due_at"]
        expected = (header["route"], header["tenant"], due_at + header["rank"] - header["due_at"])
        assert (row["route"], row["tenant"], row["rank"]) == expected, f"{row['id']} is not where its key says"


def _places_belong_to_the_living(headers: Mapping[UUID, Row], rows: Mapping[str, Sequence[Row]]) -> None:
    final = {row["id"] for row in rows["outcomes"]}
    blocked = {row["id"] for row in rows["blocked"] if row["reason"] == 0}
    held = {row["id"]: row["job_id"] for row in rows["places"]}
    for run_id, job_id in held.items():
        assert run_id in headers, "a place without a header"
        assert headers[run_id]["job_id"] == job_id
        assert run_id not in final, f"{run_id} is final and keeps its place"
        assert run_id not in blocked, f"{run_id} waits for the place that it has"
    entitled = {run_id for run_id, header in headers.items() if header["holds_place"] and run_id not in final and run_id not in blocked}
    assert entitled == held.keys(), f"live without a place: {entitled - held.keys()}"
    for row in rows["waits"]:
        assert row["waits_for"] in held.values(), f"{row['id']} waits for a place that nobody holds"


def _gates_are_passed_in_order(headers: Mapping[UUID, Row], rows: Mapping[str, Sequence[Row]], running: Sequence[Row]) -> None:
    """Who is past a gate stands in a slot of it, who waits waits at the first gate it has no slot of, and no gate is overfull."""
    gates = {row["gate"]: row for row in rows["gates"]}
    at = {row["id"]: row for row in rows["gate_waits"]}
    assert len(at) == len(rows["gate_waits"]), "one waits at two gates"
    assert at.keys() == {row["id"] for row in rows["blocked"] if row["reason"] == 1}
    live = {row["id"]: row["attempt"] for row in (*rows["ready"], *running, *rows["blocked"])}
    held: dict[UUID, set[UUID]] = defaultdict(set)
    for row in rows["slots"]:
        if row["lasts"] is None or row["until"] is None:
            assert live.get(row["id"]) == row["attempt"], f"{row['id']} has ended and keeps its slot"
        if live.get(row["id"]) == row["attempt"]:
            held[row["id"]].add(row["gate"])
    for run_id in live:
        gate_ids = headers[run_id]["gates"]
        order = [gate_ids] if isinstance(gate_ids, UUID) else as_uuids(gate_ids)
        passed = order[: order.index(at[run_id]["gate"])] if run_id in at else order
        waits_for_a_place = run_id in {row["id"] for row in rows["blocked"] if row["reason"] == 0}
        counted = [gate for gate in passed if gates[gate]["lasts"] is None]
        assert waits_for_a_place or set(counted) <= held[run_id], f"{run_id} went past a gate without a slot"
    for gate, row in gates.items():
        taken = sum(slot["gate"] == gate and slot["lasts"] is None for slot in rows["slots"])
        assert taken <= row["capacity"], f"{taken} at a gate for {row['capacity']}"


def _schedules_follow_their_jobs(rows: Mapping[str, Sequence[Row]]) -> None:
    jobs = {row["id"]: row for row in rows["jobs"]}
    for job_id, job in jobs.items():
        assert job["job_id"] == job_id, "the current version is the job's own"
    for row in rows["schedules"]:
        state = jobs[row["job_id"]]["state"]
        assert row["version"] == row["current"], "a schedule fires the current version"
        if state in (JobState.PAUSED, JobState.CANCELLED):
            assert row["paused"], f"the schedule of a {JobState(state).name} job is not paused"
        if state == JobState.COMPLETED:
            assert row["next_fire_at"] >= NEVER or row["paused"]
