-- name: logs_found
-- In the collation C `lower` is for ASCII letters only, as in SQLite's text.
SELECT seq, attempt, at, level, message, fields FROM logs
WHERE id = :id::uuid AND seq > :after::bigint AND seq <= :reached::bigint
  AND (:attempt::smallint IS NULL OR attempt = :attempt::smallint)
  AND CASE lower(level) WHEN 'debug' THEN 0 WHEN 'info' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END >= :least::int
  AND (:contains::text = '' OR strpos(lower(message COLLATE "C"), lower(:contains::text COLLATE "C")) > 0
       OR strpos(lower(coalesce(fields::text, '') COLLATE "C"), lower(:contains::text COLLATE "C")) > 0)
ORDER BY seq LIMIT :quota::int;
