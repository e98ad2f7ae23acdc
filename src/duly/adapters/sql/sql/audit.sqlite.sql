-- The audit trail where one writer makes the order: a place that can be seen has nothing before it that cannot.

-- name: audit_progress
SELECT 0 AS xid, place, 0 AS elsewhere FROM audit_progress;

-- name: audit_unlinked
SELECT a.tenant, 0 AS xid, 0 AS elsewhere, /*record_columns*/
FROM audit a
WHERE a.place > :place AND NOT EXISTS (SELECT 1 FROM audit_links l WHERE l.tenant = a.tenant AND l.place = a.place)
ORDER BY a.place
LIMIT :quota;

-- part: record_columns
       a.place, a.at, a.actor, a.role, a.channel, a.request_id, a.action, a.kind, a.subject, a.job_id, a.reason, a.before, a.after

-- name: audit_strays
-- What has no link and stands where links have been made already, between two places.
SELECT /*record_columns*/
FROM audit a
WHERE a.tenant = :tenant AND a.place >= :low AND a.place <= :high AND a.place <= (SELECT p.place FROM audit_progress p)
  AND NOT EXISTS (SELECT 1 FROM audit_links l WHERE l.tenant = a.tenant AND l.place = a.place)
ORDER BY a.place
LIMIT 1;

-- name: audit_waiting
SELECT count(*) AS n FROM audit a
WHERE a.tenant = :tenant AND a.place > coalesce((SELECT p.place FROM audit_progress p), 0);
