-- Where lists and counts of jobs begin. Each reads a bounded number of rows along a key; `sifted_jobs` looks closer.

-- name: job_ids
SELECT id FROM jobs WHERE tenant = :tenant AND id < :before ORDER BY id DESC LIMIT :quota;

-- name: job_ids_of_name
-- The live one, and those of the same name that are cancelled.
SELECT id
FROM (SELECT id FROM jobs WHERE tenant = :tenant AND name = :name AND state <> 3
      UNION ALL
      SELECT id FROM jobs WHERE tenant = :tenant AND name = :name AND state = 3) named
WHERE id < :before
ORDER BY id DESC LIMIT :quota;

-- name: job_ids_in_state
SELECT id FROM jobs WHERE tenant = :tenant AND state = :state AND id < :before ORDER BY id DESC LIMIT :quota;

-- name: job_ids_paused_until
-- They are paused until a time, and active by themselves from then on.
SELECT id FROM jobs WHERE tenant = :tenant AND paused_until IS NOT NULL AND id < :before ORDER BY id DESC LIMIT :quota;

-- name: job_ids_of_source
-- What an application's code has brought and may still fire.
SELECT j.id
FROM job_versions v JOIN jobs j ON j.id = v.job_id AND j.version = v.id
WHERE v.definition ->> 'source' = :source AND j.tenant = :tenant AND j.state < 2 AND j.id < :before
ORDER BY j.id DESC LIMIT :quota;

-- name: waiting_of_few
-- Of a tenant that has few jobs: all of them, sorted.
SELECT j.id AS job_id, j.version, s.next_fire_at, s.skip_at
FROM (SELECT id, version FROM jobs WHERE tenant = :tenant AND state = 0 LIMIT :few) j
JOIN schedules s ON s.job_id = j.id
WHERE NOT s.paused AND s.next_fire_at < :before
ORDER BY s.next_fire_at, j.id
LIMIT :quota;

-- ---------------------------------------------------------------- counts, each no further than asked

-- name: count_jobs_in_state
SELECT count(*) AS n FROM (SELECT 1 FROM jobs WHERE tenant = :tenant AND state = :state LIMIT :most) counted;

-- name: count_jobs_paused_until
SELECT count(*) AS n FROM (SELECT 1 FROM jobs WHERE tenant = :tenant AND paused_until IS NOT NULL AND paused_until > :now AND state = 0 LIMIT :most) counted;

-- name: count_scheduled
SELECT count(*) AS n FROM (SELECT 1 FROM timers WHERE tenant = :tenant LIMIT :most) counted;

-- name: count_blocked
SELECT count(*) AS n FROM (SELECT 1 FROM blocked WHERE tenant = :tenant LIMIT :most) counted;

-- name: count_pending
SELECT count(*) AS n FROM (SELECT 1 FROM routes r JOIN ready q ON q.route = r.route AND q.tenant = :tenant LIMIT :most) counted;

-- name: count_dead
-- Of the newest dead letters of all. Nothing else of the history is ever counted.
SELECT count(*) AS n
FROM (SELECT id FROM outcomes WHERE state = 5 ORDER BY id DESC LIMIT :most) o JOIN executions e ON e.id = o.id
WHERE e.tenant = :tenant;

-- name: ready_by_pool
-- Route by route, which is the order of the key.
SELECT c.pool, CAST(sum(c.pending) AS bigint) AS pending, min(c.oldest) AS oldest
FROM (SELECT r.pool,
             (SELECT count(*) FROM (SELECT 1 FROM ready q WHERE q.route = r.route AND q.tenant = :tenant LIMIT :most) counted) AS pending,
             (SELECT min(q.rank) FROM ready q WHERE q.route = r.route AND q.tenant = :tenant) AS oldest
      FROM routes r) c
WHERE c.pending > 0
GROUP BY c.pool ORDER BY c.pool;
