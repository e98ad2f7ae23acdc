-- Definitions: jobs, versions, routes, idempotency. Rare, so each is a plain statement that both engines share.

-- name: add_route
INSERT INTO routes (pool, labels, handler) VALUES (:pool, :labels, :handler) ON CONFLICT DO NOTHING;

-- name: route
SELECT route FROM routes WHERE pool = :pool AND labels = :labels AND handler = :handler;

-- name: routes
SELECT route, pool, labels, handler FROM routes ORDER BY route;

-- name: add_version
INSERT INTO job_versions (job_id, version, route, max_attempts, definition, created_at)
VALUES (:job_id, :version, :route, :max_attempts, :definition, :now)
RETURNING id;

-- name: add_job
-- No row: a live job of the tenant has that name.
INSERT INTO jobs (id, tenant, name, state, version, created_at)
VALUES (:id, :tenant, :name, 0, :version, :now)
ON CONFLICT DO NOTHING
RETURNING id;

-- name: set_schedule
-- Where the job's schedule waits. A job keeps its shard and its pause through every change.
INSERT INTO schedules (job_id, shard, next_fire_at, version, paused)
VALUES (:job_id, :shard, :next_fire_at, :version, :paused)
ON CONFLICT (job_id) DO UPDATE SET next_fire_at = excluded.next_fire_at, version = excluded.version, paused = excluded.paused;

-- name: set_schedule_version
UPDATE schedules SET version = :version WHERE job_id = :job_id;

-- name: lock_schedule
SELECT job_id, next_fire_at, version, paused, skip_at FROM schedules j WHERE job_id = :job_id
/*for update*/;

-- name: set_skip
-- The one fire that somebody asked to skip; NULL: none.
UPDATE schedules SET skip_at = :skip_at, skip_by = :skip_by WHERE job_id = :job_id;

-- name: lock_job
-- The job as it stands, locked for the change that follows. The job's row alone: joined with its version, a call that waited
-- for another's change would find the old version no longer fits the new row, and no job at all.
SELECT id, state, name, version AS version_id, paused_until
FROM jobs
WHERE id = :id AND tenant = :tenant
/*for update*/;

-- name: version_number
-- … and, in a younger snapshot than that lock, the number its versions have reached.
SELECT version FROM job_versions WHERE id = :id;

-- name: name_is_taken
SELECT id FROM jobs WHERE tenant = :tenant AND name = :name AND state <> 3 AND id <> :id;

-- name: set_version
UPDATE jobs SET version = :version, name = :name, state = :state, changed_at = :now WHERE id = :id;

-- name: set_job_state
UPDATE jobs
SET state = :state, paused_at = :paused_at, pause_reason = :reason, paused_by = :paused_by, paused_until = :paused_until, changed_at = :now
WHERE id = :id;

-- part: job_columns
       j.id AS job_id, j.tenant, t.name AS tenant_name, j.state, j.created_at, j.paused_at, j.pause_reason, j.paused_by, j.paused_until,
       v.id AS version_id, v.version, v.route, v.definition, v.created_at AS version_created_at, s.next_fire_at, s.skip_at, s.skip_by

-- name: job
SELECT /*job_columns*/
FROM jobs j
JOIN tenants t ON t.tenant = j.tenant
JOIN job_versions v ON v.id = j.version
LEFT JOIN schedules s ON s.job_id = j.id
WHERE j.id = :id AND j.tenant = :tenant;

-- name: job_named
SELECT /*job_columns*/
FROM jobs j
JOIN tenants t ON t.tenant = j.tenant
JOIN job_versions v ON v.id = j.version
LEFT JOIN schedules s ON s.job_id = j.id
WHERE j.tenant = :tenant AND j.name = :name AND j.state <> 3;

