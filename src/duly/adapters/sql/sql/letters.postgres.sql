-- Executions by their ids.

-- name: candidates
SELECT s.id, s.job_id, s.state, s.created_at, s.batch, s.last_outcome, s.error, d.id IS NOT NULL AS is_settled,
       coalesce(s.payload::text, v.definition ->> 'payload') AS payload
FROM unnest(:ids::uuid[]) AS f (id)
JOIN execution_state s ON s.id = f.id
JOIN job_versions v ON v.id = s.job_version
LEFT JOIN settled d ON d.id = s.id
WHERE s.tenant = :tenant
ORDER BY s.id DESC;

-- name: settle_many
-- In the order of their ids; whoever settles the same ones at this moment is waited for, and then was first.
INSERT INTO settled (id, settled_at, settled_by, how, replay)
SELECT id, :now::bigint, :by::text, :how::smallint, replay
FROM unnest(:ids::uuid[], :replays::uuid[]) AS f (id, replay)
ORDER BY id
ON CONFLICT DO NOTHING
RETURNING id;
