-- name: ids_of_all
-- Everybody's, counted before the wall: whose they are is asked of each.
SELECT id FROM duly_newest_ids(:before::uuid, :quota::int) AS id ORDER BY id DESC;

-- name: ids_unusual
SELECT id FROM duly_unusual_ids(:state::smallint, :before::uuid, :quota::int) AS id ORDER BY id DESC;

-- name: sifted
-- Which of these are meant. First by their headers, which is cheap; then by where they stand. OFFSET keeps the planner from
-- hashing the whole history instead of probing the keys. A filter that is NULL lets everything through.
WITH asked AS MATERIALIZED (
    SELECT e.id
    FROM unnest(:ids::uuid[]) AS f (id)
    CROSS JOIN LATERAL (SELECT * FROM executions WHERE id = f.id OFFSET 0) e
    WHERE e.tenant = :tenant::int
      AND (:trigger::smallint IS NULL OR e.trigger = :trigger::smallint)
      AND (:routes::int[] IS NULL OR e.route = ANY (:routes::int[]))
      AND (:jobs::uuid[] IS NULL OR e.job_id = ANY (:jobs::uuid[]))
      AND (:batch::uuid IS NULL OR e.batch = :batch::uuid)
      AND (:since::bigint IS NULL OR coalesce(e.scheduled_at, e.due_at) >= :since::bigint)
      AND (:until::bigint IS NULL OR coalesce(e.scheduled_at, e.due_at) < :until::bigint)
      AND (:paths::text[] IS NULL OR NOT EXISTS (
          SELECT FROM unnest(:paths::text[], :values::text[]) AS w (path, value)
          CROSS JOIN LATERAL (
              SELECT coalesce(e.payload, (SELECT (v.definition ->> 'payload')::json FROM job_versions v WHERE v.id = e.job_version))
                     #> string_to_array(w.path, '.') AS at) AS p
          WHERE coalesce(p.at #>> '{}', CASE json_typeof(p.at) WHEN 'null' THEN 'null' END) IS DISTINCT FROM w.value))
)
SELECT s.*, j.name AS job_name, v.max_attempts, v.job_id AS own_job, v.definition ->> 'payload' AS own_payload, v.definition -> 'step' ->> 'name' AS step_name,
       k.number AS saved_number, k.saved_at, k.progress, d.how AS settled_how, d.settled_at AS dealt_with_at, d.replay AS replayed_as
FROM asked a
CROSS JOIN LATERAL (SELECT * FROM execution_state WHERE id = a.id OFFSET 0) s
CROSS JOIN LATERAL (SELECT max_attempts, definition, coalesce(workflow, job_id) AS job_id FROM job_versions WHERE id = s.job_version OFFSET 0) v
CROSS JOIN LATERAL (SELECT name FROM jobs WHERE id = v.job_id OFFSET 0) j
LEFT JOIN LATERAL (SELECT number, saved_at, progress FROM checkpoints WHERE id = s.id OFFSET 0) k ON true
LEFT JOIN LATERAL (SELECT how, settled_at, replay FROM settled WHERE id = s.id OFFSET 0) d ON true
WHERE (:state::smallint IS NULL OR s.state = :state::smallint)
  AND (:last_outcome::smallint IS NULL OR s.last_outcome = :last_outcome::smallint)
  AND (:worker::bigint IS NULL OR s.worker = :worker::bigint)
ORDER BY s.id DESC
LIMIT :quota;

-- name: newest_of_jobs
-- The newest of each of these jobs. In one statement: to open every partition costs more than to look into it.
SELECT f.nth, e.id
FROM unnest(:jobs::uuid[]) WITH ORDINALITY AS f (job_id, nth)
CROSS JOIN LATERAL (
    SELECT id FROM executions WHERE job_id = f.job_id AND tenant = :tenant::int ORDER BY id DESC LIMIT :quota
) e
ORDER BY f.nth, e.id DESC;

-- name: ends_of
-- How many of these have ended how.
SELECT e.trigger, o.state, count(*) AS n
FROM unnest(:ids::uuid[]) AS f (id)
CROSS JOIN LATERAL (SELECT id, trigger FROM executions WHERE id = f.id AND tenant = :tenant::int OFFSET 0) e
LEFT JOIN LATERAL (SELECT state FROM outcomes WHERE id = e.id OFFSET 0) o ON true
GROUP BY e.trigger, o.state;

-- name: ended_of
-- When those of these that have ended were due, began and ended.
SELECT e.due_at, o.started_at, o.finished_at, o.state, o.attempt
FROM unnest(:ids::uuid[]) AS f (id)
CROSS JOIN LATERAL (SELECT id, due_at FROM executions WHERE id = f.id AND tenant = :tenant::int OFFSET 0) e
CROSS JOIN LATERAL (SELECT state, attempt, started_at, finished_at FROM outcomes WHERE id = e.id OFFSET 0) o;

-- name: changes_since
-- What was done to jobs, by minute: how many, and one of them. The actions are those of the index.
SELECT c.minute, c.action, c.jobs, c.job_id, (SELECT j.name FROM jobs j WHERE j.id = c.job_id AND j.tenant = :tenant::int) AS name
FROM (SELECT a.at / 60000000 AS minute, a.action, count(DISTINCT a.job_id) AS jobs, (array_agg(a.job_id))[1] AS job_id, min(a.place) AS place
      FROM audit a
      WHERE a.tenant = :tenant::int AND a.at >= :since::bigint AND a.action IN ('job.change', 'job.pause', 'job.resume')
      GROUP BY 1, 2) c
ORDER BY c.minute DESC, c.place DESC
LIMIT :quota::int;
