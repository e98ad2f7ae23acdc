-- The end of an attempt in a transaction of its handler's own; the rest is what a finish uses.

-- name: open_member
-- The fence: no row, and there is nothing to end.
SELECT l.worker, m.attempt, e.job_id
FROM leases l JOIN leased m ON m.lease_id = l.lease_id JOIN executions e ON e.id = m.id
WHERE l.lease_id = :lease AND m.id = :id;
