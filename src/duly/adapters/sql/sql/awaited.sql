-- Dependencies between jobs: gates that are closed until another job has succeeded.

-- name: add_awaited
INSERT INTO awaited (gate, tenant, job, first, past, deadline, runs) VALUES (:gate, :tenant, :job, :first, :past, :deadline, :runs)
ON CONFLICT DO NOTHING;

-- name: awaited
SELECT tenant, job, first, past, deadline, runs FROM awaited WHERE gate = :gate;

-- name: awaited_success
-- Of the job that has the name now: one that was deleted has none.
-- An execution that was scheduled for the period has an id from its beginning on: fires carry their time, and all others that of their making.
SELECT e.id
FROM jobs j
JOIN executions e ON e.job_id = j.id
JOIN outcomes o ON o.id = e.id
WHERE j.tenant = :tenant AND j.name = :job AND j.state <> 3
  AND e.id >= :first_id AND coalesce(e.scheduled_at, e.due_at) >= :first AND coalesce(e.scheduled_at, e.due_at) < :past
  AND o.state = 4
LIMIT 1;

-- name: note_in_log
-- Before a worker has come to it: the store itself says something of its next attempt.
INSERT INTO logs (id, attempt, at, level, message) VALUES (:id, :attempt, :now, 'warning', :message);

-- name: drop_awaited
DELETE FROM awaited WHERE gate = :gate;

-- name: awaited_jobs
-- Those that somebody waits for at this moment, from the few to their names. A subquery, as SQLite would begin a join by going through all jobs
-- where it has statistics (see `sifted`).
SELECT j.id
FROM (SELECT DISTINCT (SELECT n.id FROM jobs n WHERE n.tenant = a.tenant AND n.name = a.job AND n.state <> 3) AS id FROM awaited a) j
WHERE j.id IS NOT NULL;

-- name: gates_awaiting
SELECT a.gate FROM jobs j JOIN awaited a ON a.tenant = j.tenant AND a.job = j.name WHERE j.id = :id;

-- name: why_awaited
-- What is known of the job that a gate waits for: the latest of its name.
SELECT a.job, a.first, a.past, a.deadline, a.runs,
       (SELECT j.state FROM jobs j WHERE j.tenant = a.tenant AND j.name = a.job ORDER BY j.created_at DESC LIMIT 1) AS state
FROM awaited a WHERE a.gate = :gate;
