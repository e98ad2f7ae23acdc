-- With one writer a tenant leaves in one transaction, and the guards serve every tenant that is not at home: they are made by the
-- first move, and a store that nobody ever left has none.

-- name: guard_audit
CREATE TRIGGER IF NOT EXISTS moving_audit BEFORE INSERT ON audit
WHEN EXISTS (SELECT 1 FROM tenants t WHERE t.tenant = NEW.tenant AND t.standing IN (1, 3))
BEGIN
    SELECT RAISE(ABORT, 'DULY-E405');
END;

-- name: guard_executions
CREATE TRIGGER IF NOT EXISTS moving_executions BEFORE INSERT ON executions
WHEN EXISTS (SELECT 1 FROM tenants t WHERE t.tenant = NEW.tenant AND t.standing IN (1, 3))
BEGIN
    SELECT RAISE(ABORT, 'DULY-E405');
END;

-- name: guard_ready
CREATE TRIGGER IF NOT EXISTS moving_ready BEFORE INSERT ON ready
WHEN EXISTS (SELECT 1 FROM tenants t WHERE t.tenant = NEW.tenant AND t.standing <> 0)
BEGIN
    INSERT INTO timers (id, shard, due_at, route, tenant, rank, attempt, failures)
    VALUES (NEW.id, -1, coalesce((SELECT e.due_at FROM executions e WHERE e.id = NEW.id), NEW.rank), NEW.route, NEW.tenant, NEW.rank, NEW.attempt, NEW.failures);
    SELECT RAISE(IGNORE);
END;

-- name: guard_timers
CREATE TRIGGER IF NOT EXISTS moving_timers AFTER INSERT ON timers
WHEN NEW.shard >= 0 AND EXISTS (SELECT 1 FROM tenants t WHERE t.tenant = NEW.tenant AND t.standing <> 0)
BEGIN
    UPDATE timers SET shard = -1 - shard WHERE id = NEW.id;
END;

-- name: highest_fence
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'leases'), 0) AS fence;

-- name: begin_fences
INSERT INTO sqlite_sequence (name, seq) SELECT 'leases', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'leases');

-- name: lift_fence
UPDATE sqlite_sequence SET seq = max(seq, :fence) WHERE name = 'leases';
