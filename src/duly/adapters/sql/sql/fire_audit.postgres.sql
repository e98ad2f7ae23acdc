-- The auditor, where many keys cost one question, and types are asked for.

-- name: audited_versions
-- Job by job, along the key: OFFSET keeps the planner from reading the versions of all jobs, and their definitions, for each page of them.
SELECT v.job_id, j.tenant, t.name AS tenant_name, v.id AS version_id, v.version, v.route, v.definition, v.created_at AS version_created_at
FROM (SELECT id, tenant FROM jobs
      WHERE id > :after AND id <= :last AND (state < 2 OR changed_at IS NULL OR changed_at > :first) ORDER BY id OFFSET 0) j
JOIN tenants t ON t.tenant = j.tenant
CROSS JOIN LATERAL (
    SELECT w.* FROM job_versions w
    WHERE w.job_id = j.id
      AND (w.created_at > :first
           OR w.version = (SELECT max(o.version) FROM job_versions o WHERE o.job_id = j.id AND o.created_at <= :first))
    OFFSET 0
) v
WHERE v.workflow IS NULL AND v.definition -> 'timing' ->> 'type' <> 'ON_DEMAND'
ORDER BY v.job_id, v.version;

-- name: fire_records
-- One probe of each key for each id: OFFSET keeps the planner from reading all of them instead.
SELECT e.id, o.id IS NOT NULL AS has_ended
FROM unnest(:ids::uuid[]) AS f (id)
CROSS JOIN LATERAL (SELECT id FROM executions WHERE id = f.id OFFSET 0) e
LEFT JOIN LATERAL (SELECT id FROM outcomes WHERE id = f.id OFFSET 0) o ON true;

-- name: missed_of_tenant
-- The parameters' types cannot be read off where they stand.
SELECT m.job_id, m.at, m.tenant, m.kind, m.found_at, m.resolved_at, j.name AS job_name
FROM missed_fires m JOIN jobs j ON j.id = m.job_id
WHERE m.tenant = :tenant AND (m.at, m.job_id) < (:at, :before)
  AND (:job_id::uuid IS NULL OR m.job_id = :job_id::uuid)
  AND (NOT :open_only::boolean OR m.resolved_at IS NULL)
ORDER BY m.at DESC, m.job_id DESC LIMIT :quota;
