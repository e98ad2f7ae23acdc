-- What rules are judged by: bounded looks along keys.

-- part: watched_columns
       j.id, j.name, r.pool, j.created_at,
       CASE WHEN j.state <> 0 OR (j.paused_until IS NOT NULL AND j.paused_until > :now) THEN 1 ELSE 0 END AS is_stopped,
       (SELECT max(p.until) FROM pauses p WHERE p.job_id = j.id AND p.until <= :now) AS resumed_at
FROM jobs j
JOIN job_versions v ON v.id = j.version
JOIN routes r ON r.route = v.route

-- name: watched_named
SELECT /*watched_columns*/
WHERE j.tenant = :tenant AND j.name = :name AND j.state <> 3;

-- name: watched
SELECT /*watched_columns*/
WHERE j.tenant = :tenant AND j.id = :id AND j.state <> 3;

-- name: newest_jobs
SELECT id FROM jobs WHERE tenant = :tenant AND state <> 3 ORDER BY id DESC LIMIT :quota;

-- name: jobs_that_died
SELECT DISTINCT d.job_id
FROM (SELECT e.job_id FROM outcomes o JOIN executions e ON e.id = o.id
      WHERE o.state = 5 AND o.finished_at > :since AND e.tenant = :tenant AND e.trigger <> 5
      ORDER BY o.finished_at DESC LIMIT 2000) d
LIMIT :quota;

-- name: jobs_that_wait
-- In the order of the queue, along the key of each route. No id is later than what it is due at: most that have not waited for long are
-- passed over without a look at their headers.
SELECT DISTINCT w.job_id
FROM (SELECT e.job_id FROM routes r JOIN ready q ON q.route = r.route AND q.tenant = :tenant AND q.id < :before JOIN executions e ON e.id = q.id
      WHERE e.due_at < :due_before AND e.trigger <> 5 LIMIT 2000) w
LIMIT :quota;

-- name: jobs_that_are_blocked
SELECT DISTINCT w.job_id
FROM (SELECT e.job_id FROM blocked b JOIN executions e ON e.id = b.id
      WHERE b.tenant = :tenant AND e.due_at < :due_before AND e.trigger <> 5 LIMIT 2000) w
LIMIT :quota;

-- name: jobs_that_began_late
-- Of what was due last, and has ended: a catch-up begins at once and is never seen waiting.
SELECT DISTINCT w.job_id
FROM (SELECT e.job_id FROM (SELECT id, started_at FROM outcomes WHERE id >= :first ORDER BY id DESC LIMIT 2000) o JOIN executions e ON e.id = o.id
      WHERE e.tenant = :tenant AND e.trigger <> 5 AND o.started_at - e.due_at > :late_by) w
LIMIT :quota;

-- name: jobs_that_misfired
SELECT DISTINCT w.job_id
FROM (SELECT e.job_id FROM outcomes o JOIN executions e ON e.id = o.id
      WHERE o.state = 7 AND o.id >= :first AND e.tenant = :tenant AND e.skip_reason = 2 ORDER BY o.id DESC LIMIT 2000) w
LIMIT :quota;

-- name: runs_of_job
-- The newest, and where each stands. A retry's first start is what lateness is counted by.
SELECT s.id, s.job_id, s.due_at, s.state, s.trigger, s.started_at AS running_since, s.finished_at, s.skip_reason, s.error,
       coalesce((SELECT a.started_at FROM attempts a WHERE a.id = s.id AND a.attempt = 1), s.started_at) AS started_at
FROM execution_state s
WHERE s.tenant = :tenant AND s.job_id = :job_id AND s.id >= :first
ORDER BY s.id DESC LIMIT :quota;

-- name: runs_from
-- Neighbours of a run by when they were due: itself and later ones.
SELECT s.id, s.job_id, s.due_at, s.state, s.trigger, s.started_at AS running_since, s.finished_at, s.skip_reason, s.error,
       coalesce((SELECT a.started_at FROM attempts a WHERE a.id = s.id AND a.attempt = 1), s.started_at) AS started_at
