-- Keys, sessions and one-time links. Rare, so each is a plain statement that both engines share.

-- part: key_columns
k.id, k.tenant, t.name AS tenant_name, t.standing, k.role, k.name, k.hash, k.created_at, k.expires_at, k.revoked_at,
       k.prefix, k.pools, k.lasts, k.replaces, k.family, k.last_used_at,
       (SELECT n.id FROM keys n WHERE n.tenant = k.tenant AND n.replaces = k.id ORDER BY n.created_at DESC, n.id DESC LIMIT 1) AS replaced_by

-- name: key
SELECT /*key_columns*/
FROM keys k JOIN tenants t ON t.tenant = k.tenant
WHERE k.id = :id;

-- name: add_key
INSERT INTO keys (id, tenant, role, name, hash, created_at, expires_at, revoked_at, prefix, pools, lasts, replaces, family)
VALUES (:id, :tenant, :role, :name, :hash, :created_at, :expires_at, :revoked_at, :prefix, :pools, :lasts, :replaces, :family)
ON CONFLICT DO NOTHING
RETURNING id;

-- name: keys_of_tenant
SELECT /*key_columns*/
FROM keys k JOIN tenants t ON t.tenant = k.tenant
WHERE k.tenant = :tenant
ORDER BY k.created_at, k.id;

-- name: lock_keys
-- Whoever ends a key holds all of its tenant's, so that two who end one another's leave one.
SELECT id FROM keys WHERE tenant = :tenant ORDER BY id /*for update*/;

-- name: revoke_key
UPDATE keys SET revoked_at = :now WHERE tenant = :tenant AND id = :id AND revoked_at IS NULL;

-- name: end_key
UPDATE keys SET expires_at = :expires_at WHERE tenant = :tenant AND id = :id;

-- name: any_admin_key
SELECT id FROM keys WHERE tenant = :tenant AND role = 'ADMIN' AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now) LIMIT 1;

-- name: any_key
SELECT id FROM keys WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now) LIMIT 1;

-- name: touch_key
UPDATE keys SET last_used_at = :at WHERE id = :id AND (last_used_at IS NULL OR last_used_at < :at);

-- name: add_link
INSERT INTO login_links (hash, tenant, key_id, role, expires_at) VALUES (:hash, :tenant, :key_id, :role, :expires_at);

-- name: link
-- A look that takes no lock: what nobody made is refused without a write.
SELECT expires_at FROM login_links WHERE hash = :hash;

-- name: take_link
-- Used up, whoever took it: of two browsers one gets the row.
DELETE FROM login_links WHERE hash = :hash RETURNING tenant, key_id, role, expires_at;

-- name: add_session
INSERT INTO sessions (hash, tenant, key_id, role, created_at, used_at) VALUES (:hash, :tenant, :key_id, :role, :now, :now);

-- name: session
-- With the key that it came from: a session ends with it, and when its tenant has left.
SELECT s.hash, s.tenant, t.name AS tenant_name, s.key_id, s.role, s.created_at, s.used_at
FROM sessions s
JOIN keys k ON k.id = s.key_id AND k.tenant = s.tenant AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > :now)
JOIN tenants t ON t.tenant = s.tenant AND t.standing IN (0, 1)
WHERE s.hash = :hash;

-- name: touch_session
UPDATE sessions SET used_at = :at WHERE hash = :hash AND used_at < :at;

-- name: drop_session
DELETE FROM sessions WHERE hash = :hash RETURNING hash;

-- name: drop_links
DELETE FROM login_links WHERE expires_at <= :now;

-- name: drop_sessions
-- What has ended by itself, or with its key.
DELETE FROM sessions
WHERE used_at <= :idle_since OR created_at <= :begun_before
   OR NOT EXISTS (SELECT 1 FROM keys k WHERE k.id = sessions.key_id AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > :now));
