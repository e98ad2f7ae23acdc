-- The run grid of a job: its newest runs, and of each how its steps or its tries went (migrations/0021). A key is probed for each run, whatever
-- else there is: OFFSET keeps the planner from hashing the whole history instead.

-- name: grid_runs
-- Where a run stands that has not ended is asked of those alone.
SELECT e.id, e.job_version, v.version, e.due_at, e.created_at, coalesce(e.scheduled_at, e.due_at) AS scheduled_at,
       coalesce(o.state, s.state) AS state, coalesce(o.attempt, s.attempt) AS attempt,
       coalesce(o.started_at, s.started_at) AS started_at, o.finished_at
FROM (SELECT x.* FROM executions x
      WHERE x.tenant = :tenant::int AND x.job_id = :job_id::uuid AND x.id < :before::uuid
        -- A step that could not be made of its own workflow stands under its run's job: it is no run.
        AND (x.run IS NULL OR NOT EXISTS (SELECT FROM executions p WHERE p.id = x.run AND p.job_id = x.job_id))
      ORDER BY x.id DESC LIMIT :quota::int) e
CROSS JOIN LATERAL (SELECT version FROM job_versions WHERE id = e.job_version OFFSET 0) v
LEFT JOIN LATERAL (SELECT id, state, attempt, started_at, finished_at FROM outcomes WHERE id = e.id OFFSET 0) o ON true
LEFT JOIN LATERAL (SELECT state, attempt, started_at FROM execution_state WHERE id = e.id AND o.id IS NULL OFFSET 0) s ON true
ORDER BY e.id DESC;

-- name: grid_steps
SELECT run, cells FROM duly_steps_of_runs(:runs::uuid[], :firsts::uuid[], :lasts::uuid[]);

-- name: grid_tries
SELECT run, outcomes, retry_at FROM duly_tries_of_runs(:runs::uuid[]);
