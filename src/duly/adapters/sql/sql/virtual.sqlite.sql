-- For whoever jumps from one instant to the next, as `duly.testing` does: nobody polls there, so everything that comes by itself is asked for.
-- Looks that would only find what was lost are left out.

-- name: next_instant
-- When something is due next.
SELECT min(at) AS at FROM (
    SELECT min(next_fire_at) AS at FROM schedules WHERE shard = :shard AND NOT paused
    UNION ALL
    SELECT min(due_at) FROM timers WHERE shard = :shard
    UNION ALL
    SELECT min(coalesce(a.deadline, g.look_at)) FROM gates g LEFT JOIN awaited a ON a.gate = g.gate WHERE g.look_at IS NOT NULL
    UNION ALL
    SELECT min(until) FROM flow_waits WHERE until IS NOT NULL);

-- name: anything_waits
-- Whether anything waits for something else.
SELECT EXISTS (SELECT 1 FROM blocked) OR EXISTS (SELECT 1 FROM flows) AS found;

-- name: anything_ready
-- Whether anything is ready.
SELECT EXISTS (SELECT 1 FROM ready) AS found;

-- name: anything_runs
-- Whether anything runs.
SELECT EXISTS (SELECT 1 FROM leases) AS found;
