-- What SQLite says in its own words about workers.

-- name: drain_worker
UPDATE workers SET about = json_set(about, '$.draining', json('true')) WHERE id = :worker AND lost_at IS NULL;

-- name: tell_skew
-- Not with every heartbeat, but when it has changed: the row is wide.
UPDATE workers SET about = json_set(about, '$.skew', :skew) WHERE id = :worker AND lost_at IS NULL;
