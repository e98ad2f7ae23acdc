-- Moving a tenant: what is read at its old home, written at the new one, and cleared away behind it. Ids stay as they are; numbers
-- that each store gives by itself (routes, versions of jobs) travel by what they stand for. Writing again changes nothing.
-- Tests compare these columns with those of the tables.

-- part: of_jobs
WHERE j.tenant = :tenant AND j.id > :after AND j.id <= :last

-- part: page
FROM jobs j JOIN executions e ON e.job_id = j.id

-- part: of_page
WHERE j.tenant = :tenant AND j.id >= :job AND j.id <= :last_job
  AND (e.job_id, e.id) > (:job, :after) AND (e.job_id, e.id) <= (:last_job, :last)
  AND NOT EXISTS (SELECT 1 FROM outcomes d WHERE d.id = e.id AND d.finished_at < :since)

-- ---------------------------------------------------------------- what a tenant has

-- name: moving_tenant
SELECT tenant, name, weight, max_jobs, max_queued, max_concurrent, max_fires_per_minute, max_payload_bytes, retention_days, version, created_at
FROM tenants WHERE tenant = :tenant;

-- name: moving_key
SELECT id, tenant, role, name, hash, created_at, expires_at, revoked_at, prefix, pools, lasts, replaces, family, last_used_at FROM keys WHERE tenant = :tenant;

-- name: move_key
INSERT INTO keys (id, tenant, role, name, hash, created_at, expires_at, revoked_at, prefix, pools, lasts, replaces, family, last_used_at)
VALUES (:id, :tenant, :role, :name, :hash, :created_at, :expires_at, :revoked_at, :prefix, :pools, :lasts, :replaces, :family, :last_used_at)
ON CONFLICT DO NOTHING;

-- name: clear_key
DELETE FROM keys WHERE tenant = :tenant;

-- name: moving_calendar
SELECT tenant, name, version, definition, updated_at FROM calendars WHERE tenant = :tenant;

-- name: move_calendar
INSERT INTO calendars (tenant, name, version, definition, updated_at)
VALUES (:tenant, :name, :version, :definition, :updated_at)
ON CONFLICT DO NOTHING;

-- name: clear_calendar
DELETE FROM calendars WHERE tenant = :tenant;

-- name: moving_batch
SELECT batch, tenant, job_id, kind, asked_at, asked_by, total, about FROM batches WHERE tenant = :tenant;

-- name: move_batch
INSERT INTO batches (batch, tenant, job_id, kind, asked_at, asked_by, total, about)
VALUES (:batch, :tenant, :job_id, :kind, :asked_at, :asked_by, :total, :about)
ON CONFLICT DO NOTHING;

-- name: clear_batch
DELETE FROM batches WHERE tenant = :tenant;

-- name: moving_promise
SELECT tenant, key, body_hash, answer, expires_at FROM idempotency WHERE tenant = :tenant;

-- name: move_promise
INSERT INTO idempotency (tenant, key, body_hash, answer, expires_at)
VALUES (:tenant, :key, :body_hash, :answer, :expires_at)
ON CONFLICT DO NOTHING;

-- name: clear_promise
DELETE FROM idempotency WHERE tenant = :tenant;

-- name: moving_gate
SELECT gate, tenant, shard, capacity, lasts, look_at, about, kept FROM gates WHERE tenant = :tenant;

-- name: move_gate
INSERT INTO gates (gate, tenant, shard, capacity, lasts, look_at, about, kept)
VALUES (:gate, :tenant, :shard, :capacity, :lasts, :look_at, :about, :kept)
ON CONFLICT DO NOTHING;

-- name: clear_gate
DELETE FROM gates WHERE tenant = :tenant;

-- name: moving_awaited
SELECT gate, tenant, job, first, past, deadline, runs FROM awaited WHERE tenant = :tenant;

-- name: move_awaited
INSERT INTO awaited (gate, tenant, job, first, past, deadline, runs)
VALUES (:gate, :tenant, :job, :first, :past, :deadline, :runs)
ON CONFLICT DO NOTHING;

-- name: clear_awaited
DELETE FROM awaited WHERE tenant = :tenant;

-- name: moving_headroom
SELECT tenant, kind FROM headroom WHERE tenant = :tenant;

-- name: move_headroom
INSERT INTO headroom (tenant, kind)
VALUES (:tenant, :kind)
ON CONFLICT DO NOTHING;

-- name: clear_headroom
DELETE FROM headroom WHERE tenant = :tenant;