FROM execution_state s
WHERE s.tenant = :tenant AND s.job_id = :job_id AND s.id >= :first
ORDER BY s.id LIMIT :quota;

-- name: runs_before
-- Neighbours of a run by when they were due: earlier ones.
SELECT s.id, s.job_id, s.due_at, s.state, s.trigger, s.started_at AS running_since, s.finished_at, s.skip_reason, s.error,
       coalesce((SELECT a.started_at FROM attempts a WHERE a.id = s.id AND a.attempt = 1), s.started_at) AS started_at
FROM execution_state s
WHERE s.tenant = :tenant AND s.job_id = :job_id AND s.id >= :first AND s.id < :before
ORDER BY s.id DESC LIMIT :quota;

-- name: last_success
-- The latest by when it was due; of many that fail, so many are passed over.
SELECT max(o.finished_at) AS at
FROM (SELECT w.id FROM (SELECT e.id FROM executions e WHERE e.tenant = :tenant AND e.job_id = :job_id AND e.id >= :first
                        ORDER BY e.id DESC LIMIT :quota) w
      WHERE EXISTS (SELECT 1 FROM outcomes x WHERE x.id = w.id AND x.state = 4)
      ORDER BY w.id DESC LIMIT 5) s
JOIN outcomes o ON o.id = s.id;

-- name: deaths_of_tenant
-- Latest first, whenever they were due.
SELECT o.id, e.job_id, e.due_at, o.state, e.trigger, o.started_at, o.started_at AS running_since, o.finished_at, e.skip_reason, o.error
FROM outcomes o JOIN executions e ON e.id = o.id
WHERE o.state = 5 AND o.finished_at > :since AND e.tenant = :tenant AND e.trigger <> 5
ORDER BY o.finished_at DESC LIMIT :quota;

-- name: letters_since
SELECT count(*) AS n
FROM (SELECT o.id FROM outcomes o JOIN executions e ON e.id = o.id
      WHERE o.state = 5 AND o.finished_at > :since AND e.tenant = :tenant AND e.trigger <> 5 ORDER BY o.finished_at DESC LIMIT 10000) d
WHERE NOT EXISTS (SELECT 1 FROM settled s WHERE s.id = d.id);

-- name: workers_watched
-- A worker that retires is gone before its time; one that fell silent, after it.
SELECT id, name, about, started_at, CASE WHEN lost_at >= expires_at THEN lost_at END AS lost_at,
       CASE WHEN lost_at < expires_at THEN 1 ELSE 0 END AS has_retired
FROM workers
WHERE (tenant IS NULL OR tenant = :tenant)
  AND ((lost_at IS NULL AND expires_at > :now) OR lost_at > :since);

-- name: pools_waiting
SELECT r.route, r.pool, (SELECT count(*) FROM (SELECT 1 AS one FROM ready q WHERE q.route = r.route AND q.tenant = :tenant LIMIT 10000) c) AS waiting,
       (SELECT min(e.due_at)
        FROM (SELECT q.id FROM ready q WHERE q.route = r.route AND q.tenant = :tenant ORDER BY q.rank, q.id LIMIT 20) h
        JOIN executions e ON e.id = h.id) AS oldest
FROM routes r;

-- name: work_lag
-- What each shard waits for first: the oldest of them says how far the work is behind. Shards that nobody owns are of tenants that move.
SELECT (SELECT min(f.at) FROM (SELECT (SELECT d.next_fire_at FROM schedules d WHERE d.shard = s.shard AND NOT d.paused
                                       ORDER BY d.next_fire_at LIMIT 1) AS at FROM shards s) f) AS fires,
       (SELECT min(f.at) FROM (SELECT (SELECT d.due_at FROM timers d WHERE d.shard = s.shard ORDER BY d.due_at LIMIT 1) AS at
                               FROM shards s) f) AS timers,
       (SELECT count(*) FROM dispatchers WHERE expires_at > :now) AS dispatchers;
