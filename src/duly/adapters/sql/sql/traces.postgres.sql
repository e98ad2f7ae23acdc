-- name: traces_of
SELECT t.id, t.context
FROM unnest(:ids::uuid[]) AS w (id)
CROSS JOIN LATERAL (SELECT id, context FROM traces WHERE id = w.id OFFSET 0) t;

-- name: drop_orphan_traces
-- Of executions that are gone, or never came.
DELETE FROM traces WHERE ctid = ANY (ARRAY(
    SELECT t.ctid FROM traces t
    WHERE t.id < :before::uuid AND (SELECT e.id FROM executions e WHERE e.id = t.id) IS NULL
    ORDER BY t.id LIMIT :quota::int));
