-- Where tenants live when there is more than one store, and how one of them is put to sleep and woken. A schedule or a timer sleeps
-- in a shard below zero, which nobody owns; -1 - shard is the way there and back. See domain/homes.py.

-- name: tenant_home
SELECT tenant, name, standing, store FROM tenants WHERE name = :name;

-- name: stand
-- Only from where it was read: of two moves one goes on.
UPDATE tenants SET standing = :standing, store = :store
WHERE tenant = :tenant AND standing = :read
RETURNING tenant;

-- name: settle_tenant
-- A tenant that was given its number by another store. No row: the number or the name is somebody else's, or it is here already.
INSERT INTO tenants (tenant, name, weight, max_jobs, max_queued, max_concurrent, max_fires_per_minute, max_payload_bytes, retention_days,
                     version, created_at, standing, store)
VALUES (:tenant, :name, :weight, :max_jobs, :max_queued, :max_concurrent, :max_fires_per_minute, :max_payload_bytes, :retention_days,
        :version, :created_at, :standing, :store)
ON CONFLICT DO NOTHING
RETURNING tenant;

-- name: renew_tenant
-- One that comes back, or whose move begins again, as it is at its home now.
UPDATE tenants
SET weight = :weight, max_jobs = :max_jobs, max_queued = :max_queued, max_concurrent = :max_concurrent,
    max_fires_per_minute = :max_fires_per_minute, max_payload_bytes = :max_payload_bytes, retention_days = :retention_days,
    version = :version, standing = :standing, store = :store
WHERE tenant = :tenant AND name = :name AND standing <> 0
RETURNING tenant;

-- name: sleep_schedules
-- One that is paused already stays as it is: so waking finds those that fired.
UPDATE schedules SET shard = -1 - shard, paused = true
WHERE job_id IN (SELECT s.job_id FROM jobs j JOIN schedules s ON s.job_id = j.id
                 WHERE j.tenant = :tenant AND s.shard >= 0 AND NOT s.paused LIMIT :quota)
RETURNING job_id;

-- name: wake_schedules
UPDATE schedules SET shard = -1 - shard, paused = false
WHERE job_id IN (SELECT s.job_id FROM jobs j JOIN schedules s ON s.job_id = j.id WHERE j.tenant = :tenant AND s.shard < 0 LIMIT :quota)
RETURNING job_id;

-- name: sleep_timers
UPDATE timers SET shard = -1 - shard
WHERE id IN (SELECT t.id FROM timers t WHERE t.tenant = :tenant AND t.shard >= 0 LIMIT :quota)
RETURNING id;

-- name: wake_timers
UPDATE timers SET shard = -1 - shard
WHERE id IN (SELECT t.id FROM timers t WHERE t.tenant = :tenant AND t.shard < 0 LIMIT :quota)
RETURNING id;

-- name: ready_to_sleep
SELECT q.route, q.tenant, q.rank, q.id, q.attempt, q.failures, e.due_at
FROM routes r JOIN ready q ON q.route = r.route JOIN executions e ON e.id = q.id
WHERE q.tenant = :tenant
LIMIT :quota
/*postgres: FOR UPDATE OF q SKIP LOCKED*/;

-- name: leave_ready
DELETE FROM ready WHERE route = :route AND tenant = :tenant AND rank = :rank AND id = :id;

-- name: highest_fence
SELECT coalesce(max(lease_id), 0) AS fence FROM leases;

-- name: has_workflows
-- Whether one of the tenant's jobs is made of steps.
SELECT 1 AS found FROM jobs j
WHERE j.tenant = :tenant AND EXISTS (SELECT 1 FROM job_versions v WHERE v.workflow = j.id)
LIMIT 1;
