-- The ledger on PostgreSQL. `:name` is a parameter; each guard stands in a WHERE. Four rules keep these right:
--   1. READ COMMITTED. One statement has one snapshot, taken before it waits for any lock. Whatever must see what a lock
--      protected is a second statement in the same transaction (sweep), or after it (passing places on).
--   2. Whoever writes for a worker locks the lease row FOR SHARE; whoever takes it away locks it FOR UPDATE.
--   3. Rows of one table are locked in key order.
--   4. Whatever goes back to waiting goes through `timers`, and promotion reads `cancels`.
--
-- /*again*/ is a seam. `enqueue`, `fire` and `finish` are sent without it; when one fails with unique_violation (part of it
-- was written before, its answer was lost), nothing of it is committed, and it is sent as `…_again`, in which the seam reads
-- ON CONFLICT DO NOTHING. That clause on every insert costs 3 us a row, so the rare case pays for it.

-- ---------------------------------------------------------------- submit

-- part: and_record
), recorded AS (
    INSERT INTO audit (tenant, at, actor, role, channel, request_id, action, kind, subject, job_id, reason, before, after)
    SELECT tenant, at, actor, role, channel, request_id, action, kind, subject, job_id, reason, before, after
    FROM unnest(:firsts::uuid[], :d_tenant::int[], :d_at::bigint[], :d_actor::text[], :d_role::text[], :d_channel::text[], :d_request_id::text[],
                :d_action::text[], :d_kind::text[], :d_subject::text[], :d_job_id::uuid[], :d_reason::text[], :d_before::text[],
                :d_after::text[])
         AS d (first, tenant, at, actor, role, channel, request_id, action, kind, subject, job_id, reason, before, after)
    WHERE d.first IN (SELECT id FROM submitted)
)

