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

-- name: replaced_version
-- … and, in a younger snapshot than that lock, the number its versions have reached; and the definition, if an alert is in it.
SELECT version, CASE WHEN CAST(definition AS text) LIKE '%"alert":{%' THEN CAST(definition AS text) END AS watched
FROM job_versions
WHERE id = :id;

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

-- name: changed_jobs
-- Made or changed since; the smallest id of an instant says what was made.
SELECT /*job_columns*/
FROM jobs j
JOIN tenants t ON t.tenant = j.tenant
JOIN job_versions v ON v.id = j.version
LEFT JOIN schedules s ON s.job_id = j.id
WHERE j.id IN (
    SELECT id FROM (SELECT id FROM jobs WHERE tenant = :tenant AND changed_at >= :since ORDER BY changed_at DESC LIMIT :quota) changed
    UNION
    SELECT id FROM (SELECT id FROM jobs WHERE tenant = :tenant AND id >= :first ORDER BY id DESC LIMIT :quota) made)
ORDER BY j.id DESC
LIMIT :quota;

-- name: versions
-- Those of these numbers that there are, one probe each. The numbers are one text with commas between them.
-- Of a step's version the next of its workflow may come along: whoever runs this one is likely to run those.
SELECT v.job_id, j.tenant, t.name AS tenant_name, v.id AS version_id, v.version, v.route, v.definition, v.created_at AS version_created_at
FROM json_each('[' || :numbers || ']') n
CROSS JOIN job_versions a ON a.id = n.value
CROSS JOIN job_versions v ON v.id >= a.id AND v.id <= a.id + iif(a.workflow IS NULL, 0, :following)
                         AND (v.id = a.id OR (v.workflow = a.workflow AND v.version = a.version))
JOIN jobs j ON j.id = CASE WHEN v.workflow IS NULL THEN v.job_id ELSE v.workflow END
JOIN tenants t ON t.tenant = j.tenant;

-- name: use_key
-- An idempotency key, used for the first time. No row: it was used before. Past its time it is free again.
INSERT INTO idempotency AS i (tenant, key, body_hash, answer, expires_at)
VALUES (:tenant, :key, :body_hash, :answer, :expires_at)
ON CONFLICT (tenant, key) DO UPDATE
SET body_hash = excluded.body_hash, answer = excluded.answer, expires_at = excluded.expires_at
WHERE i.expires_at <= :now
RETURNING key;

-- name: used_key
SELECT body_hash, answer, expires_at FROM idempotency WHERE tenant = :tenant AND key = :key;

-- name: answer_key
UPDATE idempotency SET answer = :answer WHERE tenant = :tenant AND key = :key;

-- name: forget_key
-- What it stood for was undone: it is free again.
DELETE FROM idempotency WHERE tenant = :tenant AND key = :key;

-- name: drop_expired_keys
-- So many at a time: a day's end may be the end of millions.
DELETE FROM idempotency
WHERE (tenant, key) IN (SELECT tenant, key FROM idempotency WHERE expires_at <= :now ORDER BY expires_at LIMIT :quota)
RETURNING tenant;

