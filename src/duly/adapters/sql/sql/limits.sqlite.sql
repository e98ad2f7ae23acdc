-- name: awaited_gates
-- The gates of everybody who waits: some of them are idle, and will be come to all the same. Asked only when there are idle ones.
SELECT DISTINCT e.gates
FROM (SELECT id FROM timers WHERE gated UNION ALL SELECT id FROM blocked) w
JOIN executions e ON e.id = w.id
WHERE e.gates IS NOT NULL;
