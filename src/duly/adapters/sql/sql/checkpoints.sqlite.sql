-- Checkpoints and progress on SQLite: `member_that_runs` is the fence, read in the same transaction.

-- name: member_that_runs
-- Stricter than `member`: what has ended keeps nothing more, however it was completed.
SELECT m.attempt FROM leases l JOIN leased m ON m.lease_id = l.lease_id
WHERE l.lease_id = :lease AND l.worker = :worker AND m.id = :id;

-- name: save_checkpoint
-- The number only grows. The same one again is the same checkpoint, if it comes from the same attempt with the same data.
INSERT INTO checkpoints (id, number, attempt, saved_at, data) VALUES (:id, :number, :attempt, :now, :data)
ON CONFLICT (id) DO UPDATE SET number = excluded.number, attempt = excluded.attempt, saved_at = excluded.saved_at, data = excluded.data
WHERE checkpoints.number < excluded.number
   OR (checkpoints.number = excluded.number AND checkpoints.attempt = excluded.attempt AND checkpoints.data = excluded.data)
RETURNING number;

-- name: report_progress
INSERT INTO checkpoints (id, attempt, progress, progress_at) VALUES (:id, :attempt, :progress, :now)
ON CONFLICT (id) DO UPDATE SET progress = excluded.progress, progress_at = excluded.progress_at;

-- name: saved
SELECT id, number, saved_at, data, progress FROM checkpoints WHERE id = :id;

-- name: drop_checkpoint
DELETE FROM checkpoints WHERE id = :id;
