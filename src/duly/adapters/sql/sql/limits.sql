-- Limits as rows. Whoever lets somebody through a gate holds the gate's row, so a limit is exact; who leaves only deletes.

-- name: make_gate
-- The newest version of a job says how wide its gates are.
INSERT INTO gates AS g (gate, tenant, shard, capacity, lasts, about) VALUES (:gate, :tenant, :shard, :capacity, :lasts, :about)
ON CONFLICT (gate) DO NOTHING;

-- name: set_gate
UPDATE gates SET capacity = :capacity, lasts = :lasts
WHERE gate = :gate AND (capacity <> :capacity OR coalesce(lasts, 0) <> coalesce(CAST(:lasts AS bigint), 0));

-- name: hold_gate
-- No row: it was cleared away since we looked. Whoever clears away waits for us, or we for them.
SELECT gate FROM gates WHERE gate = :gate
/*postgres: FOR KEY SHARE*/;

-- name: add_gate_wait
INSERT INTO gate_waits (gate, rank, id) VALUES (:gate, :rank, :id);

-- name: lock_gate
SELECT gate, capacity, lasts FROM gates WHERE gate = :gate
/*postgres: FOR NO KEY UPDATE*/;

-- name: drop_expired_slots
-- Past its time, or beyond all sense: a period that began before the store's clock was set back would last for hours. By a minute more
-- than a period can be ahead, because a call that was held up on its way goes by a time that is over.
DELETE FROM slots WHERE gate = :gate AND (until <= :now OR until > :now + 2 * lasts + 60000000);

-- name: count_slots
-- Counted after the gate is locked, by a statement of its own: a snapshot from before the lock would not see who came in since.
SELECT count(*) AS n FROM slots WHERE gate = :gate AND (until IS NULL OR (until > :now AND until <= :now + 2 * lasts + 60000000));

-- name: next_at_gate
-- In the order of their ranks. Whom a cancel holds at this moment is left to it.
SELECT w.id, w.rank, b.route, b.tenant, b.attempt, b.failures, e.gates
FROM gate_waits w
JOIN blocked b ON b.id = w.id
JOIN executions e ON e.id = w.id
WHERE w.gate = :gate
ORDER BY w.rank, w.id
LIMIT :quota
/*postgres: FOR UPDATE OF w, b SKIP LOCKED*/;

-- name: leave_gate_queue
DELETE FROM gate_waits WHERE gate = :gate AND rank = :rank AND id = :id;

-- name: drop_gate_waits
DELETE FROM gate_waits WHERE id = :id;

-- name: add_slot
INSERT INTO slots (gate, id, attempt, lasts) VALUES (:gate, :id, :attempt, :lasts);

-- name: somebody_waits
SELECT 1 AS waits FROM gate_waits WHERE gate = :gate LIMIT 1;

-- name: next_free_slot
-- When time frees a slot of a rate, and whether one waits for a worker: its period has not even begun.
SELECT min(until) AS at, count(*) - count(until) AS unstarted FROM slots WHERE gate = :gate;

-- name: look_at_gate
UPDATE gates SET look_at = :look_at WHERE gate = :gate AND coalesce(look_at, 0) <> coalesce(CAST(:look_at AS bigint), 0);

-- name: has_slots
-- Most have a place and no limits: one look, instead of two writes that find nothing.
SELECT 1 AS one FROM slots WHERE id = :id LIMIT 1;

-- name: drop_slots
-- The attempt has ended, or will never begin: what it held is free. A rate keeps its slot for a period from the start.
DELETE FROM slots WHERE id = :id AND (lasts IS NULL OR (until IS NULL AND CAST(:started_at AS bigint) IS NULL)) RETURNING gate;

-- name: time_slots
UPDATE slots SET until = CAST(:started_at AS bigint) + lasts
WHERE id = :id AND attempt = :attempt AND lasts IS NOT NULL AND (until IS NULL OR until < CAST(:started_at AS bigint) + lasts);

-- name: stuck_gates
-- Gates with room that somebody waits for: a crash between the end of one and the start of the next.
WITH RECURSIVE step AS (
    SELECT (SELECT gate FROM gate_waits ORDER BY gate LIMIT 1) AS gate
    UNION ALL
    SELECT (SELECT gate FROM gate_waits WHERE gate > step.gate ORDER BY gate LIMIT 1) FROM step WHERE step.gate IS NOT NULL
)
SELECT g.gate FROM step JOIN gates g ON g.gate = step.gate
WHERE (SELECT count(*) FROM slots s WHERE s.gate = g.gate AND (s.until IS NULL OR (s.until > :now AND s.until <= :now + 2 * s.lasts + 60000000))) < g.capacity
LIMIT :quota;

-- name: stale_slots
DELETE FROM slots
WHERE until <= :now
   OR until > :now + 2 * lasts + 60000000
   OR (until IS NULL AND EXISTS (SELECT 1 FROM outcomes o WHERE o.id = slots.id AND o.finished_at + coalesce(slots.lasts, 0) <= :now))
RETURNING gate;

-- name: idle_gates
-- Candidates for clearing away, locked; they are looked at again by a younger snapshot before they go.
SELECT gate FROM gates g
WHERE NOT kept AND NOT EXISTS (SELECT 1 FROM gate_waits w WHERE w.gate = g.gate) AND NOT EXISTS (SELECT 1 FROM slots s WHERE s.gate = g.gate)
LIMIT :quota
/*postgres: FOR UPDATE SKIP LOCKED*/;

-- name: drop_gate
DELETE FROM gates
WHERE gate = :gate AND NOT EXISTS (SELECT 1 FROM gate_waits w WHERE w.gate = gates.gate) AND NOT EXISTS (SELECT 1 FROM slots s WHERE s.gate = gates.gate);
