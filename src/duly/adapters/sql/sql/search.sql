-- Where those who look for executions begin. Each reads a bounded number of rows along a key; `sifted` looks closer.

-- name: some_jobs_of_tenant
SELECT id FROM jobs WHERE tenant = :tenant ORDER BY id DESC LIMIT :quota;

-- name: ids_of_all
-- Everybody's: whose they are is asked of each.
SELECT id FROM executions WHERE id < :before ORDER BY id DESC LIMIT :quota;

-- name: ids_unusual
SELECT id FROM outcomes WHERE state = :state AND state <> 4 AND id < :before ORDER BY id DESC LIMIT :quota;

-- name: version_numbers
SELECT v.id FROM jobs j JOIN job_versions v ON v.job_id = j.id
WHERE j.id = :job_id AND j.tenant = :tenant
ORDER BY v.version DESC LIMIT :quota;
