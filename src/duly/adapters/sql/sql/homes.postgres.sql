-- name: hold_tenant
SELECT duly_hold_tenant(:tenant::int, :what::text) AS done;

-- name: release_tenant
SELECT duly_release_tenant(:tenant::int) AS done;

-- name: highest_fence
-- What was ever given, not what is held.
SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS fence FROM leases_lease_id_seq;

-- name: lift_fence
-- A fence only grows, also for whoever was fenced by the other store's.
SELECT setval('leases_lease_id_seq', greatest(:fence::bigint, (SELECT last_value FROM leases_lease_id_seq)));

-- name: lift_places
SELECT setval('audit_place_seq', greatest(:place::bigint, (SELECT last_value FROM audit_place_seq)));
