-- The audit trail: appended with each change, linked afterwards, read by people. Nothing here changes a row of `audit`.

-- name: audit_append
-- One deed, in the transaction of what it records.
INSERT INTO audit (tenant, at, actor, role, channel, request_id, action, kind, subject, job_id, reason, before, after)
VALUES (:tenant, :at, :actor, :role, :channel, :request_id, :action, :kind, :subject, :job_id, :reason, :before, :after);

-- ---------------------------------------------------------------- reading

-- part: record_columns
       a.place, a.at, a.actor, a.role, a.channel, a.request_id, a.action, a.kind, a.subject, a.job_id, a.reason, a.before, a.after

-- part: record_filters
       (CAST(:actor AS text) IS NULL OR a.actor = CAST(:actor AS text))
  AND (CAST(:action AS text) IS NULL OR substr(a.action, 1, length(CAST(:action AS text))) = CAST(:action AS text))
  AND (CAST(:channel AS text) IS NULL OR a.channel = CAST(:channel AS text))
  AND a.at >= :since AND a.at <= :until

-- name: audit_newest
SELECT /*record_columns*/, l.seq, l.hash
FROM audit a
LEFT JOIN audit_links l ON l.tenant = a.tenant AND l.place = a.place
WHERE a.tenant = :tenant AND a.place < :past AND /*record_filters*/
ORDER BY a.place DESC
LIMIT :quota;

-- name: audit_oldest
SELECT /*record_columns*/, l.seq, l.hash
FROM audit a
LEFT JOIN audit_links l ON l.tenant = a.tenant AND l.place = a.place
WHERE a.tenant = :tenant AND a.place > :past AND /*record_filters*/
ORDER BY a.place
LIMIT :quota;

-- name: audit_newest_of_subject
SELECT /*record_columns*/, l.seq, l.hash
FROM audit a
LEFT JOIN audit_links l ON l.tenant = a.tenant AND l.place = a.place
WHERE a.tenant = :tenant AND a.subject = :subject AND a.place < :past AND /*record_filters*/
ORDER BY a.place DESC
LIMIT :quota;

-- name: audit_oldest_of_subject
SELECT /*record_columns*/, l.seq, l.hash
FROM audit a
LEFT JOIN audit_links l ON l.tenant = a.tenant AND l.place = a.place
WHERE a.tenant = :tenant AND a.subject = :subject AND a.place > :past AND /*record_filters*/
ORDER BY a.place
LIMIT :quota;

-- name: audit_newest_of_job
SELECT /*record_columns*/, l.seq, l.hash
FROM audit a
LEFT JOIN audit_links l ON l.tenant = a.tenant AND l.place = a.place
WHERE a.tenant = :tenant AND a.job_id = :job_id AND a.place < :past AND /*record_filters*/
  AND (CAST(:subject AS text) IS NULL OR a.subject = CAST(:subject AS text))
ORDER BY a.place DESC
LIMIT :quota;

-- name: audit_oldest_of_job
SELECT /*record_columns*/, l.seq, l.hash
FROM audit a
LEFT JOIN audit_links l ON l.tenant = a.tenant AND l.place = a.place
WHERE a.tenant = :tenant AND a.job_id = :job_id AND a.place > :past AND /*record_filters*/
  AND (CAST(:subject AS text) IS NULL OR a.subject = CAST(:subject AS text))
ORDER BY a.place
LIMIT :quota;

-- name: audit_stretch
-- Links in order, each with its record; a record that is gone leaves its link.
SELECT l.seq, l.hash, l.place AS linked, /*record_columns*/
FROM audit_links l
LEFT JOIN audit a ON a.tenant = l.tenant AND a.place = l.place
WHERE l.tenant = :tenant AND l.seq > :after
ORDER BY l.seq
LIMIT :quota;

-- name: audit_link
SELECT hash, place FROM audit_links WHERE tenant = :tenant AND seq = :seq;

-- name: audit_head
SELECT seq, hash, anchor_seq, anchor_hash, anchor_at FROM audit_heads WHERE tenant = :tenant;

-- ---------------------------------------------------------------- linking

-- name: audit_begin
INSERT INTO audit_progress (xid, place) VALUES (0, 0) ON CONFLICT DO NOTHING;

-- name: audit_lock_head
SELECT seq, hash, anchor_seq, anchor_hash, anchor_at FROM audit_heads WHERE tenant = :tenant
/*for update*/;

-- name: audit_add_link
INSERT INTO audit_links (tenant, seq, place, hash) VALUES (:tenant, :seq, :place, :hash);

-- name: audit_set_head
INSERT INTO audit_heads (tenant, seq, hash, anchor_hash) VALUES (:tenant, :seq, :hash, :anchor_hash)
ON CONFLICT (tenant) DO UPDATE SET seq = excluded.seq, hash = excluded.hash;

-- name: audit_set_progress
UPDATE audit_progress SET xid = :xid, place = :place;

-- ---------------------------------------------------------------- forgetting

-- name: audit_heads
SELECT tenant FROM audit_heads WHERE seq > anchor_seq ORDER BY tenant;

-- name: audit_set_anchor
UPDATE audit_heads SET anchor_seq = :seq, anchor_hash = :hash, anchor_at = :at WHERE tenant = :tenant;

-- name: audit_drop_records
DELETE FROM audit
WHERE tenant = :tenant AND place IN (SELECT l.place FROM audit_links l WHERE l.tenant = :tenant AND l.seq <= :seq);

-- name: audit_drop_links
DELETE FROM audit_links WHERE tenant = :tenant AND seq <= :seq;
