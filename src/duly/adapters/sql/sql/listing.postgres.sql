-- name: sifted_jobs
-- Which of these are meant. One probe of each key for each id: OFFSET keeps the planner from hashing all jobs instead. A filter
-- that is NULL lets everything through. A pause with an end is over by itself.
SELECT /*job_columns*/
FROM unnest(:ids::uuid[]) AS f (id)
CROSS JOIN LATERAL (SELECT * FROM jobs WHERE id = f.id AND tenant = :tenant::int OFFSET 0) j
JOIN tenants t ON t.tenant = j.tenant
CROSS JOIN LATERAL (SELECT * FROM job_versions WHERE id = j.version OFFSET 0) v
JOIN routes r ON r.route = v.route
LEFT JOIN LATERAL (SELECT * FROM schedules WHERE job_id = j.id OFFSET 0) s ON true
WHERE (:name::text IS NULL OR j.name = :name::text)
  AND (:state::smallint IS NULL OR CASE WHEN j.state = 0 AND j.paused_until > :now::bigint THEN 1 ELSE j.state END = :state::smallint)
  AND (:search::text IS NULL OR lower(j.name COLLATE "C") LIKE :search::text ESCAPE '\')
  AND (:handler::text IS NULL OR r.handler = :handler::text)
  AND (:pool::text IS NULL OR r.pool = :pool::text)
  AND (:type::text IS NULL OR v.definition -> 'timing' ->> 'type' = :type::text)
  AND (:next_fire_after::bigint IS NULL OR (j.state = 0 AND s.next_fire_at >= :next_fire_after::bigint AND s.next_fire_at < 4611686018427387904))
  AND (:next_fire_before::bigint IS NULL OR (j.state = 0 AND s.next_fire_at < :next_fire_before::bigint))
ORDER BY j.id DESC
LIMIT :quota;

-- part: job_columns
       j.id AS job_id, j.tenant, t.name AS tenant_name, j.state, j.created_at, j.paused_at, j.pause_reason, j.paused_by, j.paused_until,
       v.id AS version_id, v.version, v.route, v.definition, v.created_at AS version_created_at, s.next_fire_at, s.skip_at, s.skip_by

-- name: job_ids_like
-- Those of the next so many that have this in their names, and the last that was looked at if there may be more (migration 0022).
SELECT id, is_like, NOT is_like AS is_end
FROM duly_jobs_like(:tenant::int, :before::uuid, :search::text, :looked_at::int, :quota::int);

-- name: job_ids_of_source
-- Overrides the shared text: behind the wall the index of sources is of no use (migration 0022).
SELECT id FROM duly_jobs_of_source(:tenant::int, :source::text, :before::uuid, :quota::int);

-- name: waiting_of_few
-- Overrides the shared text: behind the wall each schedule is asked whose it is (migration 0022).
SELECT job_id, version, next_fire_at, skip_at FROM duly_waiting_of_few(:tenant::int, :before::bigint, :few::int, :quota::int);

-- name: count_jobs_in_state
-- Overrides the shared text: behind the wall each job is asked whose it is (migration 0022).
SELECT duly_count_jobs(:tenant::int, :state::smallint, :most::bigint) AS n;

-- name: next_fires
-- Counted before the wall: whose they are is asked of each.
SELECT n.job_id, j.version, n.next_fire_at, s.skip_at, n.known_until
FROM duly_next_fires(:before::bigint, :each::int) n
CROSS JOIN LATERAL (SELECT version FROM jobs WHERE id = n.job_id AND tenant = :tenant::int AND state = 0 OFFSET 0) j
CROSS JOIN LATERAL (SELECT skip_at FROM schedules WHERE job_id = n.job_id OFFSET 0) s
ORDER BY n.next_fire_at, n.job_id
LIMIT :quota;

-- name: known_until
SELECT min(known_until) AS known_until FROM duly_next_fires(:before::bigint, :each::int);

-- name: count_dead
-- Counted before the wall, as in search.postgres.sql.
SELECT count(*) AS n
FROM duly_unusual_ids(5::smallint, 'ffffffff-ffff-ffff-ffff-ffffffffffff', :most::int) AS o (id)
CROSS JOIN LATERAL (SELECT FROM executions WHERE id = o.id AND tenant = :tenant::int OFFSET 0) e;
