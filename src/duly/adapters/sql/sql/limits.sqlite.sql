-- name: awaited_gates
-- The gates of everybody who waits, or runs and may have to run again, longer than its rate looks back: some of them are idle, and will be
-- come to all the same. Asked only when there are idle ones.
SELECT DISTINCT e.gates
FROM (SELECT id FROM timers WHERE gated UNION ALL SELECT id FROM blocked UNION ALL SELECT id FROM leased) w
JOIN executions e ON e.id = w.id
WHERE e.gates IS NOT NULL;
