-- Reading for people. `execution_state` says where an execution stands; these choose which. A plain fire stores no payload:
-- it runs with its version's own, so that is what is shown. A step is of its workflow's job: CASE, because the wall lets no index be used with
-- coalesce, which PostgreSQL does not know to keep a secret.

-- name: execution
SELECT s.*, (SELECT name FROM jobs WHERE id = CASE WHEN v.workflow IS NULL THEN v.job_id ELSE v.workflow END) AS job_name, v.max_attempts,
       coalesce(v.workflow, v.job_id) AS own_job, v.definition ->> 'payload' AS own_payload, v.definition -> 'step' ->> 'name' AS step_name,
       k.number AS saved_number, k.saved_at, k.progress, d.how AS settled_how, d.settled_at AS dealt_with_at, d.replay AS replayed_as
FROM execution_state s
JOIN job_versions v ON v.id = s.job_version
LEFT JOIN checkpoints k ON k.id = s.id
LEFT JOIN settled d ON d.id = s.id
WHERE s.id = :id AND s.tenant = :tenant;

-- name: executions_of_tenant
SELECT s.*, (SELECT name FROM jobs WHERE id = CASE WHEN v.workflow IS NULL THEN v.job_id ELSE v.workflow END) AS job_name, v.max_attempts,
       coalesce(v.workflow, v.job_id) AS own_job, v.definition ->> 'payload' AS own_payload, v.definition -> 'step' ->> 'name' AS step_name,
       k.number AS saved_number, k.saved_at, k.progress, d.how AS settled_how, d.settled_at AS dealt_with_at, d.replay AS replayed_as
FROM execution_state s
JOIN job_versions v ON v.id = s.job_version
LEFT JOIN checkpoints k ON k.id = s.id
LEFT JOIN settled d ON d.id = s.id
WHERE s.tenant = :tenant AND s.id < :before
ORDER BY s.id DESC
LIMIT :quota;

-- name: executions_of_job
SELECT s.*, (SELECT name FROM jobs WHERE id = CASE WHEN v.workflow IS NULL THEN v.job_id ELSE v.workflow END) AS job_name, v.max_attempts,
       coalesce(v.workflow, v.job_id) AS own_job, v.definition ->> 'payload' AS own_payload, v.definition -> 'step' ->> 'name' AS step_name,
       k.number AS saved_number, k.saved_at, k.progress, d.how AS settled_how, d.settled_at AS dealt_with_at, d.replay AS replayed_as
FROM execution_state s
JOIN job_versions v ON v.id = s.job_version
LEFT JOIN checkpoints k ON k.id = s.id
LEFT JOIN settled d ON d.id = s.id
WHERE s.tenant = :tenant AND s.job_id = :job_id AND s.id < :before
  AND (CAST(:state AS smallint) IS NULL OR s.state = CAST(:state AS smallint))
ORDER BY s.id DESC
LIMIT :quota;

-- name: ids_scheduled
SELECT id FROM timers WHERE tenant = :tenant AND id < :before ORDER BY id DESC LIMIT :quota;

-- name: ids_blocked
SELECT id FROM blocked WHERE tenant = :tenant AND id < :before ORDER BY id DESC LIMIT :quota;

-- name: ids_pending
-- Along the key of each route: nobody else's queue is in the way.
SELECT q.id FROM routes r JOIN ready q ON q.route = r.route AND q.tenant = :tenant
WHERE q.id < :before
ORDER BY q.id DESC LIMIT :quota;

-- name: ids_final
-- Along the history, newest first; the unusual ends have an index of their own.
SELECT o.id FROM outcomes o JOIN executions e ON e.id = o.id
WHERE o.state = :state AND e.tenant = :tenant AND o.id < :before
ORDER BY o.id DESC LIMIT :quota;

-- name: attempts
SELECT attempt, outcome, lease_id, worker, started_at, finished_at, retry_at, error FROM attempts WHERE id = :id
UNION ALL
SELECT attempt, 1, lease_id, worker, started_at, finished_at, NULL, NULL FROM outcomes WHERE id = :id AND state = 4
ORDER BY attempt;

-- name: logs
SELECT seq, attempt, at, level, message, fields FROM logs
WHERE id = :id AND seq > :after AND (CAST(:attempt AS smallint) IS NULL OR attempt = CAST(:attempt AS smallint))
ORDER BY seq LIMIT :quota;
