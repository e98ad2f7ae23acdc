-- name: awaited_gates
-- The gates of those who will come to an idle one: they wait, or run and may have to run again, longer than their rate looks back. Asked
-- only when there are idle ones.
SELECT DISTINCT e.gates
FROM (SELECT id FROM timers WHERE gated UNION ALL SELECT id FROM blocked UNION ALL SELECT unnest(ids) FROM leases) w
JOIN executions e ON e.id = w.id
WHERE e.gates && :idle::uuid[];
