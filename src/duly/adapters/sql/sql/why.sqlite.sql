-- What SQLite says in its own words about workers.

-- name: drain_worker
UPDATE workers SET about = json_set(about, '$.draining', json('true')) WHERE id = :worker AND lost_at IS NULL;