-- name: moving_fire_count
SELECT tenant, second, count FROM fires WHERE tenant = :tenant;

-- name: move_fire_count
INSERT INTO fires (tenant, second, count)
VALUES (:tenant, :second, :count)
ON CONFLICT DO NOTHING;

-- name: clear_fire_count
DELETE FROM fires WHERE tenant = :tenant;

-- name: clear_sessions
DELETE FROM sessions WHERE tenant = :tenant;

-- name: clear_links
DELETE FROM login_links WHERE tenant = :tenant;

-- ---------------------------------------------------------------- jobs

-- name: moving_jobs
SELECT j.id, j.tenant, j.name, j.state, v.version, j.created_at, j.paused_at, j.pause_reason, j.paused_until, j.paused_by, j.changed_at
FROM jobs j JOIN job_versions v ON v.id = j.version
WHERE j.tenant = :tenant AND j.id > :after
ORDER BY j.id
LIMIT :quota;

-- name: move_job
INSERT INTO jobs (id, tenant, name, state, version, created_at, paused_at, pause_reason, paused_until, paused_by, changed_at)
VALUES (:id, :tenant, :name, :state, (SELECT v.id FROM job_versions v WHERE v.job_id = :id AND v.version = :version),
        :created_at, :paused_at, :pause_reason, :paused_until, :paused_by, :changed_at)
ON CONFLICT DO NOTHING;

-- name: moving_version
SELECT v.job_id, v.version, r.pool, r.labels, r.handler, v.max_attempts, v.definition, v.created_at
FROM jobs j JOIN job_versions v ON v.job_id = j.id JOIN routes r ON r.route = v.route
/*of_jobs*/;

-- name: move_route
INSERT INTO routes (pool, labels, handler) VALUES (:pool, :labels, :handler) ON CONFLICT DO NOTHING;

-- name: move_version
INSERT INTO job_versions (job_id, version, route, max_attempts, definition, created_at)
VALUES (:job_id, :version, (SELECT r.route FROM routes r WHERE r.pool = :pool AND r.labels = :labels AND r.handler = :handler),
        :max_attempts, :definition, :created_at)
ON CONFLICT DO NOTHING;

-- name: moving_schedule
SELECT s.job_id, s.shard, s.next_fire_at, v.version, s.paused, s.skip_at, s.skip_by
FROM jobs j JOIN schedules s ON s.job_id = j.id JOIN job_versions v ON v.id = s.version
/*of_jobs*/;

-- name: move_schedule
INSERT INTO schedules (job_id, shard, next_fire_at, version, paused, skip_at, skip_by)
VALUES (:job_id, :shard, :next_fire_at, (SELECT v.id FROM job_versions v WHERE v.job_id = :job_id AND v.version = :version),
        :paused, :skip_at, :skip_by)
ON CONFLICT DO NOTHING;

-- name: moving_calendar_use
SELECT u.tenant, u.name, u.job_id FROM jobs j JOIN calendar_uses u ON u.job_id = j.id
/*of_jobs*/;

-- name: move_calendar_use
INSERT INTO calendar_uses (tenant, name, job_id)
VALUES (:tenant, :name, :job_id)
ON CONFLICT DO NOTHING;

-- name: moving_place
SELECT p.job_id, p.place, p.id FROM jobs j JOIN places p ON p.job_id = j.id
/*of_jobs*/;

-- name: move_place
INSERT INTO places (job_id, place, id)
VALUES (:job_id, :place, :id)
ON CONFLICT DO NOTHING;

-- name: clear_schedule
DELETE FROM schedules WHERE job_id IN (SELECT j.id FROM jobs j /*of_jobs*/);

-- name: clear_calendar_use
DELETE FROM calendar_uses WHERE job_id IN (SELECT j.id FROM jobs j /*of_jobs*/);

-- name: clear_place
DELETE FROM places WHERE job_id IN (SELECT j.id FROM jobs j /*of_jobs*/);

-- name: clear_version
DELETE FROM job_versions WHERE job_id IN (SELECT j.id FROM jobs j /*of_jobs*/);

-- name: clear_job
DELETE FROM jobs WHERE tenant = :tenant AND id > :after AND id <= :last;

-- ---------------------------------------------------------------- executions, a page of some at a time, by job and id

-- name: moving_page
SELECT e.job_id, e.id
/*page*/
WHERE j.tenant = :tenant AND j.id >= :job AND (e.job_id, e.id) > (:job, :after)
  AND NOT EXISTS (SELECT 1 FROM outcomes d WHERE d.id = e.id AND d.finished_at < :since)
