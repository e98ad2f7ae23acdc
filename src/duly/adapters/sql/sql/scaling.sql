-- How busy pools are: bounded looks for what starts and stops workers.

-- name: oldest_due
SELECT min(e.due_at) AS due_at
FROM (SELECT q.id FROM ready q WHERE q.route = :route AND q.tenant = :tenant ORDER BY q.rank, q.id LIMIT :quota) h
JOIN executions e ON e.id = h.id;

-- name: pools_lately
-- Along the ids, which carry their time, newest first.
SELECT r.pool, count(*) AS arrived, min(e.created_at) AS since, avg(o.finished_at - o.started_at) AS mean_run
FROM (
    SELECT id, route, created_at FROM executions
    WHERE id >= :first AND (CAST(:tenant AS integer) IS NULL OR tenant = CAST(:tenant AS integer))
    ORDER BY id DESC
    LIMIT :quota
) e
JOIN routes r ON r.route = e.route
LEFT JOIN outcomes o ON o.id = e.id
GROUP BY r.pool;
