-- name: awaited_gates
-- The gates of those who wait and will come to an idle one. Asked only when there are idle ones.
SELECT DISTINCT e.gates
FROM (SELECT id FROM timers WHERE gated UNION ALL SELECT id FROM blocked) w
JOIN executions e ON e.id = w.id
WHERE e.gates && :idle::uuid[];
