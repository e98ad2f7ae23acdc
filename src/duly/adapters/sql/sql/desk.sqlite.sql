-- name: member_reported
SELECT m.attempt, m.failures, l.granted_at, e.job_version, e.due_at, e.holds_place OR e.gates IS NOT NULL AS holds_place
FROM leases l JOIN leased m ON m.lease_id = l.lease_id JOIN executions e ON e.id = m.id
WHERE l.lease_id = :lease AND l.worker = :worker AND m.id = :id;

-- name: ended_under
-- How the attempt under this lease ended; all NULL when it has not.
SELECT (SELECT a.outcome FROM attempts a WHERE a.id = :id AND a.lease_id = :lease AND a.worker = :worker) AS outcome,
       (SELECT a.retry_at FROM attempts a WHERE a.id = :id AND a.lease_id = :lease AND a.worker = :worker) AS retry_at,
       (SELECT o.state FROM outcomes o WHERE o.id = :id AND o.lease_id = :lease AND o.worker = :worker) AS state;

-- name: touched
SELECT 1 AS touched FROM attempts WHERE id = :id AND worker = :worker
UNION ALL SELECT 1 FROM outcomes WHERE id = :id AND worker = :worker
UNION ALL SELECT 1 FROM leases l JOIN leased m ON m.lease_id = l.lease_id WHERE m.id = :id AND l.worker = :worker
LIMIT 1;
