-- Workflows: what both engines share. A flow is a run, or a mapped step, that is under way.

-- name: add_flow
-- Where it stands from now on. No row: it is under way already, or has ended.
INSERT INTO flows (run, tenant, job_version, width, depth, began_at, look_at)
VALUES (:run, :tenant, :job_version, :width, :depth, :now, :look_at)
ON CONFLICT DO NOTHING
RETURNING run;

-- name: a_flow_is_ready
-- Whoever announces anything wakes the conductor: most often there is nothing for it, and one probe says so.
SELECT 1 AS found FROM routes r WHERE r.handler = 'duly.workflow' AND EXISTS (SELECT 1 FROM ready q WHERE q.route = r.route) LIMIT 1;

-- name: begin_flow
-- A run that was taken from the queue. Runs within runs know how deep they are.
INSERT INTO flows (run, tenant, job_version, depth, began_at, look_at)
SELECT e.id, e.tenant, e.job_version, coalesce((SELECT f.depth + 1 FROM flows f WHERE f.run = e.run), 0), :now, :look_at
FROM executions e JOIN job_versions v ON v.id = e.job_version
WHERE e.id = :id AND v.workflow IS NULL
ON CONFLICT DO NOTHING
RETURNING run;

-- name: flow
SELECT f.run, f.tenant, f.job_version, f.width, f.depth, f.paused_at, f.paused_by, (SELECT c.id FROM cancels c WHERE c.id = f.run) AS cancelled
FROM flows f WHERE f.run = :run;

-- name: flow_header
SELECT payload, tenant, run, step, job_version FROM executions WHERE id = :run;

-- name: step_versions
-- A version that a calendar made has the steps of the one before.
SELECT s.step, s.job_id, s.id, s.route
FROM job_versions v
JOIN job_versions s ON s.workflow = v.job_id
 AND s.version = (SELECT max(x.version) FROM job_versions x WHERE x.workflow = v.job_id AND x.version <= v.version)
WHERE v.id = :id;

-- name: add_step_version
INSERT INTO job_versions (job_id, version, route, max_attempts, definition, created_at, workflow, step)
VALUES (:job_id, :version, :route, :max_attempts, :definition, :now, :workflow, :step);

-- name: ended_between
SELECT id, state FROM outcomes WHERE id >= :first AND id <= :last ORDER BY id LIMIT :quota;

-- name: add_flow_wait
INSERT INTO flow_waits (id, run, tenant, reason, name, until) VALUES (:id, :run, :tenant, :reason, :name, :until);

-- name: skip_step
INSERT INTO outcomes (id, state, attempt, finished_at, error) VALUES (:id, 7, 0, :now, :error);

-- name: end_flow
-- No row: it has ended before.
DELETE FROM flows WHERE run = :run RETURNING run, tenant;

-- name: drop_flow_waits
DELETE FROM flow_waits WHERE run = :run;

-- name: drop_signals
DELETE FROM signals WHERE run = :run;

-- name: drop_seed
DELETE FROM flow_seeds WHERE run = :run;

-- name: live_steps
SELECT e.id FROM executions e
WHERE e.run = :run AND (SELECT o.id FROM outcomes o WHERE o.id = e.id) IS NULL
ORDER BY e.id LIMIT :quota;

-- name: waits_of_flow
SELECT id, run, tenant, reason, name, until FROM flow_waits WHERE run = :run ORDER BY id;

-- name: wait_of_step
SELECT id, run, tenant, reason, name, until FROM flow_waits WHERE id = :id;

-- name: overdue_waits
SELECT id, run, tenant, reason, name, until FROM flow_waits WHERE until <= :now ORDER BY until LIMIT :quota;

-- name: leave_wait
-- Who deletes the row decides what becomes of the step.
DELETE FROM blocked WHERE id = :id AND reason IN (2, 3) RETURNING id, route, tenant, rank, attempt, failures;

-- name: drop_flow_wait
DELETE FROM flow_waits WHERE id = :id;

-- name: add_signal
INSERT INTO signals (run, name, tenant, payload, sent_at, sent_by) VALUES (:run, :name, :tenant, :payload, :now, :by)
ON CONFLICT DO NOTHING
RETURNING name;

-- name: signals_of
SELECT name, payload, sent_at, sent_by FROM signals WHERE run = :run ORDER BY sent_at, name;

-- name: add_seed
INSERT INTO flow_seeds (run, tenant, former, redo) VALUES (:run, :tenant, :former, :redo);

-- name: seed_of
SELECT former, redo FROM flow_seeds WHERE run = :run;

-- name: pause_flow
UPDATE flows SET paused_at = :paused_at, paused_by = :by
WHERE run = :run AND (paused_at IS NULL) <> (CAST(:paused_at AS bigint) IS NULL)
RETURNING run;

-- name: free_tenants_slots
-- A run that is under way waits for its steps, each of which needs a slot of its tenant's.
DELETE FROM slots WHERE id = :id AND gate IN (SELECT gate FROM gates WHERE kept) RETURNING gate;

-- name: place_of_flow
SELECT job_id, holds_place FROM executions WHERE id = :id;

-- name: steps_of_flow
SELECT s.*, j.name AS job_name, v.max_attempts, coalesce(v.workflow, v.job_id) AS own_job, v.definition ->> 'payload' AS own_payload, v.definition -> 'step' ->> 'name' AS step_name,
       k.number AS saved_number, k.saved_at, k.progress, d.how AS settled_how, d.settled_at AS dealt_with_at, d.replay AS replayed_as
FROM execution_state s
JOIN job_versions v ON v.id = s.job_version
JOIN jobs j ON j.id = CASE WHEN v.workflow IS NULL THEN v.job_id ELSE v.workflow END
LEFT JOIN checkpoints k ON k.id = s.id
LEFT JOIN settled d ON d.id = s.id
WHERE s.tenant = :tenant AND s.run = :run AND s.id > :after
ORDER BY s.id
LIMIT :quota;

-- name: gates_of_step
SELECT gates, job_id FROM executions WHERE id = :id;
