-- Checkpoints and progress on PostgreSQL. The lease row locked FOR SHARE is the fence, as in `finish`; a lease keeps the ids of
-- what has ended until it is closed, so those are looked for as well.

-- name: save_checkpoint
-- The number only grows. The same one again is the same checkpoint, if it comes from the same attempt with the same data.
WITH held AS MATERIALIZED (
    SELECT attempts[array_position(ids, :id::uuid)] AS attempt
    FROM leases
    WHERE lease_id = :lease::bigint AND worker = :worker::bigint AND :id::uuid = ANY (ids)
    FOR SHARE
)
INSERT INTO checkpoints (id, number, attempt, saved_at, data)
SELECT :id::uuid, :number::int, h.attempt, :now::bigint, :data::json
FROM held h
WHERE NOT EXISTS (SELECT FROM outcomes o WHERE o.id = :id::uuid)
  AND NOT EXISTS (SELECT FROM attempts a WHERE a.id = :id::uuid AND a.attempt = h.attempt)
ON CONFLICT (id) DO UPDATE SET number = excluded.number, attempt = excluded.attempt, saved_at = excluded.saved_at, data = excluded.data
WHERE checkpoints.number < excluded.number
   OR (checkpoints.number = excluded.number AND checkpoints.attempt = excluded.attempt AND checkpoints.data::text = excluded.data::text)
RETURNING number;

-- name: report_progress
WITH held AS MATERIALIZED (
    SELECT lease_id, ids, attempts FROM leases WHERE lease_id = ANY (:held::bigint[]) AND worker = :worker::bigint ORDER BY lease_id FOR SHARE
), running AS (
    SELECT f.id, f.progress, h.attempts[array_position(h.ids, f.id)] AS attempt
    FROM unnest(:leases::bigint[], :ids::uuid[], :progresses::json[]) AS f (lease_id, id, progress)
    JOIN held h ON h.lease_id = f.lease_id AND f.id = ANY (h.ids)
)
INSERT INTO checkpoints (id, attempt, progress, progress_at)
SELECT r.id, r.attempt, r.progress, :now::bigint
FROM running r
WHERE NOT EXISTS (SELECT FROM outcomes o WHERE o.id = r.id)
  AND NOT EXISTS (SELECT FROM attempts a WHERE a.id = r.id AND a.attempt = r.attempt)
ORDER BY r.id
ON CONFLICT (id) DO UPDATE SET progress = excluded.progress, progress_at = excluded.progress_at
RETURNING id;

-- name: saved
SELECT id, number, saved_at, data, progress FROM checkpoints WHERE id = ANY (:ids::uuid[]);

-- name: drop_old_checkpoints
-- Of what finished long ago, and of what is gone, in small batches.
WITH dropped AS (
    DELETE FROM checkpoints
    WHERE id = ANY (ARRAY(
        SELECT k.id
        FROM checkpoints k
        LEFT JOIN LATERAL (SELECT o.finished_at FROM outcomes o WHERE o.id = k.id OFFSET 0) o ON true
        WHERE k.id < :before::uuid
          AND (o.finished_at < :finished_before::bigint OR (SELECT e.id FROM executions e WHERE e.id = k.id) IS NULL)
        ORDER BY k.id
        LIMIT :quota::int))
    RETURNING id
)
SELECT count(*) AS n FROM dropped;
