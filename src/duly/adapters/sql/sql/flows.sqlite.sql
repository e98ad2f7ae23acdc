-- name: take_flows
DELETE FROM ready
WHERE (route, tenant, rank, id) IN (
    SELECT q.route, q.tenant, q.rank, q.id FROM routes r JOIN ready q ON q.route = r.route
    WHERE r.handler = 'duly.workflow' ORDER BY q.rank, q.id LIMIT :quota)
RETURNING id;

-- name: placed
WITH RECURSIVE nth (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM nth WHERE (n + 2) * 16 <= length(:ids))
SELECT e.id, e.step, e.nth, f.run, f.tenant, f.job_version, f.width, f.depth, f.paused_at,
       (SELECT c.id FROM cancels c WHERE c.id = f.run) AS cancelled
FROM nth CROSS JOIN executions e ON e.id = substr(:ids, n * 16 + 1, 16) CROSS JOIN flows f ON f.run = e.run;

-- name: ends
WITH RECURSIVE nth (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM nth WHERE (n + 2) * 16 <= length(:ids))
SELECT e.id, o.state, o.error
FROM nth CROSS JOIN executions e ON e.id = substr(:ids, n * 16 + 1, 16) LEFT JOIN outcomes o ON o.id = e.id;

-- name: results
WITH RECURSIVE nth (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM nth WHERE (n + 2) * 16 <= length(:ids))
SELECT o.id, o.result FROM nth CROSS JOIN outcomes o ON o.id = substr(:ids, n * 16 + 1, 16);

-- name: add_step
INSERT INTO executions (id, job_id, job_version, tenant, route, trigger, due_at, rank, created_at, payload, gates, run, step, nth)
VALUES (:id, :job_id, :job_version, :tenant, :route, 5, :due_at, :rank, :now, :payload, :gates, :run, :step, :nth);

-- name: overdue_flows
UPDATE flows SET look_at = :now + min(2000000 << min(looks, 4), 30000000), looks = min(looks + 1, 100)
WHERE run IN (SELECT run FROM flows WHERE look_at <= :now ORDER BY look_at LIMIT :quota)
RETURNING run;
