-- What PostgreSQL says in its own words about workers.

-- name: drain_worker
UPDATE workers SET about = (about::jsonb || '{"draining": true}')::json WHERE id = :worker AND lost_at IS NULL;