ORDER BY e.job_id, e.id
LIMIT :quota;

-- name: moving_execution
SELECT e.id, e.job_id, v.version, e.tenant, r.pool, r.labels, r.handler, e.trigger, e.holds_place, e.skip_reason, e.due_at, e.rank,
       e.created_at, e.payload, e.scheduled_at, e.gates, e.batch
/*page*/ JOIN job_versions v ON v.id = e.job_version JOIN routes r ON r.route = e.route
/*of_page*/;

-- name: move_execution
INSERT INTO executions (id, job_id, job_version, tenant, route, trigger, holds_place, skip_reason, due_at, rank, created_at, payload, scheduled_at,
                        gates, batch)
VALUES (:id, :job_id, (SELECT v.id FROM job_versions v WHERE v.job_id = :job_id AND v.version = :version), :tenant,
        (SELECT r.route FROM routes r WHERE r.pool = :pool AND r.labels = :labels AND r.handler = :handler),
        :trigger, :holds_place, :skip_reason, :due_at, :rank, :created_at, :payload, :scheduled_at, :gates, :batch)
ON CONFLICT DO NOTHING;

-- name: clear_execution
DELETE FROM executions WHERE id IN (SELECT e.id /*page*/ /*of_page*/);

-- name: moving_timer
SELECT t.id, t.shard, t.due_at, r.pool, r.labels, r.handler, t.tenant, t.rank, t.attempt, t.failures, t.gated
/*page*/ JOIN timers t ON t.id = e.id JOIN routes r ON r.route = t.route
/*of_page*/;

-- name: move_timer
-- Asleep, wherever it comes from, unless somebody has ended it here already.
INSERT INTO timers (id, shard, due_at, route, tenant, rank, attempt, failures, gated)
SELECT :id, CASE WHEN CAST(:shard AS integer) < 0 THEN :shard ELSE -1 - :shard END, :due_at, r.route, :tenant, :rank, :attempt, :failures, :gated
FROM routes r
WHERE r.pool = :pool AND r.labels = :labels AND r.handler = :handler AND NOT EXISTS (SELECT 1 FROM outcomes o WHERE o.id = :id)
ON CONFLICT DO NOTHING;

-- name: clear_timer
DELETE FROM timers WHERE id IN (SELECT e.id /*page*/ /*of_page*/);

-- name: moving_blocked
SELECT b.id, b.reason, r.pool, r.labels, r.handler, b.tenant, b.rank, b.attempt, b.failures
/*page*/ JOIN blocked b ON b.id = e.id JOIN routes r ON r.route = b.route
/*of_page*/;

-- name: move_blocked
-- Unless it was let through, or ended, here already.
INSERT INTO blocked (id, reason, route, tenant, rank, attempt, failures)
SELECT :id, :reason, r.route, :tenant, :rank, :attempt, :failures
FROM routes r
WHERE r.pool = :pool AND r.labels = :labels AND r.handler = :handler
  AND NOT EXISTS (SELECT 1 FROM outcomes o WHERE o.id = :id) AND NOT EXISTS (SELECT 1 FROM timers t WHERE t.id = :id)
ON CONFLICT DO NOTHING;

-- name: clear_blocked
DELETE FROM blocked WHERE id IN (SELECT e.id /*page*/ /*of_page*/);

-- name: moving_log
SELECT l.id, l.attempt, l.at, l.level, l.message, l.fields
/*page*/ JOIN logs l ON l.id = e.id
/*of_page*/
ORDER BY l.seq;

-- name: move_log
INSERT INTO logs (id, attempt, at, level, message, fields)
VALUES (:id, :attempt, :at, :level, :message, :fields);

-- name: clear_log
DELETE FROM logs WHERE id IN (SELECT e.id /*page*/ /*of_page*/);

-- name: clear_ready
DELETE FROM ready WHERE tenant = :tenant AND id IN (SELECT e.id /*page*/ /*of_page*/);

-- name: moving_outcome
SELECT o.id, o.state, o.attempt, o.lease_id, o.worker, o.started_at, o.finished_at, o.result, o.error
/*page*/ JOIN outcomes o ON o.id = e.id
/*of_page*/;

-- name: move_outcome
INSERT INTO outcomes (id, state, attempt, lease_id, worker, started_at, finished_at, result, error)
VALUES (:id, :state, :attempt, :lease_id, :worker, :started_at, :finished_at, :result, :error)
ON CONFLICT DO NOTHING;

-- name: clear_outcome
DELETE FROM outcomes WHERE id IN (SELECT e.id /*page*/ /*of_page*/);

