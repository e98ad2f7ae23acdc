-- name: logs_found
-- `lower` is for ASCII letters only, here and in PostgreSQL's text.
SELECT seq, attempt, at, level, message, fields FROM logs
WHERE id = :id AND seq > :after AND seq <= :reached
  AND (:attempt IS NULL OR attempt = :attempt)
  AND CASE lower(level) WHEN 'debug' THEN 0 WHEN 'info' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END >= :least
  AND (:contains = '' OR instr(lower(message), lower(:contains)) > 0 OR instr(lower(coalesce(fields, '')), lower(:contains)) > 0)
ORDER BY seq LIMIT :quota;
