-- The desk: what the server asks for workers that come over HTTP.

-- name: worker
SELECT id, name, started_at, expires_at, lost_at, about, tenant, family, 0 AS running FROM workers WHERE id = :worker;

-- name: leases_of
SELECT lease_id FROM leases WHERE worker = :worker ORDER BY lease_id;
