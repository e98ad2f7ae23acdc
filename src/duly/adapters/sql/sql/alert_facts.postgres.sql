-- What rules are judged by, where a lease is one row with arrays, and many keys cost one question.

-- part: watched_columns
       j.id, j.name, r.pool, j.created_at,
       CASE WHEN j.state <> 0 OR (j.paused_until IS NOT NULL AND j.paused_until > :now) THEN 1 ELSE 0 END AS is_stopped,
       (SELECT max(p.until) FROM pauses p WHERE p.job_id = j.id AND p.until <= :now) AS resumed_at
FROM jobs j
JOIN job_versions v ON v.id = j.version
JOIN routes r ON r.route = v.route

-- name: watched_names
SELECT /*watched_columns*/
WHERE j.tenant = :tenant AND j.name = ANY (:names::text[]) AND j.state <> 3;

-- name: watched_ids
SELECT /*watched_columns*/
WHERE j.tenant = :tenant AND j.id = ANY (:ids::uuid[]) AND j.state <> 3;

-- name: runs_of_jobs
-- Of each the newest, and where each stands, along the key of the job.
SELECT n.*
FROM unnest(:ids::uuid[]) AS f (job_id)
CROSS JOIN LATERAL (
    SELECT s.id, s.job_id, s.due_at, s.state, s.trigger, s.started_at AS running_since, s.finished_at, s.skip_reason, s.error,
           coalesce((SELECT a.started_at FROM attempts a WHERE a.id = s.id AND a.attempt = 1), s.started_at) AS started_at
    FROM execution_state s
    WHERE s.tenant = :tenant AND s.job_id = f.job_id AND s.id >= :first
    ORDER BY s.id DESC LIMIT :quota) n;

-- name: jobs_that_run
SELECT DISTINCT w.job_id
FROM (SELECT e.job_id FROM leases l CROSS JOIN LATERAL unnest(l.ids) AS d (id) JOIN executions e ON e.id = d.id
      WHERE l.granted_at < :due_before AND e.tenant = :tenant AND e.trigger <> 5 LIMIT 2000) w
LIMIT :quota;

-- name: jobs_that_run_late
-- The same for what still runs.
SELECT DISTINCT w.job_id
FROM (SELECT e.job_id
      FROM (SELECT l.granted_at, d.id FROM leases l CROSS JOIN LATERAL unnest(l.ids) AS d (id) LIMIT 2000) r JOIN executions e ON e.id = r.id
      WHERE e.tenant = :tenant AND e.trigger <> 5 AND r.granted_at - e.due_at > :late_by) w
LIMIT :quota;
