-- What rules are judged by, where a lease is one row with arrays.

-- name: jobs_that_run
SELECT DISTINCT w.job_id
FROM (SELECT e.job_id FROM leases l CROSS JOIN LATERAL unnest(l.ids) AS d (id) JOIN executions e ON e.id = d.id
      WHERE l.granted_at < :due_before AND e.tenant = :tenant AND e.trigger <> 5 LIMIT 2000) w
LIMIT :quota;
