-- Executions by their ids.

-- name: candidates
-- One probe of each key for each id: OFFSET keeps the planner from hashing the whole history instead.
SELECT s.id, s.job_id, s.job_version, s.state, s.created_at, s.batch, s.last_outcome, s.error, d.id IS NOT NULL AS is_settled,
       coalesce(s.payload::text, v.definition ->> 'payload') AS payload
FROM unnest(:ids::uuid[]) AS f (id)
CROSS JOIN LATERAL (SELECT * FROM execution_state WHERE id = f.id OFFSET 0) AS s
JOIN job_versions v ON v.id = s.job_version
LEFT JOIN settled d ON d.id = s.id
WHERE s.tenant = :tenant AND s.run IS NULL
ORDER BY s.id DESC;

-- name: open_letters
-- Those of these that nobody has settled.
SELECT f.id, e.job_id, j.name AS job_name, o.finished_at, o.attempt, o.error
FROM unnest(:ids::uuid[]) AS f (id)
CROSS JOIN LATERAL (SELECT job_id FROM executions WHERE id = f.id AND tenant = :tenant::int OFFSET 0) e
CROSS JOIN LATERAL (SELECT finished_at, attempt, error FROM outcomes WHERE id = f.id AND state = 5 OFFSET 0) o
CROSS JOIN LATERAL (SELECT name FROM jobs WHERE id = e.job_id OFFSET 0) j
WHERE (:job_id::uuid IS NULL OR e.job_id = :job_id::uuid) AND (SELECT d.id FROM settled d WHERE d.id = f.id) IS NULL
ORDER BY f.id DESC;

-- name: backfilled
-- From the few batches to what each has made, along its index.
SELECT b.batch, s.scheduled_at, s.state
FROM batches b CROSS JOIN LATERAL (SELECT * FROM execution_state WHERE batch = b.batch OFFSET 0) s
WHERE b.job_id = :job_id AND b.tenant = :tenant AND b.kind = 'backfill' AND s.scheduled_at >= :first AND s.scheduled_at <= :last;

-- name: settle_many
-- In the order of their ids; whoever settles the same ones at this moment is waited for, and then was first.
INSERT INTO settled (id, settled_at, settled_by, how, replay)
SELECT id, :now::bigint, :by::text, :how::smallint, replay
FROM unnest(:ids::uuid[], :replays::uuid[]) AS f (id, replay)
ORDER BY id
ON CONFLICT DO NOTHING
RETURNING id;
