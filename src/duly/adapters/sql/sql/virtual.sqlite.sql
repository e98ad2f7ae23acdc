-- For whoever jumps from one instant to the next, as `duly.testing` does: nobody polls there, so everything that comes by itself is asked for.
-- Looks that would only find what was lost are left out.

-- name: next_fire
-- When a schedule is due next.
SELECT min(next_fire_at) AS at FROM schedules WHERE shard = :shard AND NOT paused;

-- name: next_instant
-- When something else is due next.
SELECT min(at) AS at FROM (
    SELECT min(due_at) AS at FROM timers WHERE shard = :shard
    UNION ALL
    SELECT min(coalesce(a.deadline, g.look_at)) FROM gates g LEFT JOIN awaited a ON a.gate = g.gate WHERE g.look_at IS NOT NULL
    UNION ALL
    SELECT min(until) FROM flow_waits WHERE until IS NOT NULL);

-- name: fires_of_job
-- The times that the fires of a job stand for, first to last; what was skipped is left out.
SELECT coalesce(e.scheduled_at, e.due_at) AS at
FROM executions e
WHERE e.tenant = :tenant AND e.job_id = :job_id AND e.trigger = 0
  AND NOT EXISTS (SELECT 1 FROM outcomes o WHERE o.id = e.id AND o.state = 7)
ORDER BY e.id;

-- name: anything_waits
-- Whether anything waits for something else.
SELECT EXISTS (SELECT 1 FROM blocked) OR EXISTS (SELECT 1 FROM flows) AS found;

-- name: how_many_ready
-- Asked for once, and then counted along.
SELECT count(*) AS found FROM ready;

-- name: anything_timed
-- Whether anything waits for a time.
SELECT EXISTS (SELECT 1 FROM timers) AS found;

-- name: anything_gated
-- Whether there is a gate.
SELECT EXISTS (SELECT 1 FROM gates) AS found;

-- name: anything_limited
-- Whether anything holds a slot.
SELECT EXISTS (SELECT 1 FROM slots) AS found;

-- name: anything_queued
-- Whether anything waits for a place.
SELECT EXISTS (SELECT 1 FROM waits) AS found;

-- name: anything_runs
-- Whether anything runs.
SELECT EXISTS (SELECT 1 FROM leases) AS found;
