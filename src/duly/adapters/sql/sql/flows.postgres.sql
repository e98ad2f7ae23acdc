-- name: take_flows
-- From the queue that nobody else serves, best rank first.
WITH picked AS MATERIALIZED (
    SELECT q.ctid AS tid
    FROM routes r
    CROSS JOIN LATERAL (SELECT ctid, rank FROM ready WHERE route = r.route ORDER BY tenant, rank LIMIT :quota::int FOR UPDATE SKIP LOCKED) q
    WHERE r.handler = 'duly.workflow'
    LIMIT :quota::int
)
DELETE FROM ready WHERE ctid = ANY (ARRAY(SELECT tid FROM picked)) RETURNING id;

-- name: placed
SELECT e.id, e.step, e.nth, f.run, f.tenant, f.job_version, f.width, f.depth, f.paused_at,
       (SELECT c.id FROM cancels c WHERE c.id = f.run) AS cancelled
FROM unnest(:ids::uuid[]) AS w (id)
CROSS JOIN LATERAL (SELECT id, run, step, nth FROM executions WHERE id = w.id OFFSET 0) e
CROSS JOIN LATERAL (SELECT * FROM flows WHERE run = e.run OFFSET 0) f;

-- name: ends
SELECT e.id, o.state, o.error
FROM unnest(:ids::uuid[]) AS w (id)
CROSS JOIN LATERAL (SELECT id FROM executions WHERE id = w.id OFFSET 0) e
LEFT JOIN LATERAL (SELECT state, error FROM outcomes WHERE id = w.id OFFSET 0) o ON true;

-- name: results
SELECT o.id, o.result
FROM unnest(:ids::uuid[]) AS w (id)
CROSS JOIN LATERAL (SELECT id, result FROM outcomes WHERE id = w.id OFFSET 0) o;

-- name: add_steps
-- Headers that are not there yet, and of those the ones that are ready. Sorted, so that two who hand over the same wait for one another
-- and never in a circle.
WITH made AS (
    INSERT INTO executions (id, job_id, job_version, tenant, route, trigger, due_at, rank, created_at, payload, gates, run, step, nth)
    SELECT id, job_id, job_version, tenant, route, 5, due_at, rank, :now::bigint, payload,
           CASE WHEN gates <> '' THEN string_to_array(gates, ',')::uuid[] END, run, step, nth
    FROM unnest(:ids::uuid[], :job_ids::uuid[], :job_versions::bigint[], :tenants::int[], :routes::int[], :due_ats::bigint[], :ranks::bigint[],
                :payloads::json[], :gates::text[], :runs::uuid[], :steps::smallint[], :nths::int[])
         AS f (id, job_id, job_version, tenant, route, due_at, rank, payload, gates, run, step, nth)
    ORDER BY id
    ON CONFLICT DO NOTHING
    RETURNING id, job_version, tenant, route, due_at, rank, payload, coalesce(octet_length(payload::text), 0) <= 500 AS is_small
), made_ready AS (
    INSERT INTO ready (route, tenant, rank, id, attempt, failures, job_version, due_at, holds_place, payload)
    SELECT route, tenant, rank, id, 1, 0, CASE WHEN is_small THEN job_version END, due_at, false, CASE WHEN is_small THEN payload END
    FROM made WHERE (id IN (SELECT unnest(:ready::uuid[]))) IS TRUE
)
SELECT id FROM made;

-- name: overdue_flows
-- Looked at from now on half as often, until every half minute: a lost hand-over waits no longer than the run has lasted, nor than that.
WITH due AS MATERIALIZED (
    SELECT run FROM flows WHERE look_at <= :now::bigint ORDER BY look_at LIMIT :quota::int FOR UPDATE SKIP LOCKED
)
UPDATE flows f SET look_at = :now::bigint + least(2000000::bigint << least(f.looks, 4)::int, 30000000), looks = least(f.looks + 1, 100)
FROM due WHERE f.run = due.run
RETURNING f.run;

-- name: free_place
DELETE FROM places WHERE job_id = :job_id AND id = :id RETURNING job_id;

-- name: add_outcome
INSERT INTO outcomes (id, state, attempt, lease_id, worker, started_at, finished_at, result, error)
VALUES (:id, :state, :attempt, :lease, :worker, :started_at, :finished_at, :result, :error);
