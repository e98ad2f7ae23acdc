-- What keeps a store with hundreds of millions of rows as quick as an empty one: indexes that lists and counts walk along, walks
-- behind the wall that are bounded, a day of history that is dropped without anybody waiting, and how often each table is vacuumed.

-- ---------------------------------------------------------------- indexes

-- Jobs by their state, for the list and for the counts; a quota's count walks along it as well.
DROP INDEX jobs_live;
CREATE INDEX jobs_standing ON jobs (tenant, state, id);
-- Pauses that end by themselves: few.
CREATE INDEX jobs_paused_until ON jobs (tenant, id) WHERE paused_until IS NOT NULL;
-- A name belongs to one live job, which `jobs_named` finds, and to any number of cancelled ones.
CREATE INDEX jobs_cancelled_named ON jobs (tenant, name, id) WHERE state = 3;
-- The jobs that an application's code has brought, of which there are few: it looks for those that it no longer has.
CREATE INDEX job_versions_of_source ON job_versions ((definition ->> 'source')) WHERE definition ->> 'source' IS NOT NULL;

-- Newest first, of one tenant: with the id, a page is a walk and not a sort of all that wait.
DROP INDEX timers_of_tenant;
CREATE INDEX timers_of_tenant ON timers (tenant, id);
DROP INDEX blocked_of_tenant;
CREATE INDEX blocked_of_tenant ON blocked (tenant, id);
-- Who waits for its time and then for a limit. Every other timer pays nothing for it.
CREATE INDEX timers_gated ON timers (id) WHERE gated;

-- Every start of a worker leaves a row for as long as history is kept; who lives is looked for every few seconds. A renewal
-- does not touch the column, so it stays HOT.
CREATE INDEX workers_lost ON workers (lost_at);
CREATE INDEX uniques_until ON uniques (until) WHERE until IS NOT NULL;
CREATE INDEX batches_asked ON batches (asked_at);
CREATE INDEX batches_of_job ON batches (job_id) WHERE job_id IS NOT NULL;

-- ---------------------------------------------------------------- where an execution stands

-- As before, but for `ready`.
CREATE OR REPLACE VIEW execution_state AS
SELECT e.id, e.job_id, e.job_version, e.tenant, e.trigger, e.due_at, e.created_at, e.payload, e.skip_reason, e.holds_place,
       CASE WHEN o.id IS NOT NULL THEN o.state
            WHEN t.id IS NOT NULL THEN 0::smallint
            WHEN b.id IS NOT NULL THEN 1::smallint
            WHEN r.id IS NOT NULL THEN 2::smallint
            ELSE 3::smallint END                                       AS state,
       coalesce(o.attempt, t.attempt, r.attempt, l.attempt, b.attempt) AS attempt,
       CASE WHEN o.state = 4 THEN 1::smallint ELSE a.outcome END       AS last_outcome,
       t.due_at                                                        AS next_attempt_at,
       coalesce((SELECT p.retry_at FROM attempts p
                 WHERE p.id = e.id AND p.attempt = coalesce(o.attempt, t.attempt, r.attempt, l.attempt, b.attempt) - 1), e.due_at) AS attempt_due_at,
       coalesce(o.lease_id, l.lease_id)                                AS fence,
       coalesce(o.worker, l.worker)                                    AS worker,
       coalesce(o.started_at, l.granted_at)                            AS started_at,
       o.finished_at, o.result, coalesce(o.error, a.error)             AS error,
       c.asked_at                                                      AS cancel_asked_at,
       coalesce(e.scheduled_at, e.due_at)                              AS scheduled_at,
       e.batch, b.reason                                               AS blocked_reason
FROM executions e
LEFT JOIN outcomes o ON o.id = e.id
LEFT JOIN timers t ON t.id = e.id
LEFT JOIN blocked b ON b.id = e.id
LEFT JOIN cancels c ON c.id = e.id
LEFT JOIN LATERAL (SELECT outcome, retry_at, error FROM attempts WHERE id = e.id ORDER BY attempt DESC LIMIT 1) a ON true
LEFT JOIN LATERAL (                                               -- the whole key, or the queue is walked through for each
    SELECT id, attempt FROM ready
    WHERE route = e.route AND tenant = e.tenant AND rank = coalesce(a.retry_at + e.rank - e.due_at, e.rank) AND id = e.id OFFSET 0) r ON true
