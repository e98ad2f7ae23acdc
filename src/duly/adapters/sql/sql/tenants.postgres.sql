-- name: count_queued
-- The functions for other languages count the same way.
SELECT duly_count_queued(:tenant::int, :most::bigint) AS n;

-- name: drop_finished
-- Everything of executions that are kept no longer, in one transaction. By arrays: each partition is probed, and none is scanned.
WITH a AS (
    DELETE FROM logs WHERE id = ANY (:ids::uuid[])
), b AS (
    DELETE FROM attempts WHERE id = ANY (:ids::uuid[])
), c AS (
    DELETE FROM checkpoints WHERE id = ANY (:ids::uuid[])
), d AS (
    DELETE FROM settled WHERE id = ANY (:ids::uuid[])
), e AS (
    DELETE FROM cancels WHERE id = ANY (:ids::uuid[])
), f AS (
    DELETE FROM uniques WHERE id = ANY (:ids::uuid[]) AND until IS NULL
), g AS (
    DELETE FROM executions WHERE id = ANY (:ids::uuid[])
)
DELETE FROM outcomes WHERE id = ANY (:ids::uuid[]);
