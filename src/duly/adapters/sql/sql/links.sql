-- Links: badges and calendars for those who have no key.

-- name: add_address
INSERT INTO links (id, tenant, kind, job_id, hash, created_at, created_by, expires_at)
VALUES (:id, :tenant, :kind, :job_id, :hash, :created_at, :created_by, :expires_at);

-- name: address
SELECT l.*, t.name AS tenant_name FROM links l JOIN tenants t ON t.tenant = l.tenant WHERE l.id = :id AND t.standing = 0;

-- name: addresses
SELECT l.*, t.name AS tenant_name FROM links l JOIN tenants t ON t.tenant = l.tenant WHERE l.tenant = :tenant ORDER BY l.id;

-- name: revoke_address
UPDATE links SET revoked_at = :now WHERE id = :id AND tenant = :tenant AND revoked_at IS NULL RETURNING id;
