-- The fleet: shards and their owners, dispatchers, workers and their life.

-- name: shards
SELECT shard, epoch, owner, lease_until, progress_at FROM shards ORDER BY shard;

-- name: glance
-- The shards of others, and whether their work is late. Only what was due lately counts: what has been due for longer has waited for leases
-- before, and under an old snapshot each look would walk past all that was fired since.
SELECT s.shard, s.epoch, s.owner, s.lease_until, s.progress_at,
       EXISTS (SELECT 1 FROM schedules d WHERE d.shard = s.shard AND NOT d.paused AND d.next_fire_at BETWEEN :since AND :until)
       OR EXISTS (SELECT 1 FROM timers d WHERE d.shard = s.shard AND d.due_at BETWEEN :since AND :until) AS is_late
FROM shards s
WHERE s.owner IS NULL OR s.owner <> :but
ORDER BY s.shard;

-- name: announce_dispatcher
INSERT INTO dispatchers (name, expires_at, about) VALUES (:name, :expires_at, :about)
ON CONFLICT (name) DO UPDATE SET expires_at = excluded.expires_at, about = excluded.about;

-- name: dispatchers
SELECT name FROM dispatchers WHERE expires_at > :now AND expires_at <= :beyond_sense ORDER BY name;

-- name: dispatchers_about
SELECT name, expires_at, about FROM dispatchers WHERE expires_at > :now ORDER BY name;

-- name: drop_dispatchers
DELETE FROM dispatchers WHERE name = :name OR expires_at <= :long_ago;

-- name: take_shard
-- Owns a shard under a new epoch, unless somebody was faster or its owner has stirred since it was seen.
UPDATE shards
SET epoch = epoch + 1, owner = :owner, lease_until = :lease_until, progress_at = :now
WHERE shard = :shard AND epoch = :seen_epoch
  AND progress_at = :seen_progress
RETURNING epoch;

-- name: stir_shard
UPDATE shards SET progress_at = :now WHERE shard = :shard AND owner = :owner;

-- name: renew_shards
-- Holds on to everything this owner has, and shows progress. A dispatcher's name is new at every start.
UPDATE shards SET lease_until = :lease_until, progress_at = :now
WHERE owner = :owner
RETURNING shard, epoch;

-- name: release_shard
UPDATE shards SET lease_until = 0, owner = NULL
WHERE shard = :shard AND epoch = :epoch AND owner = :owner;

-- name: register_worker
INSERT INTO workers (name, started_at, expires_at, about, tenant, family)
VALUES (:name, :now, :expires_at, :about, :tenant, :family)
RETURNING id;

-- name: offers
-- Read for what comes in: without a count of what each of them runs.
SELECT about FROM workers WHERE lost_at IS NULL AND expires_at > :now AND coalesce(tenant, :tenant) = :tenant;

-- name: renew_worker
-- No row: the worker is lost, its leases are gone or going; it stops its handlers. A renewal that arrives after a younger one
-- shortens nothing, because the worker trusts the younger one by then; but a life beyond all sense (the store's clock was set
-- back) is brought down.
UPDATE workers
SET expires_at = CASE WHEN expires_at > :expires_at AND expires_at <= :beyond_sense THEN expires_at ELSE :expires_at END
WHERE id = :worker AND lost_at IS NULL AND expires_at > :now
RETURNING id;

-- name: retire_worker
UPDATE workers SET lost_at = :now WHERE id = :worker AND lost_at IS NULL;

-- name: bury_workers
-- Past its time, a worker is lost for good, so that it cannot renew while its leases are taken away. So is one that would live
-- beyond all sense: it fell silent before the store's clock was set back, and would be waited for as long.
UPDATE workers SET lost_at = :now
WHERE lost_at IS NULL AND (expires_at <= :now OR expires_at > :now + 2 * CAST(about ->> 'ttl' AS bigint))
RETURNING id;

-- name: drop_workers
-- Workers that are long gone and hold nothing.
DELETE FROM workers WHERE lost_at < :long_ago AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.worker = workers.id);

-- name: migrations_applied
SELECT number FROM duly_migrations ORDER BY number;
