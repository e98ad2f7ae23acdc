-- How long jobs take. Read along the ids, bounded by a quota; written where the pass still stands as it was read.

-- name: watch_reached
SELECT reached FROM watches WHERE name = :name;

-- name: begin_pass
-- No row: somebody else has begun it.
INSERT INTO watches (name, owner, until, reached) VALUES (:name, '', 0, :reached) ON CONFLICT DO NOTHING RETURNING name;

-- name: move_pass
UPDATE watches SET reached = :reached WHERE name = :name AND reached = :seen RETURNING name;

-- name: ends_counted
SELECT o.id, e.job_id, e.tenant, o.started_at, o.finished_at
FROM (SELECT id, state, started_at, finished_at FROM outcomes WHERE id > :after AND id < :until ORDER BY id LIMIT :quota) o
JOIN executions e ON e.id = o.id
WHERE o.state = 4 AND o.finished_at > :ended_after AND o.started_at IS NOT NULL AND e.trigger <> 5;

-- name: ends_last
SELECT id FROM outcomes WHERE id > :after AND id < :until ORDER BY id LIMIT 1 OFFSET :quota - 1;

-- name: figures
SELECT sketch FROM job_figures WHERE job_id = :job_id
/*for update*/;

-- name: expected
SELECT job_id, sketch FROM job_figures WHERE tenant = :tenant AND job_id = :job_id;

-- name: set_figures
INSERT INTO job_figures (job_id, tenant, sketch, updated_at) VALUES (:job_id, :tenant, :sketch, :now)
ON CONFLICT (job_id) DO UPDATE SET tenant = excluded.tenant, sketch = excluded.sketch, updated_at = excluded.updated_at;