-- name: enqueue
-- Headers, then ready for what is due and timers for the rest. Idempotent by id: ready and timers follow only from
-- headers that are new; so does the record of each call, found by its first id.
WITH submitted AS (
    INSERT INTO executions (id, job_id, job_version, tenant, route, trigger, due_at, rank, created_at, payload)
    SELECT id, job_id, job_version, tenant, route, trigger, due_at, rank, :now::bigint, payload
    FROM unnest(:ids::uuid[], :job_ids::uuid[], :job_versions::bigint[], :tenants::int[], :routes::int[], :triggers::smallint[],
                :due_ats::bigint[], :ranks::bigint[], :payloads::json[])
         AS f (id, job_id, job_version, tenant, route, trigger, due_at, rank, payload)
    /*again*/
    RETURNING id, tenant, route, due_at, rank, job_version, payload, coalesce(octet_length(payload::text), 0) <= 500 AS is_small
), made_ready AS (
    INSERT INTO ready (route, tenant, rank, id, attempt, failures, job_version, due_at, holds_place, payload)
    SELECT route, tenant, rank, id, 1, 0, CASE WHEN is_small THEN job_version END, due_at, false, CASE WHEN is_small THEN payload END
    FROM submitted WHERE due_at <= :now::bigint
), made_timer AS (
    INSERT INTO timers (id, shard, due_at, route, tenant, rank, attempt, failures)
    SELECT s.id, f.shard, s.due_at, s.route, s.tenant, s.rank, 1, 0
    FROM submitted s JOIN unnest(:later_ids::uuid[], :later_shards::smallint[]) AS f (id, shard) ON f.id = s.id
    WHERE s.due_at > :now::bigint
/*and_record*/
SELECT count(*) AS n FROM submitted;

-- part: ready_alike
    RETURNING id, payload, coalesce(octet_length(payload::text), 0) <= 500 AS is_small
), made_ready AS (
    INSERT INTO ready (route, tenant, rank, id, attempt, failures, job_version, due_at, holds_place, payload)
    SELECT :route::int, :tenant::int, :rank::bigint, id, 1, 0, CASE WHEN is_small THEN :job_version::bigint END, :due_at::bigint, false,
           CASE WHEN is_small THEN payload END
    FROM submitted

-- name: enqueue_alike
-- The same for many that differ only in their payload, and are due: what they share is sent once, and the payloads are one document (NULL:
-- nobody has one).
WITH submitted AS (
    INSERT INTO executions (id, job_id, job_version, tenant, route, trigger, due_at, rank, created_at, payload)
    SELECT f.id, :job_id::uuid, :job_version::bigint, :tenant::int, :route::int, :trigger::smallint, :due_at::bigint, :rank::bigint, :now::bigint, f.payload
    FROM ROWS FROM (unnest(:ids::uuid[]), json_array_elements(:payloads::json)) AS f (id, payload)
    /*again*/
/*ready_alike*/
/*and_record*/
SELECT count(*) AS n FROM submitted;

-- name: add_items
-- The same for items of one mapped step of a workflow: they differ in their ids, their payloads and their numbers alone.
WITH submitted AS (
    INSERT INTO executions (id, job_id, job_version, tenant, route, trigger, due_at, rank, created_at, payload, run, step, nth)
    SELECT id, :job_id::uuid, :job_version::bigint, :tenant::int, :route::int, 5, :due_at::bigint, :rank::bigint, :now::bigint, payload,
           :run::uuid, :step::smallint, :first::int + nth::int - 1
    FROM ROWS FROM (unnest(:ids::uuid[]), json_array_elements(:payloads::json)) WITH ORDINALITY AS f (id, payload, nth)
    ON CONFLICT DO NOTHING
/*ready_alike*/
)
SELECT count(*) AS count FROM submitted;

-- name: create_jobs
-- A batch of new jobs in one statement (three round trips a job took 14 s for 10,000). `taken`: a live job has that name.
WITH wanted AS MATERIALIZED (
    SELECT *
    FROM unnest(:ids::uuid[], :tenants::int[], :names::text[], :routes::int[], :max_attempts::smallint[], :definitions::json[], :shards::smallint[],
                :next_ats::bigint[])
         AS f (id, tenant, name, route, max_attempts, definition, shard, next_at)
), version AS (
    INSERT INTO job_versions (job_id, version, route, max_attempts, definition, created_at)
    SELECT id, 1, route, max_attempts, definition, :now::bigint FROM wanted
    RETURNING id, job_id
), created AS (
    INSERT INTO jobs (id, tenant, name, state, version, created_at)
    SELECT w.id, w.tenant, w.name, 0, v.id, :now::bigint FROM wanted w JOIN version v ON v.job_id = w.id
    ON CONFLICT DO NOTHING
    RETURNING id
), scheduled AS (
    INSERT INTO schedules (job_id, shard, next_fire_at, version, paused)
    SELECT w.id, w.shard, w.next_at, v.id, false FROM wanted w JOIN version v ON v.job_id = w.id WHERE w.next_at IS NOT NULL
)
SELECT w.name, v.job_id, v.id AS number, w.id NOT IN (SELECT id FROM created) AS taken FROM wanted w JOIN version v ON v.job_id = w.id;

-- ---------------------------------------------------------------- dispatch

-- part: flush_later
-- Whatever a crash takes back of this, the same dispatcher or another does again, to the same end: nothing was said about it to anybody, and
-- the claim of what it made ready is flushed together with it. So nobody waits for the disk here.
set_config('synchronous_commit', 'off', true)

-- name: due_schedules
SELECT s.job_id, s.shard, s.next_fire_at, s.version, s.skip_at, s.skip_by
FROM unnest(:shards::smallint[]) AS mine (shard)
CROSS JOIN LATERAL (
    SELECT job_id, shard, next_fire_at, version, skip_at, skip_by
    FROM schedules
    WHERE shard = mine.shard AND NOT paused AND next_fire_at > :since::bigint AND next_fire_at <= :now::bigint
    ORDER BY next_fire_at
    LIMIT :quota::int
) s;

-- name: upcoming
SELECT DISTINCT u.at, mine.shard
FROM unnest(:shards::smallint[]) AS mine (shard)
CROSS JOIN LATERAL (
    (SELECT next_fire_at AS at FROM schedules
     WHERE shard = mine.shard AND NOT paused AND next_fire_at > :after::bigint AND next_fire_at <= :until::bigint
     ORDER BY next_fire_at LIMIT :quota::int)
    UNION ALL
    (SELECT due_at AS at FROM timers
     WHERE shard = mine.shard AND due_at > :after::bigint AND due_at <= :until::bigint
     ORDER BY due_at LIMIT :quota::int)
    UNION ALL
    (SELECT look_at AS at FROM gates
     WHERE shard = mine.shard AND look_at > :after::bigint AND look_at <= :until::bigint
     ORDER BY look_at LIMIT :quota::int)
) u
ORDER BY u.at, mine.shard
LIMIT :quota::int;

-- name: owned_shard
-- Shared, until the fires of one row at a time have committed: nobody takes the shard meanwhile.
SELECT shard FROM shards WHERE shard = :shard AND epoch = :epoch
FOR SHARE;

-- name: fire
-- One batch of fires. Only schedules that still stand where we read them, in shards whose epoch is still ours; the computed
-- ids catch the rest. A schedule advances once and may fire several times (catch-up) or only record what it skips. A job
-- that may not overlap runs only if it gets its place: the primary key of `places` decides, whoever else fires at that moment.
WITH mine AS MATERIALIZED (
    SELECT s.shard
    FROM shards s
    JOIN unnest(:shards::smallint[], :epochs::bigint[]) AS o (shard, epoch) ON s.shard = o.shard AND s.epoch = o.epoch
    ORDER BY s.shard
    FOR SHARE OF s
), advanced AS (
    UPDATE schedules s
    SET next_fire_at = a.next_at
    FROM unnest(:job_ids::uuid[], :versions::bigint[], :read_ats::bigint[], :next_ats::bigint[], :skip_ats::bigint[])
         AS a (job_id, version, read_at, next_at, skip_at)
    WHERE s.job_id = a.job_id AND s.next_fire_at = a.read_at AND s.version = a.version AND NOT s.paused
      AND s.skip_at IS NOT DISTINCT FROM a.skip_at
      AND (s.shard IN (SELECT shard FROM mine)) IS TRUE
    RETURNING s.job_id, s.next_fire_at
), completed AS (
    UPDATE jobs j SET state = 2, changed_at = :now::bigint FROM advanced a WHERE j.id = a.job_id AND j.state <> 3 AND a.next_fire_at >= :never::bigint
), header AS (
    INSERT INTO executions (id, job_id, job_version, tenant, route, trigger, holds_place, skip_reason, due_at, rank, created_at, scheduled_at)
    SELECT id, job_id, job_version, tenant, route, 0, holds_place, skip_reason, fire_at + delay, rank, :now::bigint, CASE WHEN delay > 0 THEN fire_at END
    FROM unnest(:ids::uuid[], :fire_jobs::uuid[], :fire_ats::bigint[], :fire_versions::bigint[], :tenants::int[], :routes::int[], :ranks::bigint[],
                :holds_places::boolean[], :skip_reasons::smallint[], :delays::bigint[])
         AS f (id, job_id, fire_at, job_version, tenant, route, rank, holds_place, skip_reason, delay)
    WHERE (job_id IN (SELECT job_id FROM advanced)) IS TRUE
    /*again*/
    RETURNING id, job_id, job_version, tenant, route, rank, holds_place, skip_reason, due_at, scheduled_at
), placed AS (
    INSERT INTO places (job_id, place, id)
    SELECT job_id, 0, id FROM header h
    WHERE holds_place AND skip_reason IS NULL
      AND (SELECT p.place FROM places p WHERE p.job_id = h.job_id AND p.place > 0 LIMIT 1) IS NULL
    ORDER BY job_id, id
    ON CONFLICT DO NOTHING
    RETURNING id
), entering AS MATERIALIZED (
    SELECT * FROM header WHERE skip_reason IS NULL AND (NOT holds_place OR id IN (SELECT id FROM placed))
), made_ready AS (
    INSERT INTO ready (route, tenant, rank, id, attempt, failures, job_version, due_at, holds_place)
    -- One that stands for another time than it is due is looked up: a row does not carry that time.
    SELECT route, tenant, rank, id, 1, 0, CASE WHEN scheduled_at IS NULL THEN job_version END, due_at, holds_place
    FROM entering WHERE due_at <= :now::bigint
), made_timer AS (
    INSERT INTO timers (id, shard, due_at, route, tenant, rank, attempt, failures)
    SELECT e.id, f.shard, e.due_at, e.route, e.tenant, e.rank, 1, 0
    FROM entering e JOIN unnest(:later_ids::uuid[], :later_shards::smallint[]) AS f (id, shard) ON f.id = e.id
    WHERE e.due_at > :now::bigint
), skipped AS (
    INSERT INTO outcomes (id, state, attempt, finished_at, error)
    SELECT id, 7, 0, :now::bigint, json_build_object('reason', CASE skip_reason WHEN 2 THEN 'misfire' ELSE 'overlap' END)
    FROM header WHERE skip_reason IS NOT NULL OR (holds_place AND id NOT IN (SELECT id FROM placed))
    RETURNING id
)
SELECT f.*, CASE WHEN f.skipped = 0 THEN /*flush_later*/ END AS flush
FROM (
    SELECT (SELECT count(*) FROM advanced) AS advanced, (SELECT count(*) FROM header) AS fired, (SELECT count(*) FROM skipped) AS skipped,
           (SELECT count(*) FROM header WHERE skip_reason = 2) AS misfired
) f;

-- name: promote
-- Due timers become ready, or wait at their first gate; a cancelled one becomes final instead. Only shards that have something due are
-- locked: most looks find one or none, and to lock all of them is a write for each. `looked`: gates whose time to be looked at has come.
WITH mine AS MATERIALIZED (
    SELECT s.shard
    FROM shards s
    JOIN unnest(:shards::smallint[], :epochs::bigint[]) AS o (shard, epoch) ON s.shard = o.shard AND s.epoch = o.epoch
    WHERE (SELECT due_at FROM timers t WHERE t.shard = s.shard AND t.due_at > :since::bigint AND t.due_at <= :now::bigint ORDER BY t.due_at LIMIT 1) IS NOT NULL
    ORDER BY s.shard
    FOR SHARE OF s
), due AS MATERIALIZED (
    SELECT t.ctid AS tid
    FROM mine
    CROSS JOIN LATERAL (
        SELECT ctid FROM timers
        WHERE shard = mine.shard AND due_at > :since::bigint AND due_at <= :now::bigint
        ORDER BY due_at
        LIMIT :quota::int
        FOR UPDATE SKIP LOCKED
    ) t
), left_timers AS (
    DELETE FROM timers WHERE ctid = ANY (ARRAY(SELECT tid FROM due)) RETURNING id, route, tenant, rank, attempt, failures, gated
), stopped AS (
    SELECT t.id, t.attempt, c.asked_by FROM left_timers t JOIN cancels c ON c.id = t.id
), made_final AS (
    INSERT INTO outcomes (id, state, attempt, finished_at, error)
    SELECT id, 6, attempt - 1, :now::bigint, json_build_object('reason', 'cancelled', 'by', asked_by) FROM stopped
), freed_places AS (
    DELETE FROM places p USING stopped s JOIN executions e ON e.id = s.id
    WHERE e.holds_place AND p.job_id = e.job_id AND p.id = e.id
    RETURNING p.job_id
), made_ready AS (
    INSERT INTO ready (route, tenant, rank, id, attempt, failures)
    SELECT route, tenant, rank, id, attempt, failures FROM left_timers WHERE NOT gated AND id NOT IN (SELECT id FROM stopped)
), at_gate AS MATERIALIZED (
    SELECT t.*, e.gate
    FROM left_timers t
    CROSS JOIN LATERAL (SELECT gates[1] AS gate FROM executions WHERE id = t.id OFFSET 0) e
    WHERE t.gated AND t.id NOT IN (SELECT id FROM stopped)
), gated AS (
    INSERT INTO blocked (id, reason, route, tenant, rank, attempt, failures)
    SELECT id, 1, route, tenant, rank, attempt, failures FROM at_gate
), waiting AS (
    INSERT INTO gate_waits (gate, rank, id) SELECT gate, rank, id FROM at_gate
)
SELECT count(*) AS moved, (SELECT count(*) FROM stopped) AS cancelled, CASE WHEN NOT EXISTS (SELECT FROM stopped) THEN /*flush_later*/ END AS flush,
       array_agg(DISTINCT route) FILTER (WHERE id NOT IN (SELECT id FROM stopped)) AS routes,
       (SELECT array_agg(job_id) FROM freed_places) AS freed,
       (SELECT array_agg(DISTINCT gate) FROM at_gate) AS gates,
       (SELECT array_agg(g.gate)
        FROM unnest(:shards::smallint[]) AS own (shard)
        CROSS JOIN LATERAL (SELECT gate FROM gates WHERE shard = own.shard AND look_at <= :now::bigint LIMIT :quota::int) g) AS looked
FROM left_timers;

-- name: note_starts
-- Of a rate: the period of a slot begins when its attempt is taken by a worker.
UPDATE slots s SET until = l.granted_at + s.lasts
FROM leases l CROSS JOIN LATERAL unnest(l.ids, l.attempts) AS m (id, attempt)
WHERE s.gate = :gate AND s.until IS NULL AND s.lasts IS NOT NULL AND m.id = s.id AND m.attempt = s.attempt;

-- name: known_executions
SELECT id FROM executions WHERE id = ANY (:ids::uuid[]);

-- ---------------------------------------------------------------- claim

-- name: work
-- Tenants that have ready work on these routes, each with the first of its queue: one probe per tenant, whatever the number of rows. Queues that
-- are known begin at the place that is given with them, and what is dead before it is not walked along: see domain/heads.py. A known one that
-- has nothing from there on is a step without a rank, because those behind it are looked for from it.
WITH known AS MATERIALIZED (
    SELECT k.route, k.tenant, k.rank, k.id
    FROM unnest(:known_routes::int[], :known_tenants::int[], :known_ranks::bigint[], :known_ids::uuid[]) AS k (route, tenant, rank, id)
)
SELECT r.route, w.tenant, t.weight, w.rank AS head, w.id AS first, w.depth,
       (extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000000)::bigint AS took
FROM unnest(:routes::int[]) AS r (route)
CROSS JOIN LATERAL (
    WITH RECURSIVE step AS (
        SELECT -2147483648 AS tenant, NULL::bigint AS rank, NULL::uuid AS id
        UNION ALL
        SELECT coalesce(n.tenant, k.tenant), coalesce(n.rank, h.rank), coalesce(n.id, h.id)
        FROM step s
        LEFT JOIN LATERAL (
            SELECT tenant, rank, id FROM known WHERE route = r.route AND tenant > s.tenant ORDER BY tenant LIMIT 1
        ) k ON true
        LEFT JOIN LATERAL (
            SELECT tenant, rank, id FROM ready
            WHERE route = r.route AND tenant > s.tenant AND tenant < coalesce(k.tenant, 2147483647)
            ORDER BY tenant, rank, id LIMIT 1
        ) n ON true
        LEFT JOIN LATERAL (
            SELECT rank, id FROM ready
            WHERE n.tenant IS NULL AND route = r.route AND tenant = k.tenant AND (rank, id) >= (k.rank, k.id)
            ORDER BY rank, id LIMIT 1
        ) h ON true
        WHERE n.tenant IS NOT NULL OR k.tenant IS NOT NULL
    )
    SELECT s.tenant, s.rank, s.id,
           (SELECT count(*) FROM (SELECT FROM ready WHERE route = r.route AND tenant = s.tenant AND (rank, id) >= (s.rank, s.id)
                                  ORDER BY rank, id LIMIT :counted_to::int) x) AS depth
    FROM step s WHERE s.rank IS NOT NULL
) w
JOIN tenants t ON t.tenant = w.tenant;

-- part: grant_taken
-- How both claims end: one new lease for what was taken, and the answer in arrays.
), last AS (
    SELECT rank, id FROM taken ORDER BY rank DESC, id DESC LIMIT 1
), known AS MATERIALIZED (
    SELECT id, attempt, failures, job_version, due_at, holds_place, NULL::bigint AS scheduled_at, payload FROM taken WHERE job_version IS NOT NULL
    UNION ALL
    SELECT t.id, t.attempt, t.failures, e.job_version, e.due_at, e.holds_place OR e.gates IS NOT NULL, e.scheduled_at, e.payload
    FROM taken t JOIN executions e ON e.id = t.id
    WHERE t.job_version IS NULL
), found AS MATERIALIZED (
    SELECT array_agg(id) AS ids, array_agg(attempt) AS attempts, array_agg(failures) AS failures, max(attempt) AS latest,
           array_agg(job_version) AS job_versions, array_agg(due_at) AS due_ats,
           array_agg(id) FILTER (WHERE holds_place) AS placed,
           array_agg(id) FILTER (WHERE scheduled_at IS NOT NULL) AS shifted,
           array_agg(scheduled_at) FILTER (WHERE scheduled_at IS NOT NULL) AS scheduled_ats,
           '[' || string_agg(coalesce(payload::text, 'null'), ',') || ']' AS payloads
    FROM known
), lease AS (
    INSERT INTO leases (worker, granted_at, ids, attempts, failures)
    SELECT :worker::bigint, :now::bigint, ids, attempts, failures FROM found WHERE ids IS NOT NULL
    RETURNING lease_id
)
SELECT (SELECT lease_id FROM lease) AS lease_id, ids, CASE WHEN latest > 1 THEN attempts END AS attempts, CASE WHEN latest > 1 THEN failures END AS failures,
       job_versions, due_ats, placed, shifted, scheduled_ats, payloads, (SELECT rank FROM last) AS last_rank, (SELECT id FROM last) AS last_id,
       (SELECT id FROM traces ORDER BY id DESC LIMIT 1) AS last_trace       -- whether it is worth asking whose trace they are in
FROM found

-- name: claim
-- Takes the best-ranked ready rows of each (route, tenant) ask under one new lease, and answers in arrays. Only a live worker.
-- A row that carries what is needed is not looked up (migration 0010). What few executions have is not sent for all of them: attempts and
-- failures if one is not at its first attempt, and the ids of those that hold a place or stand for another time than they are due.
-- Of each queue it begins at (`:ranks`, `:ids`) and says where it ended: see domain/trail.py and domain/heads.py.
WITH ask AS MATERIALIZED (
    SELECT a.route, a.tenant, a.quota, a.rank, a.id
    FROM unnest(:routes::int[], :tenants::int[], :quotas::int[], :ranks::bigint[], :ids::uuid[]) AS a (route, tenant, quota, rank, id)
    WHERE EXISTS (SELECT FROM workers w WHERE w.id = :worker::bigint AND w.lost_at IS NULL AND w.expires_at > :now::bigint)
), picked AS MATERIALIZED (
    SELECT r.tid
    FROM ask
    CROSS JOIN LATERAL (
        SELECT ctid AS tid FROM ready
        WHERE route = ask.route AND tenant = ask.tenant AND (rank, id) >= (ask.rank, ask.id)
        ORDER BY rank, id
        LIMIT ask.quota
        FOR UPDATE SKIP LOCKED
    ) r
), taken AS MATERIALIZED (
    DELETE FROM ready WHERE ctid = ANY (ARRAY(SELECT tid FROM picked))
    RETURNING rank, id, attempt, failures, job_version, due_at, holds_place, payload
/*grant_taken*/;

-- name: claim_named
-- The same for rows that were announced by their keys. What is not there under exactly this key is passed over.
WITH named AS MATERIALIZED (
    SELECT n.route, n.tenant, n.rank, n.id
    FROM unnest(:routes::int[], :tenants::int[], :ranks::bigint[], :ids::uuid[]) AS n (route, tenant, rank, id)
    WHERE EXISTS (SELECT FROM workers w WHERE w.id = :worker::bigint AND w.lost_at IS NULL AND w.expires_at > :now::bigint)
), picked AS MATERIALIZED (
    SELECT r.tid
    FROM named n
    CROSS JOIN LATERAL (
        SELECT ctid AS tid FROM ready
        WHERE route = n.route AND tenant = n.tenant AND rank = n.rank AND id = n.id
        FOR UPDATE SKIP LOCKED
    ) r
), taken AS MATERIALIZED (
    DELETE FROM ready WHERE ctid = ANY (ARRAY(SELECT tid FROM picked))
    RETURNING rank, id, attempt, failures, job_version, due_at, holds_place, payload
/*grant_taken*/;

-- name: peek
-- What a claim with these asks would take.
SELECT ask.route, ask.tenant, r.rank, r.id
FROM unnest(:routes::int[], :tenants::int[], :quotas::int[]) AS ask (route, tenant, quota)
CROSS JOIN LATERAL (
    SELECT rank, id FROM ready WHERE route = ask.route AND tenant = ask.tenant ORDER BY rank, id LIMIT ask.quota
) r;

-- name: held_by
-- What the worker's leases hold that has not ended.
SELECT l.lease_id, m.id, m.attempt, m.failures, e.job_version, e.due_at, e.holds_place OR e.gates IS NOT NULL AS holds_place, e.payload,
       coalesce(e.scheduled_at, e.due_at) AS scheduled_at
FROM leases l
CROSS JOIN LATERAL unnest(l.ids, l.attempts, l.failures) AS m (id, attempt, failures)
JOIN executions e ON e.id = m.id
WHERE l.worker = :worker
  AND NOT EXISTS (SELECT FROM outcomes o WHERE o.id = m.id)
  AND NOT EXISTS (SELECT FROM attempts a WHERE a.id = m.id AND a.attempt = m.attempt)
ORDER BY l.lease_id, m.id;

-- ---------------------------------------------------------------- finish

-- part: free_and_close
-- How both finishes end: places and slots are given back, and leases that the worker believes complete are closed if they are.
), freed_places AS (
    DELETE FROM places
    WHERE ctid = ANY (ARRAY(
        SELECT p.tid
        FROM unnest(:place_jobs::uuid[], :place_ids::uuid[]) AS f (job_id, id)
        CROSS JOIN LATERAL (SELECT ctid AS tid FROM places WHERE job_id = f.job_id AND id = f.id FOR UPDATE) p
        WHERE (f.id IN (SELECT id FROM accepted)) IS TRUE))
    RETURNING job_id
), freed_slots AS (
    DELETE FROM slots
    WHERE ctid = ANY (ARRAY(
        SELECT s.tid
        FROM unnest(:place_ids::uuid[]) AS f (id)
        CROSS JOIN LATERAL (SELECT ctid AS tid FROM slots WHERE id = f.id AND lasts IS NULL FOR UPDATE) s
        WHERE (f.id IN (SELECT id FROM ended)) IS TRUE))
    RETURNING gate
), timed_slots AS (
    UPDATE slots s SET until = d.started_at + s.lasts
    FROM unnest(:place_ids::uuid[]) AS f (id)
    JOIN done d ON d.id = f.id
    WHERE s.id = f.id AND s.attempt = d.attempt AND s.lasts IS NOT NULL AND (s.until IS NULL OR s.until < d.started_at + s.lasts)
      AND (f.id IN (SELECT id FROM ended)) IS TRUE AND cardinality(:place_ids::uuid[]) > 0
), closed AS (
    DELETE FROM leases l
    USING held
    WHERE l.lease_id = held.lease_id AND l.lease_id = ANY (:closing::bigint[])
      AND NOT EXISTS (
        SELECT FROM member m
        WHERE m.lease_id = l.lease_id
          AND m.id NOT IN (SELECT id FROM done)
          AND (SELECT o.id FROM outcomes o WHERE o.id = m.id) IS NULL
          AND (SELECT a.id FROM attempts a WHERE a.id = m.id AND a.attempt = m.attempt) IS NULL)
)

-- name: finish
-- Successes, the hot path. The lease row locked FOR SHARE is the fence: if it is gone, or not this worker's, or never held
-- that execution, nothing is written for it. The attempt number comes from the lease, not from the worker. `:closing` are
-- leases the worker believes complete; each is deleted if every id in it has ended. Only then, because looking at a lease of
-- n ids at each of n finishes would cost n * n.
WITH held AS MATERIALIZED (
    SELECT lease_id, ids, attempts
    FROM leases
    WHERE lease_id = ANY (:held::bigint[]) AND worker = :worker::bigint
    ORDER BY lease_id
    FOR SHARE
), member AS MATERIALIZED (
    SELECT h.lease_id, m.id, m.attempt
    FROM held h CROSS JOIN LATERAL unnest(h.ids, h.attempts) AS m (id, attempt)
), done AS MATERIALIZED (
    SELECT f.id, f.lease_id, m.attempt, f.started_at, f.finished_at, f.result
    FROM unnest(:ids::uuid[], :leases::bigint[], :started::bigint[], :finished::bigint[], :results::json[]) AS f (id, lease_id, started_at, finished_at, result)
    JOIN member m ON m.id = f.id AND m.lease_id = f.lease_id
), accepted AS (
    INSERT INTO outcomes (id, state, attempt, lease_id, worker, started_at, finished_at, result)
    SELECT id, 4, attempt, lease_id, :worker::bigint, started_at, finished_at, result FROM done
    /*again*/
    RETURNING id
), ended AS (
    SELECT id FROM accepted
/*free_and_close*/
SELECT a.n AS accepted, CASE WHEN a.n < cardinality(:ids::uuid[]) THEN (SELECT array_agg(id) FROM accepted) END AS accepted_ids,
       (SELECT array_agg(DISTINCT gate) FROM freed_slots) AS gates
FROM (SELECT count(*) AS n FROM accepted) a;

-- name: finish_whole
-- A lease whose executions have all succeeded, reported in the order in which it holds them (`:held` is its list of ids, as it stands
-- on the wire): it is taken away with what it says, and nothing is looked up. Not that worker's, not that list: nothing happens, and `finish` decides.
WITH gone AS MATERIALIZED (
    DELETE FROM leases WHERE lease_id = :lease::bigint AND worker = :worker::bigint AND array_send(ids) = :held::bytea RETURNING ids, attempts
), accepted AS (
    INSERT INTO outcomes (id, state, attempt, lease_id, worker, started_at, finished_at, result)
    SELECT m.id, 4, m.attempt, :lease::bigint, :worker::bigint, m.started_at, m.finished_at, CASE WHEN m.result::text <> 'null' THEN m.result END
    FROM gone
    CROSS JOIN LATERAL ROWS FROM (
        unnest(gone.ids), unnest(gone.attempts), unnest(:started::bigint[]), unnest(:finished::bigint[]), json_array_elements(:results::json)
    ) AS m (id, attempt, started_at, finished_at, result)
    /*again*/
    RETURNING id
)
SELECT (SELECT count(*) FROM gone) AS leases, a.n AS accepted, CASE WHEN a.n < :count::int THEN (SELECT array_agg(id) FROM accepted) END AS accepted_ids
FROM (SELECT count(*) AS n FROM accepted) a;

-- name: finish_mixed
-- Everything else: retry or release (state 0), dead (5), cancelled (6). `again`: nobody asked it to stop, so it goes back to waiting. Repetition is harmless: an ended attempt is a
-- primary-key conflict, and all else follows from what was inserted. A release passes retry_at = due_at, so it keeps its rank.
-- `duly_unended` waits for a transaction of the handler's own that completes one of them at this moment (migration 0003).
WITH held AS MATERIALIZED (
    SELECT lease_id, ids, attempts, failures
    FROM leases
    WHERE lease_id = ANY (:held::bigint[]) AND worker = :worker::bigint
    ORDER BY lease_id
    FOR SHARE
), member AS MATERIALIZED (
    SELECT h.lease_id, m.id, m.attempt, m.failures
    FROM held h CROSS JOIN LATERAL unnest(h.ids, h.attempts, h.failures) AS m (id, attempt, failures)
), done AS MATERIALIZED (
    SELECT f.*, m.attempt, m.failures, f.state = 0 AND (SELECT c.id FROM cancels c WHERE c.id = f.id) IS NULL AS again
    FROM unnest(:ids::uuid[], :leases::bigint[], :outcomes::smallint[], :states::smallint[], :started::bigint[], :finished::bigint[],
                :errors::json[], :retry_ats::bigint[], :shards::smallint[])
         AS f (id, lease_id, outcome, state, started_at, finished_at, error, retry_at, shard)
    JOIN member m ON m.id = f.id AND m.lease_id = f.lease_id
), unsuccessful AS (
    INSERT INTO attempts (id, attempt, outcome, lease_id, worker, started_at, finished_at, retry_at, error)
    SELECT id, attempt, outcome, lease_id, :worker::bigint, started_at, finished_at, CASE WHEN again THEN retry_at END, error FROM done
    WHERE (done.id IN (SELECT duly_unended(:ids::uuid[]))) IS TRUE
    ON CONFLICT DO NOTHING
    RETURNING id, outcome, retry_at
), back AS MATERIALIZED (
    SELECT d.*
    FROM done d JOIN unsuccessful u ON u.id = d.id
    WHERE d.again
), rescheduled AS (
    INSERT INTO timers (id, shard, due_at, route, tenant, rank, attempt, failures, gated)
    SELECT b.id, b.shard, b.retry_at, e.route, e.tenant, b.retry_at + e.rank - e.due_at, b.attempt + 1, b.failures + (b.outcome IN (2, 3))::int, e.gated
    FROM back b
    CROSS JOIN LATERAL (SELECT route, tenant, rank, due_at, gates IS NOT NULL AS gated FROM executions WHERE id = b.id OFFSET 0) e
), accepted AS (
    INSERT INTO outcomes (id, state, attempt, lease_id, worker, started_at, finished_at, result, error)
    SELECT d.id, CASE d.state WHEN 0 THEN 6 ELSE d.state END, d.attempt, d.lease_id, :worker::bigint, d.started_at, d.finished_at, NULL,
           coalesce((SELECT (coalesce(CASE d.state WHEN 6 THEN d.error::jsonb END, '{"reason": "cancelled"}') || jsonb_build_object('by', c.asked_by))::json
                     FROM cancels c WHERE c.id = d.id AND d.state <> 5), d.error)
    FROM done d JOIN unsuccessful u ON u.id = d.id WHERE d.id NOT IN (SELECT id FROM back)
    ON CONFLICT DO NOTHING
    RETURNING id, state
), ended AS (
    SELECT id FROM unsuccessful
/*free_and_close*/
SELECT u.n AS accepted, CASE WHEN u.n < cardinality(:ids::uuid[]) THEN (SELECT array_agg(id) FROM unsuccessful) END AS accepted_ids,
       (SELECT array_agg(DISTINCT gate) FROM freed_slots) AS gates, (SELECT array_agg(state) FROM accepted) AS states,
       (SELECT array_agg(outcome) FROM unsuccessful) AS outcomes, (SELECT array_agg(outcome) FROM unsuccessful WHERE retry_at IS NOT NULL) AS retried
FROM (SELECT count(*) AS n FROM unsuccessful) u;

-- name: finished_under
-- After a finish that did not accept everything: which of these did their lease end after all? What the sweeper wrote when
-- it took the lease away (4, a lost worker) is no end of the worker's.
SELECT f.id FROM unnest(:ids::uuid[], :leases::bigint[]) AS f (id, lease_id)
WHERE NOT EXISTS (SELECT FROM attempts a WHERE a.id = f.id AND a.lease_id = f.lease_id AND a.outcome = 4)
  AND (EXISTS (SELECT FROM outcomes o WHERE o.id = f.id AND o.lease_id = f.lease_id)
       OR EXISTS (SELECT FROM attempts a WHERE a.id = f.id AND a.lease_id = f.lease_id));

-- name: close_leases
-- Leases whose last two finishes ran side by side and did not see one another.
DELETE FROM leases l
WHERE l.worker = :worker::bigint AND l.lease_id = ANY (:closing::bigint[])
  AND NOT EXISTS (
    SELECT FROM unnest(l.ids, l.attempts) AS m (id, attempt)
    WHERE NOT EXISTS (SELECT FROM outcomes o WHERE o.id = m.id)
      AND NOT EXISTS (SELECT FROM attempts a WHERE a.id = m.id AND a.attempt = m.attempt));

-- name: pass_on_places
-- After the commit of what freed places of jobs that queue: the oldest waiter of each takes it, and is ready, or waits at its
-- first gate, or for its time if jitter put it off. A new snapshot, so it sees a waiter that came while the finish waited for its lock.
WITH next AS MATERIALIZED (
    SELECT w.waits_for AS job_id, w.id, j.shard
    FROM unnest(:job_ids::uuid[], :shards::int[]) AS j (job_id, shard)
    CROSS JOIN LATERAL (SELECT waits_for, id FROM waits WHERE waits_for = j.job_id ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) w
    WHERE NOT EXISTS (SELECT FROM places p WHERE p.job_id = j.job_id)
), placed AS (
    INSERT INTO places (job_id, place, id)
    SELECT job_id, 0, id FROM next ORDER BY job_id
    ON CONFLICT DO NOTHING
    RETURNING job_id, id
), entering AS MATERIALIZED (
    SELECT p.job_id, p.id, e.gates[1] AS gate, e.due_at, e.due_at > :now::bigint AS early, n.shard
    FROM placed p JOIN next n ON n.id = p.id JOIN executions e ON e.id = p.id
), unwaited AS (
    DELETE FROM waits w USING placed p WHERE w.waits_for = p.job_id AND w.id = p.id
), unblocked AS (
    DELETE FROM blocked b USING entering n WHERE b.id = n.id AND (n.gate IS NULL OR n.early)
    RETURNING b.id, b.route, b.tenant, b.rank, b.attempt, b.failures, n.gate, n.due_at, n.early, n.shard
), at_gate AS (
    UPDATE blocked b SET reason = 1 FROM entering n WHERE b.id = n.id AND n.gate IS NOT NULL AND NOT n.early RETURNING b.id, b.rank, n.gate
), waiting AS (
    INSERT INTO gate_waits (gate, rank, id) SELECT gate, rank, id FROM at_gate
), timed AS (
    INSERT INTO timers (id, shard, due_at, route, tenant, rank, attempt, failures, gated)
    SELECT id, shard, due_at, route, tenant, rank, attempt, failures, gate IS NOT NULL FROM unblocked WHERE early
), made_ready AS (
    INSERT INTO ready (route, tenant, rank, id, attempt, failures)
    SELECT route, tenant, rank, id, attempt, failures FROM unblocked WHERE NOT early
)
SELECT gate FROM at_gate;

-- name: append_logs
-- Only under leases that this worker still holds, and numbered in the order they came, whatever the join does.
WITH held AS MATERIALIZED (
    SELECT lease_id, ids FROM leases WHERE lease_id = ANY (:held::bigint[]) AND worker = :worker::bigint ORDER BY lease_id FOR SHARE
)
INSERT INTO logs (id, attempt, at, level, message, fields)
SELECT f.id, f.attempt, f.at, f.level, f.message, f.fields
FROM unnest(:leases::bigint[], :ids::uuid[], :attempts::smallint[], :ats::bigint[], :levels::text[], :messages::text[], :fields::json[])
     WITH ORDINALITY AS f (lease_id, id, attempt, at, level, message, fields, nth)
JOIN held h ON h.lease_id = f.lease_id AND f.id = ANY (h.ids)
ORDER BY f.nth
RETURNING seq;

-- ---------------------------------------------------------------- liveness and loss

-- name: cancels_of_worker
-- From the few wishes to the leases; what has ended keeps its id in the lease until that is closed.
SELECT c.id, c.kill_at
FROM cancels c
CROSS JOIN LATERAL (
    SELECT m.attempt
    FROM leases l
    CROSS JOIN LATERAL unnest(l.ids, l.attempts) AS m (id, attempt)
    WHERE l.worker = :worker::bigint AND c.id = ANY (l.ids) AND m.id = c.id
) held
WHERE NOT EXISTS (SELECT FROM outcomes o WHERE o.id = c.id)
  AND NOT EXISTS (SELECT FROM attempts a WHERE a.id = c.id AND a.attempt = held.attempt);

-- name: lost_leases
-- Sweep, statement 1 of 3, one transaction. A lease that a finish holds at this moment is left for the next round.
SELECT l.lease_id
FROM leases l
WHERE NOT EXISTS (SELECT FROM workers w WHERE w.id = l.worker AND w.lost_at IS NULL)
ORDER BY l.lease_id
LIMIT :quota::int
FOR UPDATE OF l SKIP LOCKED;

-- name: lost_executions
-- Sweep, statement 2: what in them has not ended. A statement of its own because its snapshot must be younger than the lock:
-- a finish that committed between the snapshot of statement 1 and its lock is seen only here. An attempt that ended in
-- failure has no outcome, and may run again by now under another lease: hence `attempts`.
SELECT l.lease_id, l.worker, l.granted_at, m.id, m.attempt, m.failures, e.job_version, e.job_id, e.holds_place OR e.gates IS NOT NULL AS holds_place,
       (SELECT count(*) FROM attempts a WHERE a.id = m.id AND a.outcome = 4) AS losses,
       EXISTS (SELECT FROM cancels c WHERE c.id = m.id) AS cancelled
FROM leases l
CROSS JOIN LATERAL unnest(l.ids, l.attempts, l.failures) AS m (id, attempt, failures)
CROSS JOIN LATERAL (SELECT * FROM executions WHERE id = m.id OFFSET 0) e
WHERE l.lease_id = ANY (:leases::bigint[])
  AND (SELECT o.id FROM outcomes o WHERE o.id = m.id) IS NULL
  AND (SELECT a.id FROM attempts a WHERE a.id = m.id AND a.attempt = m.attempt) IS NULL;

-- name: lose
-- Sweep, statement 3: the leases go; each lost attempt is recorded and waits again (state 0) or is final (5, 6).
WITH gone AS (
    DELETE FROM leases WHERE lease_id = ANY (:leases::bigint[])
), lost AS MATERIALIZED (
    SELECT f.*, e.route, e.tenant, e.rank - e.due_at AS head, e.job_id, e.holds_place, e.gates IS NOT NULL AS gated
    FROM unnest(:ids::uuid[], :attempts::smallint[], :failures::smallint[], :of_leases::bigint[], :workers::bigint[], :granted::bigint[],
                :states::smallint[], :errors::json[], :retry_ats::bigint[], :shards::smallint[])
         AS f (id, attempt, failures, lease_id, worker, granted_at, state, error, retry_at, shard)
    CROSS JOIN LATERAL (SELECT * FROM executions WHERE id = f.id OFFSET 0) e
), recorded AS (
    INSERT INTO attempts (id, attempt, outcome, lease_id, worker, started_at, finished_at, retry_at, error)
    SELECT id, attempt, 4, lease_id, worker, granted_at, :now::bigint, retry_at, error FROM lost
), rescheduled AS (
    INSERT INTO timers (id, shard, due_at, route, tenant, rank, attempt, failures, gated)
    SELECT id, shard, retry_at, route, tenant, retry_at + head, attempt + 1, failures, gated FROM lost WHERE state = 0
), made_final AS (
    INSERT INTO outcomes (id, state, attempt, lease_id, worker, finished_at, error)
    SELECT id, state, attempt, lease_id, worker, :now::bigint, error FROM lost WHERE state <> 0
), freed_places AS (
    DELETE FROM places p USING lost WHERE lost.state <> 0 AND lost.holds_place AND p.job_id = lost.job_id AND p.id = lost.id
), freed_slots AS (
    DELETE FROM slots s USING lost WHERE lost.gated AND s.id = lost.id AND s.lasts IS NULL RETURNING s.gate
), timed_slots AS (
    UPDATE slots s SET until = lost.granted_at + s.lasts FROM lost
    WHERE lost.gated AND s.id = lost.id AND s.attempt = lost.attempt AND s.lasts IS NOT NULL AND s.until IS NULL
)
SELECT count(*) AS lost, (SELECT array_agg(DISTINCT gate) FROM freed_slots) AS gates FROM lost;

-- name: stale_places
-- Places whose execution is final: a crash between two statements, or a bug.
-- One probe of the key for each, here and below: as a join, many of them would be hashed with the whole history.
DELETE FROM places p WHERE (SELECT o.id FROM outcomes o WHERE o.id = p.id) IS NOT NULL RETURNING p.job_id;

-- name: stale_cancels
DELETE FROM cancels c WHERE (SELECT o.id FROM outcomes o WHERE o.id = c.id) IS NOT NULL;

-- name: stale_uniques
DELETE FROM uniques u WHERE u.until <= :now::bigint OR (u.until IS NULL AND (SELECT o.id FROM outcomes o WHERE o.id = u.id) IS NOT NULL);

-- name: stuck_queues
-- Jobs that somebody waits for although nobody stands in their place.
SELECT DISTINCT w.waits_for AS job_id FROM waits w WHERE NOT EXISTS (SELECT FROM places p WHERE p.job_id = w.waits_for) LIMIT :quota::int;

-- name: dead_rows
SELECT n_dead_tup AS dead FROM pg_stat_all_tables WHERE relid = :relation::text::regclass;

-- name: dead_in_queue
-- Whether what was claimed from the queue piles up, and is far more than what waits in it: vacuum is behind, or an old snapshot keeps it
-- from its work. A queue that is too long for `renew_queue` is not: it would take the lock and move nothing.
SELECT n_dead_tup >= :dead::bigint AND n_live_tup <= greatest(1000, least(n_dead_tup / 4, 50000)) AS crowded
FROM pg_stat_all_tables WHERE relid = 'ready'::regclass;

-- name: renew_queue
-- The queue on new pages. A claim walks along the key, past every row that was claimed since the oldest snapshot of the whole
-- server: after half an hour of somebody's open transaction that is all of its time. One text on the server, so that nobody who
-- stops in the middle holds the lock. Whoever waits for the lock makes every claim behind it wait as well: at first it is left for the next
-- time when it is not free at once; the more there is to walk past, the longer it is waited for. Claims that have become slow hold it
-- nearly always, and would become slower for ever. A snapshot from before the lock sees an empty queue afterwards: for the length of
-- one read, what waits in it seems to run.
DO $$
DECLARE
    dead bigint := (SELECT n_dead_tup FROM pg_stat_all_tables WHERE relid = 'ready'::regclass);
    most bigint := greatest(1000, least(dead / 4, 50000));        -- what is copied under the lock
    waiting ready[];
BEGIN
    IF NOT pg_try_advisory_xact_lock(3861) THEN
        RETURN;                                                   -- another sweeper is at it
    END IF;
    PERFORM set_config('lock_timeout', CASE WHEN dead < 10000 THEN '20ms' WHEN dead < 30000 THEN '100ms' ELSE '500ms' END, true);
    LOCK TABLE ready IN ACCESS EXCLUSIVE MODE;
    SELECT array_agg(r) INTO waiting FROM (SELECT r FROM ready r LIMIT most + 1) x;
    IF coalesce(cardinality(waiting), 0) <= most THEN
        TRUNCATE ready;
        INSERT INTO ready SELECT * FROM unnest(waiting);
    END IF;
EXCEPTION WHEN lock_not_available OR insufficient_privilege THEN
    NULL;
END $$;

-- name: waiting_cancels
-- Asked to stop, and nobody runs it: whoever asked did not come to the end. A lease names what has ended in it for as long as others run.
SELECT c.id FROM cancels c
WHERE c.asked_at <= :before::bigint
  AND NOT EXISTS (SELECT FROM leases l WHERE c.id = ANY (l.ids) AND NOT EXISTS (SELECT FROM attempts a WHERE a.id = c.id AND a.lease_id = l.lease_id))
LIMIT :quota::int;

-- ---------------------------------------------------------------- cancel

-- name: ask_cancels
-- Cancel, first transaction: the wish, committed before anything is looked at. A second wish changes nothing, but that one
-- which kills follows one which only asked.
INSERT INTO cancels (id, asked_at, asked_by, kill_at)
SELECT DISTINCT e.id, :now::bigint, :by::text, :kill_at::bigint
FROM unnest(:ids::uuid[]) AS f (id)
JOIN executions e ON e.id = f.id
WHERE e.tenant = :tenant::int AND NOT EXISTS (SELECT FROM outcomes o WHERE o.id = e.id)
ORDER BY e.id
ON CONFLICT (id) DO UPDATE SET kill_at = excluded.kill_at WHERE cancels.kill_at IS NULL AND excluded.kill_at IS NOT NULL
RETURNING id;

-- name: cancel_waiting
-- Cancel, second transaction: what was asked to stop and waits becomes final. Repeated for ids that `standings` shows neither
-- final nor leased: they were being moved. A running one is told by its heartbeat; should it fail or be lost, it will not run again.
WITH named AS MATERIALIZED (
    SELECT e.id, e.route, e.tenant, e.job_id, e.holds_place,
           coalesce((SELECT a.retry_at FROM attempts a WHERE a.id = e.id ORDER BY a.attempt DESC LIMIT 1) + e.rank - e.due_at, e.rank) AS rank
    FROM unnest(:ids::uuid[]) AS f (id)
    JOIN cancels c ON c.id = f.id
    JOIN executions e ON e.id = f.id
), from_ready AS (
    DELETE FROM ready r USING named n
    WHERE r.route = n.route AND r.tenant = n.tenant AND r.rank = n.rank AND r.id = n.id
    RETURNING r.id, r.attempt
), from_timers AS (
    DELETE FROM timers WHERE id IN (SELECT id FROM named) RETURNING id, attempt
), from_blocked AS (
    DELETE FROM blocked WHERE id IN (SELECT id FROM named) RETURNING id, attempt
), stopped AS MATERIALIZED (
    SELECT * FROM from_ready UNION ALL SELECT * FROM from_timers UNION ALL SELECT * FROM from_blocked
), unwaited AS (
    DELETE FROM waits WHERE id IN (SELECT id FROM stopped)
), freed_places AS (
    DELETE FROM places p USING named n WHERE n.holds_place AND p.job_id = n.job_id AND p.id = n.id AND n.id IN (SELECT id FROM stopped)
    RETURNING p.job_id
), made_final AS (
    INSERT INTO outcomes (id, state, attempt, finished_at, error)
    SELECT id, 6, attempt - 1, :now::bigint, json_build_object('reason', 'cancelled', 'by', (SELECT c.asked_by FROM cancels c WHERE c.id = stopped.id))
    FROM stopped
)
SELECT (SELECT array_agg(id) FROM stopped) AS stopped, (SELECT array_agg(job_id) FROM freed_places) AS freed;

-- name: leave_gates
-- … and leaves its gates: a statement of its own, because it may have passed one while the first waited for its lock.
WITH unwaited AS (
    DELETE FROM gate_waits WHERE id = ANY (:ids::uuid[])
), freed AS (
    DELETE FROM slots WHERE id = ANY (:ids::uuid[]) AND (lasts IS NULL OR until IS NULL) RETURNING gate
)
SELECT DISTINCT gate FROM freed;

-- name: standings
SELECT s.id, s.state
FROM unnest(:ids::uuid[]) AS f (id)
CROSS JOIN LATERAL (SELECT * FROM execution_state WHERE id = f.id OFFSET 0) AS s                -- a probe for each, however many
WHERE s.tenant = :tenant::int;

-- ---------------------------------------------------------------- reading

-- name: running_attempt
SELECT m.attempt, NULL::smallint AS outcome, l.lease_id, l.worker, l.granted_at AS started_at, NULL::bigint AS finished_at, NULL::bigint AS retry_at, NULL::json AS error
FROM leases l
CROSS JOIN LATERAL unnest(l.ids, l.attempts) AS m (id, attempt)
WHERE m.id = :id::uuid AND :id::uuid = ANY (l.ids)
  AND NOT EXISTS (SELECT FROM outcomes o WHERE o.id = m.id)
  AND NOT EXISTS (SELECT FROM attempts a WHERE a.id = m.id AND a.attempt = m.attempt);

-- name: ids_running
SELECT m.id
FROM leases l
CROSS JOIN LATERAL unnest(l.ids, l.attempts) AS m (id, attempt)
CROSS JOIN LATERAL (SELECT tenant FROM executions WHERE id = m.id OFFSET 0) e
WHERE e.tenant = :tenant AND m.id < :before
  AND (SELECT o.id FROM outcomes o WHERE o.id = m.id) IS NULL
  AND (SELECT a.id FROM attempts a WHERE a.id = m.id AND a.attempt = m.attempt) IS NULL
ORDER BY m.id DESC LIMIT :quota;

-- name: count_running
SELECT count(*) AS n
FROM leases l
CROSS JOIN LATERAL unnest(l.ids, l.attempts) AS m (id, attempt)
CROSS JOIN LATERAL (SELECT tenant FROM executions WHERE id = m.id OFFSET 0) e
WHERE e.tenant = :tenant
  AND (SELECT o.id FROM outcomes o WHERE o.id = m.id) IS NULL
  AND (SELECT a.id FROM attempts a WHERE a.id = m.id AND a.attempt = m.attempt) IS NULL;

-- name: workers
SELECT w.id, w.name, w.started_at, w.expires_at, w.lost_at, w.about, w.tenant,
       (SELECT count(*)
        FROM leases l
        CROSS JOIN LATERAL unnest(l.ids, l.attempts) AS m (id, attempt)
        WHERE l.worker = w.id
          AND (:tenant::int IS NULL OR (SELECT e.tenant FROM executions e WHERE e.id = m.id) = :tenant::int)
          AND (SELECT o.id FROM outcomes o WHERE o.id = m.id) IS NULL
          AND (SELECT a.id FROM attempts a WHERE a.id = m.id AND a.attempt = m.attempt) IS NULL) AS running
FROM (SELECT * FROM workers WHERE lost_at IS NULL UNION ALL SELECT * FROM workers WHERE lost_at > :lost_since) w
ORDER BY w.id;

-- ---------------------------------------------------------------- retention

-- name: create_partitions
SELECT duly_create_partitions(:from_us::bigint, :to_us::bigint) AS made;

-- name: drop_old_logs
-- Lines that stand in no day of their own; those of a day go with it.
SELECT duly_drop_old_logs(:before::uuid, :finished_before::bigint, :quota::int) AS n;

-- name: drop_partitions
-- What it moves is no news to anybody: see migration 0013.
SELECT duly_drop_partitions(:from_us::bigint, :before_us::bigint) AS kept FROM set_config('duly.moves', 'on', true);

-- name: oldest_partition
-- The first day that still has a partition, as the suffix of its name.
SELECT min(right(c.relname, 8)) AS day
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'executions'::regclass AND c.relname ~ '^executions_[0-9]{8}$';

-- name: drop_old_from_default
-- What stands in the default partition and is long finished, in small batches.
WITH old AS MATERIALIZED (
    SELECT array_agg(o.id) AS ids
    FROM (SELECT d.id FROM outcomes_default d
          WHERE d.id < :before::uuid AND d.finished_at < :finished_before::bigint
            AND NOT EXISTS (SELECT FROM executions_default e WHERE e.id = d.id AND e.run IS NOT NULL AND duly_is_under_way(e.run))
          ORDER BY d.id LIMIT :quota::int) o
), a AS (
    DELETE FROM executions_default WHERE id = ANY ((SELECT ids FROM old)::uuid[])
), b AS (
    DELETE FROM attempts_default WHERE id = ANY ((SELECT ids FROM old)::uuid[])
), c AS (
    DELETE FROM logs WHERE id = ANY ((SELECT ids FROM old)::uuid[])
), d AS (
    DELETE FROM outcomes_default WHERE id = ANY ((SELECT ids FROM old)::uuid[]) RETURNING id
)
SELECT count(*) AS n FROM d;

-- name: drop_orphans
-- What was said about dead letters that are gone.
DELETE FROM settled x WHERE x.id < :before::uuid AND (SELECT e.id FROM executions e WHERE e.id = x.id) IS NULL;

-- name: drop_expired_keys
-- So many at a time: a day's end may be the end of millions.
DELETE FROM idempotency WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM idempotency WHERE expires_at <= :now::bigint ORDER BY expires_at LIMIT :quota::int FOR UPDATE SKIP LOCKED))
RETURNING tenant;

-- name: migrations_table
SELECT 1 WHERE to_regclass('duly.duly_migrations') IS NOT NULL;

-- ---------------------------------------------------------------- the wall between tenants

-- name: build_wall
SELECT duly_build_wall() AS stands;

-- name: versions
-- Overrides the shared text: its way to take a list apart is SQLite's. OFFSET keeps the planner from hashing all versions and all jobs.
-- Who is not a step is read by its key alone: looking for the steps beside it in the same probe was half of the time.
-- CASE, where coalesce would be shorter: behind the wall the planner takes coalesce for something that may leak, and walks all jobs.
WITH asked AS MATERIALIZED (
    SELECT v.id, v.job_id, v.version, v.route, v.definition, v.created_at, v.workflow
    FROM unnest(string_to_array(:numbers::text, ',')::bigint[]) AS n (number)
    CROSS JOIN LATERAL (SELECT * FROM job_versions WHERE id = n.number OFFSET 0) v
), found AS (
    SELECT * FROM asked
    UNION ALL
    SELECT s.id, s.job_id, s.version, s.route, s.definition, s.created_at, s.workflow
    FROM asked a
    CROSS JOIN LATERAL (SELECT * FROM job_versions WHERE id > a.id AND id <= a.id + :following::bigint OFFSET 0) s
    WHERE a.workflow IS NOT NULL AND s.workflow = a.workflow AND s.version = a.version
)
SELECT v.job_id, j.tenant, t.name AS tenant_name, v.id AS version_id, v.version, v.route, v.definition, v.created_at AS version_created_at
FROM found v
CROSS JOIN LATERAL (SELECT tenant FROM jobs WHERE id = CASE WHEN v.workflow IS NULL THEN v.job_id ELSE v.workflow END OFFSET 0) j
JOIN tenants t ON t.tenant = j.tenant;
