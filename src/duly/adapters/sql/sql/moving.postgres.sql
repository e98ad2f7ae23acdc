-- name: moving_audit
-- With its link: a chain that is whole here is whole there. `place` is part of what the links vouch for, and stays.
SELECT l.seq, l.hash, a.place, a.tenant, a.at, a.actor, a.role, a.channel, a.request_id, a.action, a.kind, a.subject, a.job_id, a.reason, a.before,
       a.after
FROM audit_links l JOIN audit a ON a.tenant = l.tenant AND a.place = l.place
WHERE l.tenant = :tenant AND l.seq > :after
ORDER BY l.seq
LIMIT :quota;

-- name: move_audit
INSERT INTO audit (place, tenant, at, actor, role, channel, request_id, action, kind, subject, job_id, reason, before, after)
OVERRIDING SYSTEM VALUE
VALUES (:place, :tenant, :at, :actor, :role, :channel, :request_id, :action, :kind, :subject, :job_id, :reason, :before, :after)
ON CONFLICT DO NOTHING;

-- name: move_audit_link
INSERT INTO audit_links (tenant, seq, place, hash)
VALUES (:tenant, :seq, :place, :hash)
ON CONFLICT DO NOTHING;

-- name: move_audit_head
INSERT INTO audit_heads AS h (tenant, seq, hash, anchor_seq, anchor_hash, anchor_at)
VALUES (:tenant, :seq, :hash, :anchor_seq, :anchor_hash, :anchor_at)
ON CONFLICT (tenant) DO UPDATE
SET seq = excluded.seq, hash = excluded.hash, anchor_seq = excluded.anchor_seq, anchor_hash = excluded.anchor_hash, anchor_at = excluded.anchor_at
WHERE h.seq < excluded.seq;