LEFT JOIN LATERAL (                                               -- asked only when it stands nowhere else: a scan of the few lease rows
    SELECT x.lease_id, x.worker, x.granted_at, x.attempts[array_position(x.ids, e.id)] AS attempt
    FROM leases x
    WHERE coalesce(o.id, t.id, b.id, r.id) IS NULL AND e.id = ANY (x.ids)
    ORDER BY x.lease_id DESC LIMIT 1) l ON true
WHERE duly_tenant() IS NULL OR e.tenant = duly_tenant();

-- ---------------------------------------------------------------- vacuum

-- A threshold in rows where a table is short and hot, a small share where it is long; no pauses where somebody waits for the result.

-- One-off jobs change their state when they have fired; 20 % of a hundred million would be two weeks of them.
ALTER TABLE jobs SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE job_versions SET (autovacuum_analyze_scale_factor = 0.02);
-- They come and go with what waits, as timers do.
ALTER TABLE blocked SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE waits SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE uniques SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE cancels SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
-- One row is locked and counted at every pass through a gate: few rows, each changed often.
ALTER TABLE gates SET (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
-- A row for a day, then gone: a tenth of them an hour at most.
ALTER TABLE idempotency SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);
-- Removed by the day, and written all day long.
ALTER TABLE logs SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 10000);
-- A single row each, changed by every link of the audit trail: room on its page, so that the change stays on it.
ALTER TABLE audit_heads SET (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 500);
ALTER TABLE audit_progress SET (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 500);
-- The moment of its last use changes every minute that it is used.
ALTER TABLE keys SET (fillfactor = 50);

-- Of history: rows that are written once. The first vacuum freezes them, so that no later one reads a hundred million of them again
-- because transaction numbers run out. It comes after a million new rows, not after every thousand.
CREATE FUNCTION duly_set_vacuum_of_history(relation text) RETURNS void LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
BEGIN
    EXECUTE format('ALTER TABLE %I SET (autovacuum_freeze_min_age = 0, autovacuum_vacuum_insert_threshold = 1000000,'
                   ' autovacuum_vacuum_insert_scale_factor = 0.0, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.1)', relation);
END $$;

SELECT duly_set_vacuum_of_history(c.relname)
FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
WHERE i.inhparent IN ('executions'::regclass, 'outcomes'::regclass, 'attempts'::regclass);
SELECT duly_set_vacuum_of_history(relation) FROM unnest(ARRAY['audit', 'audit_links']) AS relation;

-- As before; a partition does not inherit how it is vacuumed.
CREATE OR REPLACE FUNCTION duly_create_partitions(from_us bigint, to_us bigint) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    parent text;
    child  text;
    made   integer := 0;
BEGIN
    PERFORM set_config('lock_timeout', '200ms', true);
    PERFORM pg_advisory_xact_lock(3860);                          -- one pruner at a time
    FOREACH parent IN ARRAY ARRAY['executions', 'outcomes', 'attempts'] LOOP
        child := format('%s_%s', parent, duly_partition_suffix(from_us));
        IF to_regclass(child) IS NULL THEN
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', child, parent, duly_id_floor(from_us), duly_id_floor(to_us));
            PERFORM duly_set_vacuum_of_history(child);
            made := made + 1;
        END IF;
    END LOOP;
    RETURN made;
EXCEPTION WHEN check_violation OR lock_not_available THEN
    RETURN 0;
END $$;

-- ---------------------------------------------------------------- retention

