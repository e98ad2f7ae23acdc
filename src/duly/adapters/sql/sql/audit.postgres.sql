-- The audit trail where many write at once: a row may be linked when every transaction that could still write before it has ended.
-- A row with a transaction of the future was restored from another server: it is there, so it has committed.

-- name: audit_progress
SELECT xid, place, xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS elsewhere FROM audit_progress
FOR UPDATE;

-- name: audit_unlinked
SELECT a.tenant, a.xid, a.xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS elsewhere, /*record_columns*/
FROM audit a
WHERE (a.xid, a.place) > (:xid::bigint, :place::bigint)
  AND (a.xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint OR a.xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
  AND NOT EXISTS (SELECT FROM audit_links l WHERE l.tenant = a.tenant AND l.place = a.place)
ORDER BY a.xid, a.place
LIMIT :quota::int;

-- part: record_columns
       a.place, a.at, a.actor, a.role, a.channel, a.request_id, a.action, a.kind, a.subject, a.job_id, a.reason, a.before, a.after

-- name: audit_strays
-- What has no link and stands where links have been made already, between two places.
SELECT /*record_columns*/
FROM audit a
WHERE a.tenant = :tenant AND a.place >= :low AND a.place <= :high AND (a.xid, a.place) <= (SELECT p.xid, p.place FROM audit_progress p)
  AND NOT EXISTS (SELECT FROM audit_links l WHERE l.tenant = a.tenant AND l.place = a.place)
ORDER BY a.place
LIMIT 1;

-- name: audit_waiting
SELECT count(*) AS n FROM audit a
WHERE (a.xid, a.place) > (coalesce((SELECT p.xid FROM audit_progress p), 0), coalesce((SELECT p.place FROM audit_progress p), 0))
  AND a.tenant = :tenant AND NOT EXISTS (SELECT FROM audit_links l WHERE l.tenant = a.tenant AND l.place = a.place);
