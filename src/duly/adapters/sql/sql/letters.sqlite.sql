-- Executions by their ids, 16 bytes each, one after another: one probe of the key for each.

-- name: candidates
WITH RECURSIVE nth (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM nth WHERE (n + 2) * 16 <= length(:ids))
SELECT s.id, s.job_id, s.state, s.created_at, s.batch, s.last_outcome, s.error, d.id IS NOT NULL AS is_settled,
       coalesce(s.payload, v.definition ->> 'payload') AS payload
FROM nth
CROSS JOIN execution_state s ON s.id = substr(:ids, n * 16 + 1, 16)
JOIN job_versions v ON v.id = s.job_version
LEFT JOIN settled d ON d.id = s.id
WHERE s.tenant = :tenant
ORDER BY s.id DESC;
