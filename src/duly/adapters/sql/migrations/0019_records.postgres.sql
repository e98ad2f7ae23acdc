-- ---------------------------------------------------------------- what analysts get

-- Which executions have ended and were not exported yet. Written by a trigger, in the transaction that ends them, as one row for each
-- statement; the exporter reads the rest from the history and deletes the row. There is no cursor to skip what commits late. The trigger
-- is made when an exporter comes and dropped when none has for long: until then nothing of this costs anything.
CREATE TABLE unexported (
    seq  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ids  uuid[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
ALTER TABLE unexported ALTER COLUMN ids SET STORAGE EXTERNAL;

-- Who exports: one at a time, when it was last seen, and how far it is with what had ended before it came.
CREATE TABLE exporters (
    exporter    smallint PRIMARY KEY DEFAULT 1 CHECK (exporter = 1),
    owner       text     NOT NULL,
    until       bigint   NOT NULL,
    seen_at     bigint   NOT NULL,
    reached     uuid,
    is_through  boolean  NOT NULL DEFAULT false
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

-- No tenant sees anything of either, not even its own: they are for those who act for everybody.
CREATE POLICY others ON unexported USING (current_user <> 'duly_tenant');
CREATE POLICY others ON exporters USING (current_user <> 'duly_tenant');
ALTER TABLE unexported ENABLE ROW LEVEL SECURITY;
ALTER TABLE exporters ENABLE ROW LEVEL SECURITY;

-- With the rights of the owner: whoever ends an execution, in whatever role, is told of.
CREATE FUNCTION duly_note_unexported() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = duly, pg_temp AS $$
BEGIN
    INSERT INTO unexported (ids) SELECT array_agg(f.id) FROM fresh f HAVING count(*) > 0;
    RETURN NULL;
END $$;
REVOKE EXECUTE ON FUNCTION duly_note_unexported() FROM PUBLIC;

-- From now on every end is noted; from now on none. True when it is so. Making the trigger waits for everybody who is writing an
-- outcome, so what is not noted has committed when this returns. A lock that is not free soon is left for the next time.
CREATE FUNCTION duly_note_records(wanted boolean) RETURNS boolean LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'outcomes'::regclass AND tgname = 'note_unexported') = wanted THEN
        RETURN true;
    END IF;
    PERFORM set_config('lock_timeout', '500ms', true);
    IF wanted THEN
        CREATE TRIGGER note_unexported AFTER INSERT ON outcomes REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT
            WHEN (current_setting('duly.moves', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION duly_note_unexported();
    ELSE
        DROP TRIGGER note_unexported ON outcomes;
    END IF;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;
REVOKE EXECUTE ON FUNCTION duly_note_records(boolean) FROM PUBLIC;

-- A finished execution, flat; with the eyes of the owner, so its own WHERE keeps tenants apart.
CREATE VIEW records AS
SELECT o.id, e.tenant AS tenant_number, t.name AS tenant, coalesce(v.workflow, v.job_id) AS job_id,
       (SELECT j.name FROM jobs j WHERE j.id = coalesce(v.workflow, v.job_id)) AS job,
       v.definition -> 'step' ->> 'name' AS step, v.version, r.pool, r.handler, e.trigger, o.state, e.skip_reason, o.attempt AS attempts,
       coalesce(e.scheduled_at, e.due_at) AS scheduled_at, e.due_at, e.created_at, o.started_at, o.finished_at,
       (SELECT a.started_at FROM attempts a WHERE a.id = o.id AND a.attempt = 1) AS first_started_at,
       (SELECT a.retry_at FROM attempts a WHERE a.id = o.id AND a.attempt = o.attempt - 1) AS attempt_due_at,
       (SELECT count(*) FROM attempts a WHERE a.id = o.id AND a.outcome = 2) AS failed,
       (SELECT count(*) FROM attempts a WHERE a.id = o.id AND a.outcome = 3) AS timed_out,
       (SELECT count(*) FROM attempts a WHERE a.id = o.id AND a.outcome = 4) AS lost,
       (SELECT count(*) FROM attempts a WHERE a.id = o.id AND a.outcome = 6) AS released,
       coalesce(o.error, (SELECT a.error FROM attempts a WHERE a.id = o.id ORDER BY a.attempt DESC LIMIT 1)) AS error
FROM outcomes o
JOIN executions e ON e.id = o.id
JOIN job_versions v ON v.id = e.job_version
JOIN routes r ON r.route = e.route
JOIN tenants t ON t.tenant = e.tenant
WHERE duly_tenant() IS NULL OR e.tenant = duly_tenant();

-- A bounded walk behind the wall, as in migration 0009, oldest first: nothing but ids; whose they are is asked of each afterwards.
CREATE FUNCTION duly_ids_between(after uuid, before uuid, quota integer) RETURNS SETOF uuid LANGUAGE sql STABLE SECURITY DEFINER ROWS 1000
SET search_path = duly, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    SELECT e.id FROM executions e WHERE e.id > after AND e.id < before ORDER BY e.id LIMIT quota
$$;
REVOKE EXECUTE ON FUNCTION duly_ids_between(uuid, uuid, integer) FROM PUBLIC;

-- ---------------------------------------------------------------- logs by the day

-- Lines are partitioned by the time in their ids, as the rest of history: a day is dropped, not deleted line by line. What was logged before
-- this migration stays where it is, as the partition of everything before the day after tomorrow, and is deleted line by line as it was
-- until then; when it is empty it goes. Taking it in needs one look at all of it, while nobody can log; nothing is copied.
CREATE SEQUENCE log_numbers;

DO $$
DECLARE
    -- Past every id that there is: some may be of a clock that was ahead.
    first_day constant bigint := 86400000000 * (greatest(
        duly_now(),
        coalesce((SELECT ('x' || left(replace(max(l.id::text), '-', ''), 12))::bit(48)::bigint * 1000 FROM (SELECT id FROM logs ORDER BY id DESC LIMIT 1) l), 0)
    ) / 86400000000 + 2);
    before constant text := 'logs_before_' || duly_partition_suffix(first_day);
    had_lines constant boolean := EXISTS (SELECT FROM logs);
BEGIN
    PERFORM setval('log_numbers', coalesce((SELECT max(seq) FROM logs), 0) + 1, false);
    IF had_lines THEN
        ALTER TABLE logs ALTER COLUMN seq DROP IDENTITY;
        EXECUTE format('ALTER TABLE logs RENAME TO %I', before);
        EXECUTE format('ALTER INDEX logs_pkey RENAME TO %I', before || '_pkey');
    ELSE
        DROP TABLE logs;
    END IF;
    CREATE TABLE logs (
        id       uuid     NOT NULL,
        seq      bigint   NOT NULL DEFAULT nextval('log_numbers'),
        attempt  smallint NOT NULL,
        at       bigint   NOT NULL,
        level    text     NOT NULL,
        message  text     NOT NULL,
        fields   json,
        PRIMARY KEY (id, seq)
    ) PARTITION BY RANGE (id);
    ALTER SEQUENCE log_numbers OWNED BY logs.seq;
    CREATE TABLE logs_default PARTITION OF logs DEFAULT;
    PERFORM duly_set_vacuum_of_history('logs_default');
    IF had_lines THEN
        EXECUTE format('ALTER TABLE logs ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%L)', before, duly_id_floor(first_day));
    END IF;
END $$;

-- As before, with the day's lines. A day that the old lines reach into has no partition of its own for them.
CREATE OR REPLACE FUNCTION duly_create_partitions(from_us bigint, to_us bigint) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    parent text;
    child  text;
    made   integer := 0;
BEGIN
    PERFORM set_config('lock_timeout', '200ms', true);
    PERFORM pg_advisory_xact_lock(3860);                          -- one pruner at a time
    FOREACH parent IN ARRAY ARRAY['executions', 'outcomes', 'attempts', 'logs'] LOOP
        child := format('%s_%s', parent, duly_partition_suffix(from_us));
        IF to_regclass(child) IS NULL AND NOT (parent = 'logs' AND duly_partition_suffix(from_us) < coalesce(duly_old_logs_until(), '')) THEN
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', child, parent, duly_id_floor(from_us), duly_id_floor(to_us));
            PERFORM duly_set_vacuum_of_history(child);
            made := made + 1;
        END IF;
    END LOOP;
    RETURN made;
EXCEPTION WHEN check_violation OR lock_not_available THEN
    RETURN 0;
END $$;

-- The day before which lines stand together, as the suffix of a name; NULL when there are none of those.
CREATE FUNCTION duly_old_logs_until() RETURNS text LANGUAGE sql STABLE SET search_path = duly, pg_temp AS $$
    SELECT max(right(c.relname, 8)) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'logs'::regclass AND c.relname ~ '^logs_before_[0-9]{8}$'
$$;

-- Lines that stand in no day: of what finished long ago, and of what is gone, in small batches. Nobody changes a line, so it is still
-- where it was found. What stands together from before goes when it is empty and nothing can be written to it any more.
CREATE FUNCTION duly_drop_old_logs(before uuid, finished_before bigint, quota integer) RETURNS bigint LANGUAGE plpgsql
SET search_path = duly, pg_temp AS $$
DECLARE
    old     text := 'logs_before_' || duly_old_logs_until();
    dropped bigint := 0;
    removed bigint;
    place   text;
BEGIN
    FOREACH place IN ARRAY array_remove(ARRAY['logs_default', old], NULL) LOOP
        EXECUTE format('DELETE FROM %1$I WHERE ctid = ANY (ARRAY('
                       ' SELECT l.ctid FROM %1$I l'
                       ' LEFT JOIN LATERAL (SELECT o.finished_at FROM outcomes o WHERE o.id = l.id OFFSET 0) o ON true'
                       ' WHERE l.id < $1 AND (o.finished_at < $2 OR (SELECT e.id FROM executions e WHERE e.id = l.id) IS NULL)'
                       ' ORDER BY l.id LIMIT $3))', place)
            USING before, finished_before, quota;
        GET DIAGNOSTICS removed = ROW_COUNT;
        dropped := dropped + removed;
    END LOOP;
    IF old IS NOT NULL AND dropped = 0 AND duly_old_logs_until() <= duly_partition_suffix(finished_before) THEN
        PERFORM set_config('lock_timeout', '200ms', true);
        EXECUTE format('SELECT count(*) FROM (SELECT FROM %I LIMIT 1) l', old) INTO removed;
        IF removed = 0 THEN
            EXECUTE format('DROP TABLE %I', old);
        END IF;
    END IF;
    RETURN dropped;
EXCEPTION WHEN lock_not_available THEN
    RETURN dropped;
END $$;
REVOKE EXECUTE ON FUNCTION duly_drop_old_logs(uuid, bigint, integer) FROM PUBLIC;

-- As before, with the day's lines.
CREATE OR REPLACE FUNCTION duly_drop_partitions(from_us bigint, before_us bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    suffix text := duly_partition_suffix(from_us);
    headers text := 'executions_' || suffix;
    tries   text := 'attempts_' || suffix;
    ends    text := 'outcomes_' || suffix;
    -- NULL for a day that is older than this partition of lines.
    lines   text := (SELECT 'logs_' || suffix WHERE to_regclass('logs_' || suffix) IS NOT NULL);
    staying uuid[];
BEGIN
    PERFORM set_config('lock_timeout', '200ms', true);
    PERFORM pg_advisory_xact_lock(3860);
    IF to_regclass(headers) IS NULL THEN
        RETURN NULL;
    END IF;
    EXECUTE format('LOCK TABLE %I, %I, %I IN SHARE MODE', headers, tries, ends);
    -- A statement of its own: its snapshot is younger than the lock.
    EXECUTE format('SELECT array_agg(e.id) FROM %I e WHERE NOT EXISTS (SELECT FROM %I o WHERE o.id = e.id AND o.finished_at < $1)'
                   ' OR (e.run IS NOT NULL AND duly_is_under_way(e.run))', headers, ends)
        INTO staying USING before_us;
    EXECUTE format('ALTER TABLE executions DETACH PARTITION %I', headers);
    EXECUTE format('ALTER TABLE attempts DETACH PARTITION %I', tries);
    EXECUTE format('ALTER TABLE outcomes DETACH PARTITION %I', ends);
    IF lines IS NOT NULL THEN
        EXECUTE format('ALTER TABLE logs DETACH PARTITION %I', lines);
        EXECUTE format('INSERT INTO logs SELECT l.* FROM %I l WHERE l.id = ANY ($1)', lines) USING staying;
    END IF;
    EXECUTE format('INSERT INTO attempts SELECT a.* FROM %I a WHERE a.id = ANY ($1)', tries) USING staying;
    EXECUTE format('INSERT INTO executions SELECT e.* FROM %I e WHERE e.id = ANY ($1)', headers) USING staying;
    EXECUTE format('INSERT INTO outcomes SELECT o.* FROM %I o WHERE o.id = ANY ($1)', ends) USING staying;
    EXECUTE format('DROP TABLE %I, %I, %I', headers, tries, ends);
    IF lines IS NOT NULL THEN
        EXECUTE format('DROP TABLE %I', lines);
    END IF;
    RETURN coalesce(cardinality(staying), 0);
EXCEPTION WHEN lock_not_available THEN
    RETURN NULL;
END $$;
