-- What PostgreSQL says in its own words about workers.

-- name: drain_worker
UPDATE workers SET about = (about::jsonb || '{"draining": true}')::json WHERE id = :worker AND lost_at IS NULL;

-- name: tell_skew
-- Not with every heartbeat, but when it has changed: the row is wide.
UPDATE workers SET about = (about::jsonb || jsonb_build_object('skew', :skew::bigint))::json WHERE id = :worker AND lost_at IS NULL;
