-- Records where a statement leaves one row with an array.

-- part: oldest
    SELECT s.seq, s.ids
    FROM (SELECT b.seq, b.ids, sum(cardinality(b.ids)) OVER (ORDER BY b.seq) - cardinality(b.ids) AS ahead
          FROM (SELECT seq, ids FROM unexported ORDER BY seq LIMIT :quota::int) b) s
    WHERE s.ahead < :quota::int

-- name: note_records
SELECT duly_note_records(:wanted) AS done;

-- name: unexported_oldest
-- So many statements that their executions come to about the quota; one statement at least.
SELECT o.seq FROM (
/*oldest*/
) o;

-- name: unexported_read
WITH oldest AS MATERIALIZED (
/*oldest*/
)
SELECT r.*
FROM oldest o
CROSS JOIN LATERAL unnest(o.ids) AS f (id)
CROSS JOIN LATERAL (SELECT * FROM records WHERE id = f.id OFFSET 0) r
ORDER BY o.seq, r.id;

-- name: unexported_drop
DELETE FROM unexported WHERE seq = ANY (:seqs::bigint[]);

-- name: ids_between
SELECT id FROM duly_ids_between(:after::uuid, :before::uuid, :quota::int) AS f (id);

-- name: records_of
-- A probe for each, however many, and whose each is.
SELECT r.*
FROM unnest(:ids::uuid[]) AS f (id)
CROSS JOIN LATERAL (SELECT * FROM records WHERE id = f.id AND tenant_number = :tenant::int OFFSET 0) r
ORDER BY r.id;

-- name: ends_in_stretch
-- How many of these are the tenant's, and how many of those have ended.
SELECT count(*) AS n, count(o.id) AS finished
FROM unnest(:ids::uuid[]) AS f (id)
CROSS JOIN LATERAL (SELECT id FROM executions WHERE id = f.id AND tenant = :tenant::int OFFSET 0) e
LEFT JOIN LATERAL (SELECT id FROM outcomes WHERE id = e.id OFFSET 0) o ON true;
