-- The outbox on both engines: who publishes, and when nobody does any more.

-- name: herald_take
-- One herald at a time: this one, if it is the one, or if the last has not been seen for long.
INSERT INTO heralds (herald, owner, until, seen_at) VALUES (1, :owner, :until, :now)
ON CONFLICT (herald) DO UPDATE SET owner = excluded.owner, until = excluded.until, seen_at = excluded.seen_at
WHERE heralds.owner = excluded.owner OR heralds.until <= excluded.seen_at
RETURNING owner;

-- name: herald_leave
UPDATE heralds SET until = 0 WHERE owner = :owner;

-- name: herald_lapse
-- Nobody has published since then.
DELETE FROM heralds WHERE seen_at < :before RETURNING owner;

-- name: herald_is_gone
SELECT owner FROM heralds WHERE seen_at < :before;

-- name: outbox_empty
DELETE FROM outbox;
