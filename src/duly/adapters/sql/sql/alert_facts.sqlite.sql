-- What rules are judged by, where leases have a row for each execution.

-- name: jobs_that_run
-- The CASE is that of `sifted`.
SELECT DISTINCT w.job_id
FROM (SELECT e.job_id FROM leases l JOIN leased d ON d.lease_id = l.lease_id CROSS JOIN executions e ON e.id = d.id
      WHERE l.granted_at < :due_before AND CASE WHEN d.id = x'' THEN FALSE ELSE e.tenant = :tenant AND e.trigger <> 5 END LIMIT 2000) w
LIMIT :quota;

-- name: jobs_that_run_late
-- The same for what still runs.
SELECT DISTINCT w.job_id
FROM (SELECT e.job_id
      FROM (SELECT l.granted_at, d.id FROM leases l JOIN leased d ON d.lease_id = l.lease_id LIMIT 2000) r CROSS JOIN executions e ON e.id = r.id
      WHERE e.tenant = :tenant AND e.trigger <> 5 AND r.granted_at - e.due_at > :late_by) w
LIMIT :quota;
