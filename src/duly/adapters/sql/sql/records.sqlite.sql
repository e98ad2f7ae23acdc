-- Records where every execution that ends leaves a row.

-- part: nth
WITH RECURSIVE nth (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM nth WHERE (n + 2) * 16 <= length(:ids))

-- name: note_unexported
CREATE TRIGGER IF NOT EXISTS note_unexported AFTER INSERT ON outcomes BEGIN
    INSERT INTO unexported (id) VALUES (NEW.id);
END;

-- name: unnote_unexported
DROP TRIGGER IF EXISTS note_unexported;

-- name: unexported_oldest
SELECT seq FROM unexported ORDER BY seq LIMIT :quota;

-- name: unexported_read
SELECT r.* FROM (SELECT seq, id FROM unexported ORDER BY seq LIMIT :quota) f CROSS JOIN records r ON r.id = f.id ORDER BY f.seq;

-- name: unexported_drop
DELETE FROM unexported WHERE seq = :seq;

-- name: ids_between
SELECT id FROM executions WHERE id > :after AND id < :before ORDER BY id LIMIT :quota;

-- name: records_of
/*nth*/
SELECT r.* FROM nth CROSS JOIN records r ON r.id = substr(:ids, n * 16 + 1, 16) WHERE r.tenant_number = :tenant ORDER BY r.id;

-- name: ends_in_stretch
/*nth*/
SELECT count(*) AS n, count(o.id) AS finished
FROM nth CROSS JOIN executions e ON e.id = substr(:ids, n * 16 + 1, 16) LEFT JOIN outcomes o ON o.id = e.id
-- The CASE is that of `sifted`.
WHERE CASE WHEN n IS NULL THEN FALSE ELSE e.tenant = :tenant END;
