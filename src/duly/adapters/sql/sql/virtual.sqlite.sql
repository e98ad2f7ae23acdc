-- For whoever jumps from one instant to the next, as `duly.testing` does: nobody polls there, so everything that comes by itself is asked for.

-- name: next_instant
-- When something is due next; whether anything waits for something else; whether anything is ready, and whether anything runs. Looks that
-- would only find what was lost are left out.
SELECT (SELECT min(at) FROM (
            SELECT min(next_fire_at) AS at FROM schedules WHERE shard = :shard AND NOT paused
            UNION ALL
            SELECT min(due_at) FROM timers WHERE shard = :shard
            UNION ALL
            SELECT min(coalesce(a.deadline, g.look_at)) FROM gates g LEFT JOIN awaited a ON a.gate = g.gate WHERE g.look_at IS NOT NULL
            UNION ALL
            SELECT min(until) FROM flow_waits WHERE until IS NOT NULL)) AS at,
       EXISTS (SELECT 1 FROM blocked) OR EXISTS (SELECT 1 FROM flows) AS waits,
       EXISTS (SELECT 1 FROM ready) AS ready, EXISTS (SELECT 1 FROM leases) AS runs;
