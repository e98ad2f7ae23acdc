-- Submit and fire, one row at a time: what both engines do for executions that have a place, limits, a unique key or a batch.
-- PostgreSQL writes the plain ones in bulk instead (sql/postgres.sql). Where somebody only asks whether a row was written, SQLite's engine
-- knows without RETURNING, which would take it as long again.

-- name: add_execution
-- No row: it was written before, and so was what follows from it.
INSERT INTO executions (id, job_id, job_version, tenant, route, trigger, holds_place, skip_reason, due_at, rank, created_at, payload, scheduled_at, gates, batch)
VALUES (:id, :job_id, :job_version, :tenant, :route, :trigger, :holds_place, :skip_reason, :due_at, :rank, :now, :payload, :scheduled_at, :gates, :batch)
ON CONFLICT DO NOTHING
/*postgres: RETURNING id*/;

-- name: add_executions
-- The same without an answer, for batches whose ids are known to be new.
INSERT INTO executions (id, job_id, job_version, tenant, route, trigger, holds_place, skip_reason, due_at, rank, created_at, payload, scheduled_at, gates, batch)
VALUES (:id, :job_id, :job_version, :tenant, :route, :trigger, :holds_place, :skip_reason, :due_at, :rank, :now, :payload, :scheduled_at, :gates, :batch);

-- name: make_ready
INSERT INTO ready (route, tenant, rank, id, attempt, failures) VALUES (:route, :tenant, :rank, :id, :attempt, :failures);

-- name: make_timer
INSERT INTO timers (id, shard, due_at, route, tenant, rank, attempt, failures, gated)
VALUES (:id, :shard, :due_at, :route, :tenant, :rank, :attempt, :failures, :gated);

-- name: advance_schedule
-- Only from where it was read: whoever comes second finds it moved, and so does whoever read before somebody asked for a skip.
UPDATE schedules
SET next_fire_at = :next_at,
    skip_at = CASE WHEN skip_at < :next_at THEN NULL ELSE skip_at END,
    skip_by = CASE WHEN skip_at < :next_at THEN NULL ELSE skip_by END
WHERE job_id = :job_id AND next_fire_at = :read_at AND version = :version AND NOT paused
  AND coalesce(skip_at, 0) = coalesce(CAST(:skip_at AS bigint), 0)
/*postgres: RETURNING job_id*/;

-- name: complete_job
UPDATE jobs SET state = 2, changed_at = :now WHERE id = :id AND state <> 3;

-- name: skip
INSERT INTO outcomes (id, state, attempt, finished_at, error) VALUES (:id, 7, 0, :now, :error);

-- name: taken_places
-- Who is live. Locked, so that a finish waits for us: what we decide to wait for cannot leave unseen.
SELECT place, id FROM places WHERE job_id = :job_id ORDER BY place
/*postgres: FOR UPDATE*/;

-- name: take_place
INSERT INTO places (job_id, place, id) VALUES (:job_id, :place, :id) ON CONFLICT DO NOTHING /*postgres: RETURNING id*/;

-- name: take_only_place
-- Of a job that runs one at a time, and skips whoever comes meanwhile. One that allowed more before may still have its later places taken.
INSERT INTO places (job_id, place, id)
SELECT :job_id, 0, :id WHERE NOT EXISTS (SELECT 1 FROM places WHERE job_id = :job_id)
ON CONFLICT DO NOTHING /*postgres: RETURNING id*/;

-- name: waiters_of
-- Oldest first, and not locked: whoever passes a place on at this moment would go past the locked ones and leave them alone.
SELECT id FROM waits WHERE waits_for = :job_id ORDER BY id;

-- name: add_blocked
INSERT INTO blocked (id, reason, route, tenant, rank, attempt, failures) VALUES (:id, :reason, :route, :tenant, :rank, :attempt, :failures);

-- name: drop_blocked
DELETE FROM blocked WHERE id = :id RETURNING attempt;

-- name: add_wait
INSERT INTO waits (waits_for, id) VALUES (:waits_for, :id);

-- name: drop_waits
DELETE FROM waits WHERE id = :id;

-- name: ask_to_stop
-- The wish, from a fire that takes the place of its predecessor. Who was only asked may now be killed; never the other way round.
INSERT INTO cancels AS c (id, asked_at, asked_by, kill_at) VALUES (:id, :now, :by, :kill_at)
ON CONFLICT (id) DO UPDATE SET kill_at = excluded.kill_at WHERE c.kill_at IS NULL AND excluded.kill_at IS NOT NULL;

-- name: take_unique
-- No row: somebody has the key, and is not final or within the window.
INSERT INTO uniques AS u (key, id, until) VALUES (:key, :id, :until)
ON CONFLICT (key) DO UPDATE SET id = excluded.id, until = excluded.until
WHERE u.until <= :now OR (u.until IS NULL AND EXISTS (SELECT 1 FROM outcomes o WHERE o.id = u.id))
RETURNING id;

-- name: unique_holder
SELECT id FROM uniques WHERE key = :key;

-- name: stale_uniques
DELETE FROM uniques WHERE until <= :now OR (until IS NULL AND EXISTS (SELECT 1 FROM outcomes o WHERE o.id = uniques.id));
