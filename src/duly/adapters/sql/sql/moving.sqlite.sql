-- name: moving_audit
-- Places are one row of numbers for all tenants here, so records get new ones there and are linked anew, by the notary.
SELECT tenant, at, actor, role, channel, request_id, action, kind, subject, job_id, reason, before, after
FROM audit WHERE tenant = :tenant
ORDER BY place
LIMIT :quota OFFSET :after;

-- name: audited
SELECT count(*) AS n FROM audit WHERE tenant = :tenant;
