-- Tenants and their quotas.

-- part: tenant_columns
       t.tenant, t.name, t.weight, t.max_jobs, t.max_queued, t.max_concurrent, t.max_fires_per_minute, t.max_payload_bytes, t.retention_days,
       t.version, t.created_at, t.standing, t.store

-- name: add_tenant
-- No row: the name is taken.
INSERT INTO tenants (name, weight, max_jobs, max_queued, max_concurrent, max_fires_per_minute, max_payload_bytes, retention_days, created_at,
                     standing, store)
VALUES (:name, :weight, :max_jobs, :max_queued, :max_concurrent, :max_fires_per_minute, :max_payload_bytes, :retention_days, :now,
        :standing, :store)
ON CONFLICT DO NOTHING
RETURNING tenant;

-- name: tenant_named
SELECT /*tenant_columns*/
FROM tenants t WHERE t.name = :name;

-- name: tenants_after
-- By name, past the cursor.
SELECT /*tenant_columns*/
FROM tenants t WHERE t.name > :after
ORDER BY t.name
LIMIT :quota;

-- name: bounded_tenants
-- Those that have any quota: few, and read often.
SELECT /*tenant_columns*/
FROM tenants t
WHERE coalesce(t.max_jobs, t.max_queued, t.max_concurrent, t.max_fires_per_minute, t.max_payload_bytes, t.retention_days) IS NOT NULL;

-- name: newest_tenant
SELECT max(tenant) AS tenant FROM tenants;

-- name: lock_tenant
SELECT /*tenant_columns*/
FROM tenants t WHERE t.tenant = :tenant
/*for update*/;

-- name: set_tenant
UPDATE tenants
SET weight = :weight, max_jobs = :max_jobs, max_queued = :max_queued, max_concurrent = :max_concurrent, max_fires_per_minute = :max_fires_per_minute,
    max_payload_bytes = :max_payload_bytes, retention_days = :retention_days, version = version + 1
WHERE tenant = :tenant;

-- name: keep_gate
-- The gate of a tenant's quota, as wide as the quota says.
INSERT INTO gates AS g (gate, tenant, shard, capacity, lasts, about, kept) VALUES (:gate, :tenant, :shard, :capacity, :lasts, :about, true)
ON CONFLICT (gate) DO UPDATE SET capacity = excluded.capacity;

-- name: widen_gate
-- … and one that bounds nothing any more: whoever still comes to it passes.
UPDATE gates SET capacity = :capacity WHERE gate = :gate;

-- ---------------------------------------------------------------- what is left of a quota

-- name: make_headroom
INSERT INTO headroom (tenant, kind) VALUES (:tenant, :kind) ON CONFLICT DO NOTHING;

-- name: lock_headroom
SELECT counted, granted, counted_at FROM headroom WHERE tenant = :tenant AND kind = :kind
/*for update*/;

-- name: set_headroom
UPDATE headroom SET counted = :counted, granted = :granted, counted_at = :counted_at WHERE tenant = :tenant AND kind = :kind;

-- name: forget_headroom
-- Another quota: whoever comes next counts.
UPDATE headroom SET counted_at = NULL WHERE tenant = :tenant;

-- name: quotas_now
-- Read after the headroom is locked, by a statement of its own.
SELECT max_jobs, max_queued, max_fires_per_minute FROM tenants WHERE tenant = :tenant;

-- name: count_live_jobs
SELECT count(*) AS n FROM (SELECT 1 FROM jobs WHERE tenant = :tenant AND state < 2 LIMIT :most) counted;

-- name: count_queued
-- Counted no further than asked. `ready` is walked route by route: that is the order of its key.
SELECT count(*) AS n
FROM (
    SELECT 1
    FROM (
        SELECT 1 FROM timers WHERE tenant = :tenant
        UNION ALL
        SELECT 1 FROM blocked WHERE tenant = :tenant
        UNION ALL
        SELECT 1 FROM routes r JOIN ready q ON q.route = r.route WHERE q.tenant = :tenant
    ) waiting
    LIMIT :most
) counted;

-- name: fires_since
SELECT second, count FROM fires WHERE tenant = :tenant AND second > :second;

-- name: note_fires
INSERT INTO fires AS f (tenant, second, count) VALUES (:tenant, :second, :count)
ON CONFLICT (tenant, second) DO UPDATE SET count = f.count + excluded.count;

-- name: drop_old_fires
DELETE FROM fires WHERE second < :second;

-- name: count_made_since
-- What came in, of a tenant whose fires nobody counts: along the ids, which carry their time.
SELECT count(*) AS n FROM executions WHERE id >= :first AND tenant = :tenant AND created_at > :since;

-- ---------------------------------------------------------------- retention

-- name: jobs_from
SELECT id FROM jobs WHERE tenant = :tenant AND id >= :first ORDER BY id LIMIT :quota;

-- name: old_of_job
-- What a job has finished before a time, oldest first.
SELECT e.id
FROM executions e JOIN outcomes o ON o.id = e.id
WHERE e.job_id = :job_id AND e.id < :before AND o.finished_at < :finished_before
ORDER BY e.id
LIMIT :quota;
