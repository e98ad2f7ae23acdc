-- Why an execution stands where it stands: small reads, each along a key or bounded by a quota, all in one snapshot.

-- name: why_header
SELECT e.route, e.rank, e.due_at, e.job_id, e.created_at, e.holds_place, r.pool, r.labels, r.handler
FROM executions e JOIN routes r ON r.route = e.route
WHERE e.id = :id;

-- name: why_job
SELECT j.id AS job_id, j.tenant, t.name AS tenant_name, j.name, j.state, j.created_at, j.paused_at, j.paused_until, j.paused_by, j.pause_reason,
       v.id AS version_id, v.version, v.route, v.definition, v.created_at AS version_created_at,
       s.next_fire_at, s.paused AS schedule_is_paused, s.skip_at, s.skip_by, s.shard, h.owner, h.lease_until
FROM jobs j
JOIN tenants t ON t.tenant = j.tenant
JOIN job_versions v ON v.id = j.version
LEFT JOIN schedules s ON s.job_id = j.id
LEFT JOIN shards h ON h.shard = s.shard
WHERE j.id = :id AND j.tenant = :tenant;

-- name: shard
SELECT shard, owner, lease_until FROM shards WHERE shard = :shard;

-- name: version_then
-- The version that was current at an instant.
SELECT v.job_id, j.tenant, t.name AS tenant_name, v.id AS version_id, v.version, v.route, v.definition, v.created_at AS version_created_at
FROM job_versions v
JOIN jobs j ON j.id = v.job_id
JOIN tenants t ON t.tenant = j.tenant
WHERE v.job_id = :job_id AND v.created_at <= :at
ORDER BY v.version DESC LIMIT 1;

-- name: why_ahead
-- How many of the tenant come first on the route, up to a bound.
SELECT count(*) AS n
FROM (SELECT 1 AS one FROM ready WHERE route = :route AND tenant = :tenant AND (rank, id) < (:rank, :id) LIMIT :counted_to) AS ahead;

-- name: why_ended
-- How much of the route has ended lately, among the newest of all that has ended.
SELECT count(*) AS n, min(o.finished_at) AS first
FROM (SELECT id, finished_at FROM outcomes ORDER BY id DESC LIMIT :quota) AS o
JOIN executions e ON e.id = o.id
WHERE e.route = :route AND o.finished_at > :since;

-- name: why_line
SELECT (SELECT p.id FROM places p WHERE p.job_id = :job_id AND p.place = 0) AS holder,
       (SELECT count(*) FROM waits w WHERE w.waits_for = :job_id) AS waiting,
       (SELECT count(*) FROM waits w WHERE w.waits_for = :job_id AND w.id < :id) AS ahead;

-- name: other_run
SELECT id, due_at, created_at, state, started_at, finished_at FROM execution_state WHERE id = :id;

-- name: why_gates
-- The limits that it waits at; a slot of a rate has a time at which it is free again.
SELECT g.gate, g.capacity, g.lasts, g.look_at, g.about,
       (SELECT count(*) FROM slots s WHERE s.gate = g.gate) AS taken,
       (SELECT min(s.until) FROM slots s WHERE s.gate = g.gate) AS frees_at,
       (SELECT count(*) FROM gate_waits x WHERE x.gate = w.gate AND (x.rank, x.id) < (w.rank, w.id)) AS ahead
FROM gate_waits w JOIN gates g ON g.gate = w.gate
WHERE w.id = :id;

-- name: why_slots
SELECT id FROM slots WHERE gate = :gate ORDER BY id LIMIT :quota;

-- name: why_wish
SELECT asked_at, asked_by FROM cancels WHERE id = :id;

-- name: why_progress
SELECT number, saved_at, progress, progress_at FROM checkpoints WHERE id = :id;

-- name: why_settled
SELECT settled_at, settled_by, replay FROM settled WHERE id = :id;

-- name: fires_before
-- What the job made before this one, newest first: a row of misfires is an outage.
SELECT due_at, skip_reason FROM executions WHERE job_id = :job_id AND id < :id AND trigger = 0 ORDER BY id DESC LIMIT :quota;

-- name: live_then
-- Who stood in the job's place at an instant: made before it, ended after it, or not at all.
SELECT e.id, e.due_at, e.created_at, coalesce(o.state, 3) AS state, o.started_at, o.finished_at
FROM (SELECT id, due_at, created_at, skip_reason FROM executions
      WHERE job_id = :job_id AND id < :id AND holds_place ORDER BY id DESC LIMIT :quota) AS e
LEFT JOIN outcomes o ON o.id = e.id
WHERE e.skip_reason IS NULL AND coalesce(o.state, 3) <> 7 AND e.created_at <= CAST(:at AS bigint)
  AND (o.finished_at IS NULL OR o.finished_at >= CAST(:at AS bigint))
ORDER BY e.id DESC LIMIT 1;

-- name: worker_tenants
SELECT id, tenant FROM workers WHERE tenant IS NOT NULL AND lost_at IS NULL;

-- name: key_name
SELECT name FROM keys WHERE id = :id;
