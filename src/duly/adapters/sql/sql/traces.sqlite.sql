-- name: traces_of
-- One probe for each: ids are 16 bytes, one after another.
WITH RECURSIVE nth (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM nth WHERE (n + 2) * 16 <= length(:ids))
SELECT t.id, t.context FROM nth CROSS JOIN traces t ON t.id = substr(:ids, n * 16 + 1, 16);

-- name: drop_orphan_traces
-- Of executions that are gone, or never came.
DELETE FROM traces WHERE id IN (
    SELECT t.id FROM traces t WHERE t.id < :before AND NOT EXISTS (SELECT 1 FROM executions e WHERE e.id = t.id) ORDER BY t.id LIMIT :quota);
