-- Finished executions for analysts. The view `records` says what is known of each; these choose which.

-- name: exporter_take
-- One exporter at a time: this one, if it is the one, or if the last has not been seen for long. A new row begins with the history.
INSERT INTO exporters (exporter, owner, until, seen_at) VALUES (1, :owner, :until, :now)
ON CONFLICT (exporter) DO UPDATE SET owner = excluded.owner, until = excluded.until, seen_at = excluded.seen_at
WHERE exporters.owner = excluded.owner OR exporters.until <= excluded.seen_at
RETURNING owner;

-- name: exporter_leave
UPDATE exporters SET until = 0 WHERE owner = :owner;

-- name: exporter_is_gone
SELECT owner FROM exporters WHERE seen_at < :before;

-- name: exporter_lapse
DELETE FROM exporters WHERE seen_at < :before RETURNING owner;

-- name: exporter_reached
SELECT reached, is_through FROM exporters;

-- name: exporter_reach
UPDATE exporters SET reached = :reached;

-- name: exporter_is_through
UPDATE exporters SET is_through = true;

-- name: unexported_empty
DELETE FROM unexported;

-- name: records_after
-- Along the history, whoever's it is.
SELECT r.* FROM (SELECT id FROM outcomes WHERE id > :after ORDER BY id LIMIT :quota) f JOIN records r ON r.id = f.id ORDER BY r.id;
