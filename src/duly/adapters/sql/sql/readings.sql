-- What metrics read of the store: over all tenants, and each bounded.

-- name: open_letters_of_all
-- Along the small index of those, newest first. A dead step (5) is its run's affair, and listed nowhere.
SELECT count(*) AS n
FROM (SELECT id FROM outcomes WHERE state = 5 ORDER BY finished_at DESC, id DESC LIMIT :most) o
WHERE (SELECT s.id FROM settled s WHERE s.id = o.id) IS NULL AND (SELECT e.trigger FROM executions e WHERE e.id = o.id) <> 5;

-- name: oldest_leases
-- One row for each claimed batch that has not ended: few.
SELECT worker, min(granted_at) AS granted_at FROM leases GROUP BY worker;

-- name: missing_of_all
-- Along the small index of those that have not come to light.
SELECT count(*) AS n FROM (SELECT at FROM missed_fires WHERE resolved_at IS NULL ORDER BY at LIMIT :most) AS missing;

-- name: tenant_name
SELECT name FROM tenants WHERE tenant = :tenant;
