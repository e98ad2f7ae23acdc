-- The outbox where a statement leaves one row with arrays.

-- part: event_columns
       e.job_id, j.name AS job, t.name AS tenant, e.trigger, e.due_at, e.created_at, e.skip_reason,
       CASE r.kind WHEN 2 THEN a.outcome WHEN 3 THEN o.state END AS verdict,
       coalesce(a.lease_id, o.lease_id, r.lease_id) AS lease_id, coalesce(a.worker, o.worker, r.worker) AS worker,
       coalesce(a.started_at, o.started_at) AS started_at, coalesce(a.finished_at, o.finished_at) AS finished_at,
       a.retry_at, coalesce(a.error, o.error) AS error
FROM noted r
JOIN executions e ON e.id = r.id
JOIN jobs j ON j.id = e.job_id
JOIN tenants t ON t.tenant = e.tenant
LEFT JOIN attempts a ON r.kind = 2 AND a.id = r.id AND a.attempt = r.attempt
LEFT JOIN outcomes o ON r.kind = 3 AND o.id = r.id

-- name: note_events
SELECT duly_note_events(:wanted) AS done;

-- name: outbox_read
-- The oldest rows that are there, with what the history says of them. Of one execution a later change is never there without the earlier
-- ones: whoever made it has seen them, so they had committed.
WITH noted AS MATERIALIZED (
    SELECT b.seq, b.kind, b.at, b.lease_id, b.worker, m.id, m.attempt, m.nth
    FROM (SELECT * FROM outbox ORDER BY seq LIMIT :quota::int) b
    CROSS JOIN LATERAL unnest(b.ids, b.attempts) WITH ORDINALITY AS m (id, attempt, nth)
)
SELECT r.seq, r.kind, r.at, r.id, r.attempt,
/*event_columns*/
ORDER BY r.seq, r.nth;

-- name: outbox_oldest
SELECT seq FROM outbox ORDER BY seq LIMIT :quota::int;

-- name: outbox_drop
DELETE FROM outbox WHERE seq = ANY (:seqs::bigint[]);
