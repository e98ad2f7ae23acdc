-- Dead letters, bulk actions and batches. Dead letters ride the small index of unusual ends; nothing here scans the history.

-- name: ids_of_job
SELECT id FROM executions WHERE job_id = :job_id AND tenant = :tenant AND id < :before ORDER BY id DESC LIMIT :quota;

-- name: ids_of_batch
SELECT id FROM executions WHERE batch = :batch AND tenant = :tenant AND id < :before ORDER BY id DESC LIMIT :quota;

-- name: hasten_timer
-- A retry that waits is due now, and stands in the queue as if it had been meant to be. The row is gone when it was promoted.
UPDATE timers SET rank = rank - due_at + CAST(:now AS bigint), due_at = CAST(:now AS bigint)
WHERE id = :id AND tenant = :tenant AND due_at > CAST(:now AS bigint) AND attempt > 1
RETURNING attempt;

-- name: hasten_attempt
-- A ready row is found by the key that follows from here.
UPDATE attempts SET retry_at = :now WHERE id = :id AND attempt = :attempt;

-- name: settle
INSERT INTO settled (id, settled_at, settled_by, how, replay) VALUES (:id, :now, :by, :how, :replay)
ON CONFLICT DO NOTHING
RETURNING id;

-- name: add_batch
INSERT INTO batches (batch, tenant, job_id, kind, asked_at, asked_by, total, about)
VALUES (:batch, :tenant, :job_id, :kind, :asked_at, :asked_by, :total, :about);

-- name: change_batch
UPDATE batches SET about = :about WHERE batch = :batch;

-- name: lock_batch
SELECT about FROM batches WHERE batch = :batch
/*for update*/;

-- name: batch
SELECT batch, tenant, job_id, kind, asked_at, asked_by, total, about FROM batches WHERE batch = :batch AND tenant = :tenant;

-- name: batch_counts
SELECT state, count(*) AS n FROM execution_state WHERE batch = :batch GROUP BY state;

-- name: backfilled
SELECT b.batch, s.scheduled_at, s.state
FROM batches b JOIN execution_state s ON s.batch = b.batch
WHERE b.job_id = :job_id AND b.tenant = :tenant AND b.kind = 'backfill' AND s.scheduled_at >= :first AND s.scheduled_at <= :last;

-- name: last_due
SELECT max(due_at) AS at FROM executions WHERE batch = :batch;

-- name: drop_batch
DELETE FROM batches WHERE batch = :batch RETURNING tenant;

-- name: drop_batches
-- Of which retention has left nothing.
DELETE FROM batches WHERE asked_at < :before AND NOT EXISTS (SELECT 1 FROM executions e WHERE e.batch = batches.batch);
