-- The run grid of a job: its newest runs, and of each how its steps or its tries went.

-- name: grid_runs
SELECT e.id, e.job_version, v.version, e.due_at, e.created_at, coalesce(e.scheduled_at, e.due_at) AS scheduled_at,
       o.state, o.attempt, o.started_at, o.finished_at
FROM executions e
JOIN job_versions v ON v.id = e.job_version
LEFT JOIN outcomes o ON o.id = e.id
WHERE e.tenant = :tenant AND e.job_id = :job_id AND e.id < :before
  -- A step that could not be made of its own workflow stands under its run's job: it is no run.
  AND (e.run IS NULL OR NOT EXISTS (SELECT 1 FROM executions p WHERE p.id = e.run AND p.job_id = e.job_id))
ORDER BY e.id DESC LIMIT :quota;

-- name: grid_standing
-- Of one that has not ended.
SELECT state, attempt, started_at FROM execution_state WHERE id = :id;

-- name: grid_steps
-- Two characters for each: its place, from 256 on, and the digit of its state; 9 for what has not ended.
SELECT group_concat(char(256 + e.step) || coalesce((SELECT o.state FROM outcomes o WHERE o.id = e.id), 9), '') AS cells
FROM executions e WHERE e.run = :run;

-- name: grid_live_steps
-- The same of a run that has such steps: where they stand is asked of each.
SELECT group_concat(char(256 + e.step) || (SELECT s.state FROM execution_state s WHERE s.id = e.id), '') AS cells
FROM executions e WHERE e.run = :run;

-- name: grid_tries
-- In the order of the inner query: group_concat keeps it.
SELECT group_concat(outcome, '') AS outcomes, max(retry_at) AS retry_at
FROM (SELECT outcome, retry_at FROM attempts WHERE id = :run ORDER BY attempt);
