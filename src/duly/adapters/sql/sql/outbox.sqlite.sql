-- The outbox where every execution leaves a row.

-- name: note_created
CREATE TRIGGER IF NOT EXISTS note_created AFTER INSERT ON executions BEGIN
    INSERT INTO outbox (kind, at, id, attempt) VALUES (0, NEW.created_at, NEW.id, 0);
END;

-- name: note_dispatched
CREATE TRIGGER IF NOT EXISTS note_dispatched AFTER INSERT ON leased BEGIN
    INSERT INTO outbox (kind, at, id, attempt, lease_id, worker)
    SELECT 1, l.granted_at, NEW.id, NEW.attempt, NEW.lease_id, l.worker FROM leases l WHERE l.lease_id = NEW.lease_id;
END;

-- name: note_failed
CREATE TRIGGER IF NOT EXISTS note_failed AFTER INSERT ON attempts BEGIN
    INSERT INTO outbox (kind, at, id, attempt) VALUES (2, NEW.finished_at, NEW.id, NEW.attempt);
END;

-- name: note_final
CREATE TRIGGER IF NOT EXISTS note_final AFTER INSERT ON outcomes BEGIN
    INSERT INTO outbox (kind, at, id, attempt) VALUES (3, NEW.finished_at, NEW.id, NEW.attempt);
END;

-- name: unnote_created
DROP TRIGGER IF EXISTS note_created;

-- name: unnote_dispatched
DROP TRIGGER IF EXISTS note_dispatched;

-- name: unnote_failed
DROP TRIGGER IF EXISTS note_failed;

-- name: unnote_final
DROP TRIGGER IF EXISTS note_final;

-- name: outbox_read
SELECT r.seq, r.kind, r.at, r.id, r.attempt,
       e.job_id, j.name AS job, t.name AS tenant, e.trigger, e.due_at, e.created_at, e.skip_reason,
       CASE r.kind WHEN 2 THEN a.outcome WHEN 3 THEN o.state END AS verdict,
       coalesce(a.lease_id, o.lease_id, r.lease_id) AS lease_id, coalesce(a.worker, o.worker, r.worker) AS worker,
       coalesce(a.started_at, o.started_at) AS started_at, coalesce(a.finished_at, o.finished_at) AS finished_at,
       a.retry_at, coalesce(a.error, o.error) AS error
FROM (SELECT * FROM outbox ORDER BY seq LIMIT :quota) r
JOIN executions e ON e.id = r.id
JOIN jobs j ON j.id = e.job_id
JOIN tenants t ON t.tenant = e.tenant
LEFT JOIN attempts a ON r.kind = 2 AND a.id = r.id AND a.attempt = r.attempt
LEFT JOIN outcomes o ON r.kind = 3 AND o.id = r.id
ORDER BY r.seq;

-- name: outbox_oldest
SELECT seq FROM outbox ORDER BY seq LIMIT :quota;

-- name: outbox_drop
DELETE FROM outbox WHERE seq = :seq;
