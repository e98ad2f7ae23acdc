-- name: standing_of_all
SELECT (SELECT count(*) FROM (SELECT 1 FROM timers LIMIT :most)) AS scheduled,
       (SELECT count(*) FROM (SELECT 1 FROM blocked LIMIT :most)) AS blocked,
       (SELECT count(*) FROM (SELECT 1 FROM ready LIMIT :most)) AS pending,
       (SELECT count(*) FROM (SELECT 1 FROM leased LIMIT :most)) AS running;

-- name: long_runs_of_all
-- Leases in the order in which they were granted. The CASE is that of `sifted`.
SELECT e.tenant, e.job_id, m.granted_at
FROM (SELECT d.id, l.granted_at
      FROM (SELECT lease_id, granted_at FROM leases WHERE granted_at < :before ORDER BY lease_id LIMIT :most) l
      CROSS JOIN leased d ON d.lease_id = l.lease_id LIMIT :most) m
CROSS JOIN executions e ON e.id = m.id
WHERE CASE WHEN m.id = x'' THEN FALSE ELSE e.trigger <> 5 END;