-- name: jobs
-- Newest first, past the cursor. A filter that is NULL lets everything through. A pause with an end is over by itself.
SELECT /*job_columns*/
FROM jobs j
JOIN tenants t ON t.tenant = j.tenant
JOIN job_versions v ON v.id = j.version
JOIN routes r ON r.route = v.route
LEFT JOIN schedules s ON s.job_id = j.id
WHERE j.tenant = :tenant AND j.id < :before
  AND (CAST(:name AS text) IS NULL OR j.name = CAST(:name AS text))
  AND (CAST(:state AS smallint) IS NULL OR CASE WHEN j.state = 0 AND j.paused_until > :now THEN 1 ELSE j.state END = CAST(:state AS smallint))
  AND (CAST(:search AS text) IS NULL OR lower(j.name) LIKE CAST(:search AS text) ESCAPE '\')
  AND (CAST(:handler AS text) IS NULL OR r.handler = CAST(:handler AS text))
  AND (CAST(:pool AS text) IS NULL OR r.pool = CAST(:pool AS text))
  AND (CAST(:type AS text) IS NULL OR v.definition -> 'timing' ->> 'type' = CAST(:type AS text))
  AND (CAST(:next_fire_after AS bigint) IS NULL OR (j.state = 0 AND s.next_fire_at >= CAST(:next_fire_after AS bigint) AND s.next_fire_at < 4611686018427387904))
  AND (CAST(:next_fire_before AS bigint) IS NULL OR (j.state = 0 AND s.next_fire_at < CAST(:next_fire_before AS bigint)))
ORDER BY j.id DESC
LIMIT :quota;

-- name: waiting_jobs
SELECT /*job_columns*/
FROM jobs j
JOIN tenants t ON t.tenant = j.tenant
JOIN job_versions v ON v.id = j.version
JOIN schedules s ON s.job_id = j.id
WHERE j.tenant = :tenant AND j.state = 0 AND NOT s.paused AND s.next_fire_at < :before
ORDER BY s.next_fire_at, j.id
LIMIT :quota;

-- name: changed_jobs
-- Made or changed since; the smallest id of an instant says what was made.
SELECT /*job_columns*/
FROM jobs j
JOIN tenants t ON t.tenant = j.tenant
JOIN job_versions v ON v.id = j.version
LEFT JOIN schedules s ON s.job_id = j.id
WHERE j.id IN (
    SELECT id FROM jobs WHERE tenant = :tenant AND changed_at >= :since
    UNION
    SELECT id FROM jobs WHERE tenant = :tenant AND id >= :first)
ORDER BY j.id DESC
LIMIT :quota;

-- name: version
SELECT v.job_id, j.tenant, t.name AS tenant_name, v.id AS version_id, v.version, v.route, v.definition, v.created_at AS version_created_at
FROM job_versions v
JOIN jobs j ON j.id = v.job_id
JOIN tenants t ON t.tenant = j.tenant
WHERE v.id = :id;

-- name: job_counts
SELECT c.state, count(*) AS n
FROM (SELECT CASE WHEN state = 0 AND paused_until > :now THEN 1 ELSE state END AS state FROM jobs WHERE tenant = :tenant) c
GROUP BY c.state;

-- name: use_key
-- An idempotency key, used for the first time. No row: it was used before. Past its time it is free again.
INSERT INTO idempotency AS i (tenant, key, body_hash, answer, expires_at)
VALUES (:tenant, :key, :body_hash, :answer, :expires_at)
ON CONFLICT (tenant, key) DO UPDATE
SET body_hash = excluded.body_hash, answer = excluded.answer, expires_at = excluded.expires_at
WHERE i.expires_at <= :now
RETURNING key;

-- name: used_key
SELECT body_hash, answer FROM idempotency WHERE tenant = :tenant AND key = :key;

-- name: answer_key
UPDATE idempotency SET answer = :answer WHERE tenant = :tenant AND key = :key;

-- name: drop_expired_keys
DELETE FROM idempotency WHERE expires_at <= :now;