-- name: moving_attempt
SELECT a.id, a.attempt, a.outcome, a.lease_id, a.worker, a.started_at, a.finished_at, a.retry_at, a.error
/*page*/ JOIN attempts a ON a.id = e.id
/*of_page*/;

-- name: move_attempt
INSERT INTO attempts (id, attempt, outcome, lease_id, worker, started_at, finished_at, retry_at, error)
VALUES (:id, :attempt, :outcome, :lease_id, :worker, :started_at, :finished_at, :retry_at, :error)
ON CONFLICT DO NOTHING;

-- name: clear_attempt
DELETE FROM attempts WHERE id IN (SELECT e.id /*page*/ /*of_page*/);

-- name: moving_checkpoint
SELECT c.id, c.number, c.attempt, c.saved_at, c.data, c.progress, c.progress_at
/*page*/ JOIN checkpoints c ON c.id = e.id
/*of_page*/;

-- name: move_checkpoint
INSERT INTO checkpoints (id, number, attempt, saved_at, data, progress, progress_at)
VALUES (:id, :number, :attempt, :saved_at, :data, :progress, :progress_at)
ON CONFLICT DO NOTHING;

-- name: clear_checkpoint
DELETE FROM checkpoints WHERE id IN (SELECT e.id /*page*/ /*of_page*/);

-- name: moving_trace
SELECT t.id, t.tenant, t.context
/*page*/ JOIN traces t ON t.id = e.id
/*of_page*/;

-- name: move_trace
INSERT INTO traces (id, tenant, context) VALUES (:id, :tenant, :context) ON CONFLICT DO NOTHING;

-- name: clear_trace
DELETE FROM traces WHERE id IN (SELECT e.id /*page*/ /*of_page*/);

-- name: moving_settled
SELECT s.id, s.settled_at, s.settled_by, s.how, s.replay
/*page*/ JOIN settled s ON s.id = e.id
/*of_page*/;

-- name: move_settled
INSERT INTO settled (id, settled_at, settled_by, how, replay)
VALUES (:id, :settled_at, :settled_by, :how, :replay)
ON CONFLICT DO NOTHING;

-- name: clear_settled
DELETE FROM settled WHERE id IN (SELECT e.id /*page*/ /*of_page*/);

-- name: moving_cancel
SELECT c.id, c.asked_at, c.asked_by, c.kill_at
/*page*/ JOIN cancels c ON c.id = e.id
/*of_page*/;

-- name: move_cancel
INSERT INTO cancels (id, asked_at, asked_by, kill_at)
VALUES (:id, :asked_at, :asked_by, :kill_at)
ON CONFLICT DO NOTHING;

-- name: clear_cancel
DELETE FROM cancels WHERE id IN (SELECT e.id /*page*/ /*of_page*/);

-- name: moving_unique
SELECT u.key, u.id, u.until
/*page*/ JOIN uniques u ON u.id = e.id
/*of_page*/;

-- name: move_unique
INSERT INTO uniques (key, id, until)
VALUES (:key, :id, :until)
ON CONFLICT DO NOTHING;

-- name: clear_unique
DELETE FROM uniques WHERE id IN (SELECT e.id /*page*/ /*of_page*/);

-- name: moving_wait
SELECT w.waits_for, w.id
/*page*/ JOIN waits w ON w.id = e.id
/*of_page*/;

-- name: move_wait
INSERT INTO waits (waits_for, id)
VALUES (:waits_for, :id)
ON CONFLICT DO NOTHING;

-- name: clear_wait
DELETE FROM waits WHERE id IN (SELECT e.id /*page*/ /*of_page*/);

-- name: moving_gate_wait
SELECT w.gate, w.rank, w.id
/*page*/ JOIN gate_waits w ON w.id = e.id
/*of_page*/;

-- name: move_gate_wait
INSERT INTO gate_waits (gate, rank, id)
VALUES (:gate, :rank, :id)
ON CONFLICT DO NOTHING;

-- name: clear_gate_wait
DELETE FROM gate_waits WHERE id IN (SELECT e.id /*page*/ /*of_page*/);

-- name: moving_slot
SELECT s.gate, s.id, s.attempt, s.lasts, s.until
/*page*/ JOIN slots s ON s.id = e.id
/*of_page*/;

-- name: move_slot
INSERT INTO slots (gate, id, attempt, lasts, until)
VALUES (:gate, :id, :attempt, :lasts, :until)
ON CONFLICT DO NOTHING;

