-- The ledger on SQLite. Each named action of sqlite/*.py is one BEGIN IMMEDIATE transaction on the writer thread.
-- With a single writer there is no snapshot older than a lock, so guards are plain WHEREs, and what PostgreSQL does in one
-- statement with several CTEs is a few statements here.

-- name: known_executions
-- Which of these ids (16 bytes each, one after another) were written before: one probe of the key for each.
WITH RECURSIVE nth (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM nth WHERE (n + 2) * 16 <= length(:ids))
SELECT e.id FROM nth CROSS JOIN executions e ON e.id = substr(:ids, n * 16 + 1, 16);

-- name: due_schedules
SELECT job_id, shard, next_fire_at, version, skip_at, skip_by FROM schedules
WHERE shard = :shard AND NOT paused AND next_fire_at <= :now
ORDER BY next_fire_at LIMIT :quota;

-- name: advance_schedule
-- The shared one, and the epoch with it: of a statement a probe more costs far less than another statement.
UPDATE schedules
SET next_fire_at = :next_at,
    skip_at = CASE WHEN skip_at < :next_at THEN NULL ELSE skip_at END,
    skip_by = CASE WHEN skip_at < :next_at THEN NULL ELSE skip_by END
WHERE job_id = :job_id AND next_fire_at = :read_at AND version = :version AND NOT paused
  AND coalesce(skip_at, 0) = coalesce(:skip_at, 0)
  AND EXISTS (SELECT 1 FROM shards s WHERE s.shard = :shard AND s.epoch = :epoch);

-- name: due_timers
SELECT t.id, t.route, t.tenant, t.rank, t.attempt, t.failures, t.gated,
       CASE WHEN t.gated THEN (SELECT e.gates FROM executions e WHERE e.id = t.id) END AS gates, EXISTS (SELECT 1 FROM cancels c WHERE c.id = t.id) AS cancelled
FROM timers t
WHERE t.shard = :shard AND t.due_at <= :now
  AND EXISTS (SELECT 1 FROM shards s WHERE s.shard = t.shard AND s.epoch = :epoch)
ORDER BY t.due_at LIMIT :quota;

-- name: drop_timer
DELETE FROM timers WHERE id = :id;

-- name: upcoming
SELECT at FROM (
    SELECT next_fire_at AS at FROM schedules WHERE shard = :shard AND NOT paused AND next_fire_at > :after AND next_fire_at <= :until
    UNION
    SELECT due_at AS at FROM timers WHERE shard = :shard AND due_at > :after AND due_at <= :until
    UNION
    SELECT look_at AS at FROM gates WHERE shard = :shard AND look_at > :after AND look_at <= :until)
ORDER BY at LIMIT :quota;

-- name: work_on_route
-- Tenants that have ready work on a route: one probe per tenant, whatever the number of rows.
WITH RECURSIVE step AS (
    SELECT min(tenant) AS tenant FROM ready WHERE route = :route
    UNION ALL
    SELECT (SELECT min(tenant) FROM ready WHERE route = :route AND tenant > step.tenant) FROM step WHERE step.tenant IS NOT NULL
)
SELECT s.tenant, t.weight,
       (SELECT rank FROM ready WHERE route = :route AND tenant = s.tenant ORDER BY rank LIMIT 1) AS head,
       (SELECT count(*) FROM (SELECT 1 FROM ready WHERE route = :route AND tenant = s.tenant LIMIT :counted_to)) AS depth
FROM step s JOIN tenants t ON t.tenant = s.tenant;

-- name: pick
-- `last_trace` is looked up once for all rows: whether it is worth asking whose trace they are in.
SELECT r.rank, r.id, r.attempt, r.failures, e.job_version, e.due_at, e.holds_place OR e.gates IS NOT NULL AS holds_place, e.payload,
       coalesce(e.scheduled_at, e.due_at) AS scheduled_at, (SELECT max(id) FROM traces) AS last_trace
FROM ready r JOIN executions e ON e.id = r.id
WHERE r.route = :route AND r.tenant = :tenant
ORDER BY r.rank, r.id LIMIT :quota;

-- name: take
-- The rows just picked are a prefix of the key, so taking them is one range delete.
DELETE FROM ready WHERE route = :route AND tenant = :tenant AND (rank, id) <= (:rank, :id);

-- name: grant
-- To a worker that lives. The engine answers its number.
INSERT INTO leases (worker, granted_at)
SELECT id, :now FROM workers WHERE id = :worker AND lost_at IS NULL AND expires_at > :now;

-- name: grant_members
INSERT INTO leased (lease_id, id, attempt, failures)
SELECT :lease, id, attempt, failures FROM ready WHERE route = :route AND tenant = :tenant AND (rank, id) <= (:rank, :id);

-- name: pick_named
-- The same for one row that was announced by its key.
SELECT r.rank, r.id, r.attempt, r.failures, e.job_version, e.due_at, e.holds_place OR e.gates IS NOT NULL AS holds_place, e.payload,
       coalesce(e.scheduled_at, e.due_at) AS scheduled_at, (SELECT max(id) FROM traces) AS last_trace
FROM ready r JOIN executions e ON e.id = r.id
WHERE r.route = :route AND r.tenant = :tenant AND r.rank = :rank AND r.id = :id;

-- name: grant_member
INSERT INTO leased (lease_id, id, attempt, failures) VALUES (:lease, :id, :attempt, :failures);

-- name: take_named
DELETE FROM ready WHERE route = :route AND tenant = :tenant AND rank = :rank AND id = :id;

-- name: peek_on_route
SELECT rank, id FROM ready WHERE route = :route AND tenant = :tenant ORDER BY rank, id LIMIT :quota;

-- name: held_by
SELECT m.lease_id, m.id, m.attempt, m.failures, e.job_version, e.due_at, e.holds_place OR e.gates IS NOT NULL AS holds_place, e.payload,
       coalesce(e.scheduled_at, e.due_at) AS scheduled_at, (SELECT max(id) FROM traces) AS last_trace
FROM leases l JOIN leased m ON m.lease_id = l.lease_id JOIN executions e ON e.id = m.id
WHERE l.worker = :worker ORDER BY m.lease_id, m.id;

-- name: members
-- The fence: what this worker's lease still holds; all else is refused.
SELECT m.id, m.attempt, m.failures FROM leases l JOIN leased m ON m.lease_id = l.lease_id
WHERE l.lease_id = :lease AND l.worker = :worker;

-- name: member
-- Or what its handler completed in a transaction of its own: its last lines come after that.
SELECT m.attempt FROM leases l JOIN leased m ON m.lease_id = l.lease_id
WHERE l.lease_id = :lease AND l.worker = :worker AND m.id = :id
UNION ALL
SELECT o.attempt FROM outcomes o WHERE o.id = :id AND o.lease_id = :lease AND o.worker = :worker;

-- name: finished_under
-- Of a call whose answer was lost: did this lease end that execution, or this attempt of it? What the sweeper wrote when it
-- took the lease away (4, a lost worker) is no end of the worker's.
SELECT 1 AS ended FROM outcomes o
WHERE o.id = :id AND o.lease_id = :lease
  AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.id = o.id AND a.lease_id = o.lease_id AND a.outcome = 4)
UNION ALL
SELECT 1 AS ended FROM attempts WHERE id = :id AND lease_id = :lease AND outcome <> 4;

-- name: add_outcome
INSERT INTO outcomes (id, state, attempt, lease_id, worker, started_at, finished_at, result, error)
VALUES (:id, :state, :attempt, :lease, :worker, :started_at, :finished_at, :result, :error);

-- name: end_attempt
INSERT INTO attempts (id, attempt, outcome, lease_id, worker, started_at, finished_at, retry_at, error)
VALUES (:id, :attempt, :outcome, :lease, :worker, :started_at, :finished_at, :retry_at, :error);

-- name: queue_key
-- Where the execution's next row in `timers` and `ready` belongs; and whether somebody asked it to stop.
SELECT e.route, e.tenant, e.rank - e.due_at AS head, e.gates IS NOT NULL AS gated, EXISTS (SELECT 1 FROM cancels c WHERE c.id = e.id) AS cancelled
FROM executions e WHERE e.id = :id;

-- name: drop_member
DELETE FROM leased WHERE lease_id = :lease AND id = :id;

-- name: drop_members
DELETE FROM leased WHERE lease_id = :lease;

-- name: close_lease
DELETE FROM leases WHERE lease_id = :lease AND NOT EXISTS (SELECT 1 FROM leased m WHERE m.lease_id = leases.lease_id);

-- name: free_place
DELETE FROM places WHERE job_id = :job_id AND id = :id;

-- name: next_waiter
SELECT w.id, b.route, b.tenant, b.rank, b.attempt, b.failures, e.gates, e.due_at
FROM waits w JOIN blocked b ON b.id = w.id JOIN executions e ON e.id = w.id
WHERE w.waits_for = :job_id ORDER BY w.id LIMIT 1;

-- name: set_blocked_reason
UPDATE blocked SET reason = :reason WHERE id = :id;

-- name: gates_to_look_at
SELECT gate FROM gates WHERE look_at <= :now LIMIT :quota;

-- name: note_starts
-- Of a rate: the period of a slot begins when its attempt is taken by a worker.
UPDATE slots
SET until = (SELECT l.granted_at + slots.lasts FROM leased m JOIN leases l ON l.lease_id = m.lease_id
             WHERE m.id = slots.id AND m.attempt = slots.attempt)
WHERE gate = :gate AND until IS NULL AND lasts IS NOT NULL;

-- name: append_log
INSERT INTO logs (id, attempt, at, level, message, fields) VALUES (:id, :attempt, :at, :level, :message, :fields);

-- name: cancels_of_worker
SELECT c.id, c.kill_at FROM cancels c JOIN leased m ON m.id = c.id JOIN leases l ON l.lease_id = m.lease_id
WHERE l.worker = :worker;

-- name: lost_leases
SELECT l.lease_id FROM leases l
WHERE NOT EXISTS (SELECT 1 FROM workers w WHERE w.id = l.worker AND w.lost_at IS NULL)
ORDER BY l.lease_id LIMIT :quota;

-- name: lost_executions
SELECT m.lease_id, l.worker, l.granted_at, m.id, m.attempt, m.failures, e.job_version, e.job_id, e.holds_place OR e.gates IS NOT NULL AS holds_place,
       (SELECT count(*) FROM attempts a WHERE a.id = m.id AND a.outcome = 4) AS losses,
       EXISTS (SELECT 1 FROM cancels c WHERE c.id = m.id) AS cancelled
FROM leases l
JOIN leased m ON m.lease_id = l.lease_id
JOIN executions e ON e.id = m.id
WHERE l.lease_id = :lease;

-- name: drop_lease
DELETE FROM leases WHERE lease_id = :lease;

-- name: stale_places
-- Places whose execution is final: a crash between two statements, or a bug.
DELETE FROM places WHERE EXISTS (SELECT 1 FROM outcomes o WHERE o.id = places.id) RETURNING job_id;

-- name: stale_cancels
DELETE FROM cancels WHERE EXISTS (SELECT 1 FROM outcomes o WHERE o.id = cancels.id);

-- name: stuck_queues
-- Jobs that somebody waits for although nobody stands in their place.
SELECT DISTINCT w.waits_for AS job_id FROM waits w WHERE NOT EXISTS (SELECT 1 FROM places p WHERE p.job_id = w.waits_for) LIMIT :quota;

-- name: waiting_cancels
-- Asked to stop, and nobody runs it: whoever asked did not come to the end.
SELECT c.id FROM cancels c WHERE c.asked_at <= :before AND NOT EXISTS (SELECT 1 FROM leased m WHERE m.id = c.id) LIMIT :quota;

-- name: ask_cancel
-- A second wish changes nothing, but that one which kills follows one which only asked.
INSERT INTO cancels (id, asked_at, asked_by, kill_at)
SELECT e.id, :now, :by, :kill_at FROM executions e
WHERE e.id = :id AND e.tenant = :tenant AND NOT EXISTS (SELECT 1 FROM outcomes o WHERE o.id = e.id)
ON CONFLICT (id) DO UPDATE SET kill_at = excluded.kill_at WHERE cancels.kill_at IS NULL AND excluded.kill_at IS NOT NULL
RETURNING id;

-- name: where_it_waits
SELECT e.route, e.tenant,
       coalesce((SELECT a.retry_at FROM attempts a WHERE a.id = e.id ORDER BY a.attempt DESC LIMIT 1) + e.rank - e.due_at, e.rank) AS rank
FROM executions e WHERE e.id = :id;

-- name: take_from_ready
DELETE FROM ready WHERE route = :route AND tenant = :tenant AND rank = :rank AND id = :id RETURNING attempt;

-- name: take_from_timers
DELETE FROM timers WHERE id = :id RETURNING attempt;

-- name: standing
SELECT state FROM execution_state WHERE id = :id AND tenant = :tenant;

-- name: running_attempt
SELECT m.attempt, NULL AS outcome, m.lease_id, l.worker, l.granted_at AS started_at, NULL AS finished_at, NULL AS retry_at, NULL AS error
FROM leased m JOIN leases l ON l.lease_id = m.lease_id WHERE m.id = :id;

-- name: ids_running
-- The CASE is that of `sifted`.
SELECT m.id FROM leased m CROSS JOIN executions e ON e.id = m.id
WHERE CASE WHEN m.id = x'' THEN FALSE ELSE e.tenant = :tenant END AND m.id < :before ORDER BY m.id DESC LIMIT :quota;

-- name: count_running
-- The CASE is that of `sifted`.
SELECT count(*) AS n FROM leased m CROSS JOIN executions e ON e.id = m.id WHERE CASE WHEN m.id = x'' THEN FALSE ELSE e.tenant = :tenant END;

-- name: workers
SELECT w.id, w.name, w.started_at, w.expires_at, w.lost_at, w.about, w.tenant,
       (SELECT count(*) FROM leases l JOIN leased m ON m.lease_id = l.lease_id
        WHERE l.worker = w.id AND (:tenant IS NULL OR EXISTS (SELECT 1 FROM executions e WHERE e.id = m.id AND e.tenant = :tenant))) AS running
FROM workers w WHERE w.lost_at IS NULL OR w.lost_at > :lost_since ORDER BY w.id;

-- name: old_finished
-- Finished executions whose id is older than the bound, along the history; steps only once their run has ended.
SELECT id FROM outcomes WHERE id < :before AND finished_at < :finished_before
  AND NOT EXISTS (SELECT 1 FROM executions e JOIN flows f ON f.run = e.run WHERE e.id = outcomes.id)
  AND NOT EXISTS (SELECT 1 FROM executions e JOIN executions g ON g.id = e.run JOIN flows f ON f.run = g.run WHERE e.id = outcomes.id)
ORDER BY id LIMIT :quota;

-- name: drop_execution
DELETE FROM executions WHERE id = :id;

-- name: drop_outcome
DELETE FROM outcomes WHERE id = :id;

-- name: drop_attempts
DELETE FROM attempts WHERE id = :id;

-- name: drop_settled
DELETE FROM settled WHERE id = :id;

-- name: drop_logs
DELETE FROM logs WHERE id = :id;

-- name: place_of
SELECT job_id FROM executions WHERE id = :id;

-- name: migrations_table
SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'duly_migrations';
