-- Executions by their ids, 16 bytes each, one after another: one probe of the key for each.

-- name: candidates
WITH RECURSIVE nth (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM nth WHERE (n + 2) * 16 <= length(:ids))
SELECT s.id, s.job_id, s.job_version, s.state, s.created_at, s.batch, s.last_outcome, s.error, d.id IS NOT NULL AS is_settled,
       coalesce(s.payload, v.definition ->> 'payload') AS payload
FROM nth
CROSS JOIN execution_state s ON s.id = substr(:ids, n * 16 + 1, 16)
JOIN job_versions v ON v.id = s.job_version
LEFT JOIN settled d ON d.id = s.id
WHERE s.tenant = :tenant AND s.run IS NULL
ORDER BY s.id DESC;

-- name: open_letters
-- Those of these that nobody has settled. The CASE is that of `sifted`.
WITH RECURSIVE nth (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM nth WHERE (n + 2) * 16 <= length(:ids))
SELECT o.id, e.job_id, j.name AS job_name, o.finished_at, o.attempt, o.error
FROM nth
CROSS JOIN outcomes o ON o.id = substr(:ids, n * 16 + 1, 16)
JOIN executions e ON e.id = o.id
JOIN jobs j ON j.id = e.job_id
LEFT JOIN settled d ON d.id = o.id
WHERE CASE WHEN n IS NULL THEN FALSE ELSE e.tenant = :tenant AND (:job_id IS NULL OR e.job_id = :job_id) END AND d.id IS NULL
ORDER BY o.id DESC;
