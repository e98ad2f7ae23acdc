-- name: count_queued
-- The functions for other languages count the same way.
SELECT duly_count_queued(:tenant::int, :most::bigint) AS n;

-- name: drop_finished
-- Everything of executions that are kept no longer, in one transaction. What was asked of them goes first, while they are still there.
WITH old AS MATERIALIZED (
    SELECT unnest(:ids::uuid[]) AS id
), a AS (
    DELETE FROM logs WHERE id IN (SELECT id FROM old)
), b AS (
    DELETE FROM attempts WHERE id IN (SELECT id FROM old)
), c AS (
    DELETE FROM checkpoints WHERE id IN (SELECT id FROM old)
), d AS (
    DELETE FROM settled WHERE id IN (SELECT id FROM old)
), e AS (
    DELETE FROM cancels WHERE id IN (SELECT id FROM old)
), f AS (
    DELETE FROM uniques WHERE id IN (SELECT id FROM old) AND until IS NULL
), g AS (
    DELETE FROM executions WHERE id IN (SELECT id FROM old)
)
DELETE FROM outcomes WHERE id IN (SELECT id FROM old);
