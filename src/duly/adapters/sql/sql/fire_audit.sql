-- The auditor: what should have fired, from versions and pauses as they were, and what is on record.

-- name: end_pause
UPDATE pauses SET until = :now + 1 WHERE job_id = :job_id AND (until IS NULL OR until > :now);

-- name: note_pause
INSERT INTO pauses (job_id, since, until) VALUES (:job_id, :now, :until)
ON CONFLICT (job_id, since) DO UPDATE SET until = excluded.until;

-- name: take_watch
-- One at a time: this one, if it is the one, or if the last has not been seen for long.
INSERT INTO watches (name, owner, until, reached) VALUES (:name, :owner, :until, '')
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
WHERE watches.owner = excluded.owner OR watches.until <= :now
RETURNING reached;

-- name: leave_watch
UPDATE watches SET until = 0 WHERE name = :name AND owner = :owner;

-- name: reach
UPDATE watches SET reached = :reached WHERE name = :name AND owner = :owner RETURNING name;

-- name: audited_jobs
SELECT j.id, j.tenant, j.created_at, t.standing
FROM jobs j JOIN tenants t ON t.tenant = j.tenant
WHERE j.id > :after
ORDER BY j.id LIMIT :quota;

-- name: audited_versions
-- Of each job the versions since an instant, and the one that was current then. What had ended by then owes nothing.
SELECT v.job_id, j.tenant, t.name AS tenant_name, v.id AS version_id, v.version, v.route, v.definition, v.created_at AS version_created_at
FROM jobs j
JOIN tenants t ON t.tenant = j.tenant
JOIN job_versions v ON v.job_id = j.id
WHERE j.id > :after AND j.id <= :last AND (j.state < 2 OR j.changed_at IS NULL OR j.changed_at > :first) AND v.workflow IS NULL AND v.definition -> 'timing' ->> 'type' <> 'ON_DEMAND'
  AND (v.created_at > :first
       OR v.version = (SELECT max(w.version) FROM job_versions w WHERE w.job_id = j.id AND w.created_at <= :first))
ORDER BY v.job_id, v.version;

-- name: audited_pauses
SELECT job_id, since, until FROM pauses WHERE job_id > :after AND job_id <= :last AND (until IS NULL OR until > :first);

-- name: fire_record
SELECT e.id FROM executions e WHERE e.id = :id;

-- name: fire_standing
-- Recorded, and in none of the places where it could stand.
SELECT s.id
FROM execution_state s
WHERE s.id = :id AND s.state = 3 AND s.fence IS NULL AND NOT EXISTS (SELECT 1 FROM flows f WHERE f.run = s.id);

-- name: fire_outcome
SELECT id FROM outcomes WHERE id = :id;

-- name: add_missed
INSERT INTO missed_fires (job_id, at, tenant, kind, found_at) VALUES (:job_id, :at, :tenant, :kind, :now)
ON CONFLICT (job_id, at) DO UPDATE SET resolved_at = NULL, found_at = excluded.found_at, kind = excluded.kind
WHERE missed_fires.resolved_at IS NOT NULL;

-- name: resolve_missed
UPDATE missed_fires SET resolved_at = :now WHERE job_id = :job_id AND at = :at AND resolved_at IS NULL;

-- name: open_missed
SELECT job_id, at, tenant, kind, found_at, resolved_at, '' AS job_name FROM missed_fires WHERE resolved_at IS NULL ORDER BY at LIMIT :quota;

-- name: missed_of_tenant
SELECT m.job_id, m.at, m.tenant, m.kind, m.found_at, m.resolved_at, j.name AS job_name
FROM missed_fires m JOIN jobs j ON j.id = m.job_id
WHERE m.tenant = :tenant AND (m.at, m.job_id) < (:at, :before)
  AND (CAST(:job_id AS text) IS NULL OR m.job_id = :job_id)
  AND (:open_only = 0 OR m.resolved_at IS NULL)
ORDER BY m.at DESC, m.job_id DESC LIMIT :quota;

-- name: missed_count
SELECT count(*) AS n FROM (SELECT 1 AS one FROM missed_fires WHERE tenant = :tenant AND resolved_at IS NULL LIMIT 10000) AS open;

-- name: forget_missed
DELETE FROM missed_fires WHERE at < :before;

-- name: forget_pauses
DELETE FROM pauses WHERE until < :before;
