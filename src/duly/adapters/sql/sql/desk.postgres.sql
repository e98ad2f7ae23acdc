-- name: members_reported
SELECT f.lease_id, f.id, m.attempt, m.failures, l.granted_at, e.job_version, e.due_at, e.holds_place OR e.gates IS NOT NULL AS holds_place
FROM unnest(:leases::bigint[], :ids::uuid[]) AS f (lease_id, id)
JOIN leases l ON l.lease_id = f.lease_id AND l.worker = :worker::bigint
CROSS JOIN LATERAL (SELECT attempt, failures FROM unnest(l.ids, l.attempts, l.failures) AS x (id, attempt, failures) WHERE x.id = f.id) m
JOIN executions e ON e.id = f.id
WHERE NOT EXISTS (SELECT FROM outcomes o WHERE o.id = f.id)
  AND NOT EXISTS (SELECT FROM attempts a WHERE a.id = f.id AND a.attempt = m.attempt);

-- name: lock_leases
-- Settle, statement 1: whoever reports under these leases waits for us. What follows sees all that was reported before.
SELECT lease_id FROM leases WHERE lease_id = ANY (:leases::bigint[]) AND worker = :worker::bigint ORDER BY lease_id FOR UPDATE;

-- name: ended_under
-- Settle, before and after the finish: how each attempt ended under its lease; NULLs when it has not.
-- One probe of the key each, whatever joins the lane allows.
SELECT f.lease_id, f.id,
       (SELECT a.outcome FROM attempts a WHERE a.id = f.id AND a.lease_id = f.lease_id AND a.worker = :worker::bigint) AS outcome,
       (SELECT a.retry_at FROM attempts a WHERE a.id = f.id AND a.lease_id = f.lease_id AND a.worker = :worker::bigint) AS retry_at,
       (SELECT o.state FROM outcomes o WHERE o.id = f.id AND o.lease_id = f.lease_id AND o.worker = :worker::bigint) AS state
FROM unnest(:leases::bigint[], :ids::uuid[]) AS f (lease_id, id);

-- name: touched
SELECT f.id FROM unnest(:ids::uuid[]) AS f (id)
WHERE EXISTS (SELECT FROM attempts a WHERE a.id = f.id AND a.worker = :worker::bigint)
   OR EXISTS (SELECT FROM outcomes o WHERE o.id = f.id AND o.worker = :worker::bigint)
   OR EXISTS (SELECT FROM leases l WHERE l.worker = :worker::bigint AND f.id = ANY (l.ids));