-- name: clear_slot
DELETE FROM slots WHERE id IN (SELECT e.id /*page*/ /*of_page*/);

-- ---------------------------------------------------------------- is it all there?

-- name: moved_counts
SELECT (SELECT count(*) FROM jobs WHERE tenant = :tenant) AS jobs,
       (SELECT count(*) FROM jobs j JOIN job_versions v ON v.job_id = j.id WHERE j.tenant = :tenant) AS versions,
       (SELECT count(*) FROM jobs j JOIN schedules s ON s.job_id = j.id WHERE j.tenant = :tenant) AS schedules,
       (SELECT count(*) FROM keys WHERE tenant = :tenant) AS keys,
       (SELECT count(*) FROM calendars WHERE tenant = :tenant) AS calendars,
       (SELECT count(*) FROM jobs j JOIN executions e ON e.job_id = j.id
        WHERE j.tenant = :tenant AND NOT EXISTS (SELECT 1 FROM outcomes d WHERE d.id = e.id AND d.finished_at < :since)) AS executions,
       (SELECT count(*) FROM jobs j JOIN executions e ON e.job_id = j.id JOIN outcomes o ON o.id = e.id
        WHERE j.tenant = :tenant AND o.finished_at >= :since) AS outcomes;

-- name: moved_strays
-- Executions that stand nowhere.
SELECT count(*) AS n
/*page*/
WHERE j.tenant = :tenant
  AND NOT EXISTS (SELECT 1 FROM outcomes o WHERE o.id = e.id)
  AND NOT EXISTS (SELECT 1 FROM timers t WHERE t.id = e.id)
  AND NOT EXISTS (SELECT 1 FROM blocked b WHERE b.id = e.id);

-- name: moving_alert_channel
SELECT tenant, name, version, definition, updated_at FROM alert_channels WHERE tenant = :tenant;

-- name: move_alert_channel
INSERT INTO alert_channels (tenant, name, version, definition, updated_at)
VALUES (:tenant, :name, :version, :definition, :updated_at)
ON CONFLICT DO NOTHING;

-- name: clear_alert_channel
DELETE FROM alert_channels WHERE tenant = :tenant;

-- name: moving_alert_rule
SELECT tenant, name, version, definition, updated_at, snoozed_until FROM alert_rules WHERE tenant = :tenant;

-- name: move_alert_rule
INSERT INTO alert_rules (tenant, name, version, definition, updated_at, snoozed_until)
VALUES (:tenant, :name, :version, :definition, :updated_at, :snoozed_until)
ON CONFLICT DO NOTHING;

-- name: clear_alert_rule
DELETE FROM alert_rules WHERE tenant = :tenant;

-- name: moving_address
SELECT id, tenant, kind, job_id, hash, created_at, created_by, expires_at, revoked_at FROM links WHERE tenant = :tenant;

-- name: move_address
INSERT INTO links (id, tenant, kind, job_id, hash, created_at, created_by, expires_at, revoked_at)
VALUES (:id, :tenant, :kind, :job_id, :hash, :created_at, :created_by, :expires_at, :revoked_at)
ON CONFLICT DO NOTHING;

-- name: clear_address
DELETE FROM links WHERE tenant = :tenant;

-- name: clear_incidents
DELETE FROM incidents WHERE tenant = :tenant;

-- name: clear_deliveries
DELETE FROM deliveries WHERE incident IN (SELECT id FROM incidents WHERE tenant = :tenant);

-- name: clear_missed
DELETE FROM missed_fires WHERE tenant = :tenant;

-- name: moving_pause
SELECT p.job_id, p.since, p.until FROM jobs j JOIN pauses p ON p.job_id = j.id
/*of_jobs*/;

-- name: move_pause
INSERT INTO pauses (job_id, since, until) VALUES (:job_id, :since, :until)
ON CONFLICT DO NOTHING;

-- name: clear_pause
DELETE FROM pauses WHERE job_id IN (SELECT j.id FROM jobs j /*of_jobs*/);

-- name: moving_figure
SELECT f.job_id, f.tenant, f.sketch, f.updated_at FROM jobs j JOIN job_figures f ON f.job_id = j.id
/*of_jobs*/;

-- name: move_figure
INSERT INTO job_figures (job_id, tenant, sketch, updated_at) VALUES (:job_id, :tenant, :sketch, :updated_at)
ON CONFLICT DO NOTHING;

-- name: clear_figure
DELETE FROM job_figures WHERE job_id IN (SELECT j.id FROM jobs j /*of_jobs*/);
