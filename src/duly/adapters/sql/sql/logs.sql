-- Looking through log lines: along (id, seq), so many rows at a time.

-- name: logs_reached
-- How far a bounded look goes.
SELECT max(w.seq) AS reached, count(*) AS n
FROM (SELECT seq FROM logs WHERE id = :id AND seq > :after ORDER BY seq LIMIT :looked_at) w
WHERE EXISTS (SELECT 1 FROM executions e WHERE e.id = :id AND e.tenant = :tenant);

-- name: executions_with_logs
-- The newest of a job's executions, and which of them have lines at all.
SELECT w.id, EXISTS (SELECT 1 FROM logs l WHERE l.id = w.id) AS has_lines
FROM (SELECT e.id FROM executions e
      WHERE e.job_id = :job AND e.tenant = :tenant AND e.id < :before AND e.id >= :oldest
      ORDER BY e.id DESC LIMIT :quota) w
ORDER BY w.id DESC;

-- name: log_volume
SELECT count(*) AS lines, coalesce(sum(length(message)), 0) AS size FROM logs WHERE id = :id AND attempt = :attempt;