-- As before, but what must stay is looked for before anybody is kept waiting: a day may have millions of rows. Meanwhile the day's own
-- tables are locked against writers, of whom there are hardly any; readers and all other days go on. The lock on the history itself
-- lasts as long as it takes to move what stays.
CREATE OR REPLACE FUNCTION duly_drop_partitions(from_us bigint, before_us bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    suffix text := duly_partition_suffix(from_us);
    headers text := 'executions_' || suffix;
    tries   text := 'attempts_' || suffix;
    ends    text := 'outcomes_' || suffix;
    staying uuid[];
BEGIN
    PERFORM set_config('lock_timeout', '200ms', true);
    PERFORM pg_advisory_xact_lock(3860);
    IF to_regclass(headers) IS NULL THEN
        RETURN NULL;
    END IF;
    EXECUTE format('LOCK TABLE %I, %I, %I IN SHARE MODE', headers, tries, ends);
    -- A statement of its own: its snapshot is younger than the lock.
    EXECUTE format('SELECT array_agg(e.id) FROM %I e WHERE NOT EXISTS (SELECT FROM %I o WHERE o.id = e.id AND o.finished_at < $1)', headers, ends)
        INTO staying USING before_us;
    EXECUTE format('ALTER TABLE executions DETACH PARTITION %I', headers);
    EXECUTE format('ALTER TABLE attempts DETACH PARTITION %I', tries);
    EXECUTE format('ALTER TABLE outcomes DETACH PARTITION %I', ends);
    EXECUTE format('INSERT INTO attempts SELECT a.* FROM %I a WHERE a.id = ANY ($1)', tries) USING staying;
    EXECUTE format('INSERT INTO executions SELECT e.* FROM %I e WHERE e.id = ANY ($1)', headers) USING staying;
    EXECUTE format('INSERT INTO outcomes SELECT o.* FROM %I o WHERE o.id = ANY ($1)', ends) USING staying;
    EXECUTE format('DROP TABLE %I, %I, %I', headers, tries, ends);
    RETURN coalesce(cardinality(staying), 0);
EXCEPTION WHEN lock_not_available THEN
    RETURN NULL;
END $$;

-- ---------------------------------------------------------------- bounded walks behind the wall

-- A limit behind the wall counts what the tenant may see: a small tenant's page would walk through everybody's history. These count
-- what they pass, and show nothing but ids; whose they are is asked of each afterwards, behind the wall.

CREATE FUNCTION duly_newest_ids(before uuid, quota integer) RETURNS SETOF uuid LANGUAGE sql STABLE SECURITY DEFINER ROWS 1000
SET search_path = duly, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    SELECT e.id FROM executions e WHERE e.id < before ORDER BY e.id DESC LIMIT quota
$$;

CREATE FUNCTION duly_unusual_ids(ended smallint, before uuid, quota integer) RETURNS SETOF uuid LANGUAGE sql STABLE SECURITY DEFINER ROWS 1000
SET search_path = duly, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    SELECT o.id FROM outcomes o WHERE o.state = ended AND o.state <> 4 AND o.id < before ORDER BY o.id DESC LIMIT quota
$$;

-- The next fires of every shard, so many of each, soonest first. A shard that has more ends the walk of all: what lies past the last
-- fire that was read of it is not known.
CREATE FUNCTION duly_next_fires(before bigint, quota integer) RETURNS TABLE (job_id uuid, next_fire_at bigint, known_until bigint)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 5000
SET search_path = duly, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    WITH found AS MATERIALIZED (
        SELECT x.shard, n.job_id, n.next_fire_at
        FROM shards x
        CROSS JOIN LATERAL (
            SELECT s.job_id, s.next_fire_at FROM schedules s
            WHERE s.shard = x.shard AND NOT s.paused AND s.next_fire_at < before
            ORDER BY s.next_fire_at LIMIT quota
        ) n
    ), cut AS (
        SELECT min(c.last) AS at FROM (SELECT max(f.next_fire_at) AS last FROM found f GROUP BY f.shard HAVING count(*) >= quota) c
    )
    SELECT f.job_id, f.next_fire_at, cut.at FROM found f CROSS JOIN cut WHERE cut.at IS NULL OR f.next_fire_at < cut.at
$$;

-- Nobody but us and the role behind the wall, which is given its rights with the wall.
REVOKE EXECUTE ON FUNCTION duly_newest_ids(uuid, integer), duly_unusual_ids(smallint, uuid, integer), duly_next_fires(bigint, integer) FROM PUBLIC;
