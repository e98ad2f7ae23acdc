-- The outbox: which executions have changed and whom nobody has told yet. Written by triggers, in the transaction of the change, as one
-- row for each statement whatever the number of executions; a herald reads the rest from the history, publishes it and deletes the row.
-- There is no cursor to skip what commits late. The triggers are made when a herald comes and dropped when none has for long: until
-- then nothing of this costs anything.
CREATE TABLE outbox (
    seq       bigint     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind      smallint   NOT NULL,                                -- 0 created, 1 dispatched, 2 an attempt did not succeed, 3 final
    at        bigint     NOT NULL,
    ids       uuid[]     NOT NULL,
    attempts  smallint[] NOT NULL,
    lease_id  bigint,
    worker    bigint
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
ALTER TABLE outbox ALTER COLUMN ids SET STORAGE EXTERNAL, ALTER COLUMN attempts SET STORAGE EXTERNAL;
ALTER TABLE outbox SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Who publishes: one at a time, and when it was last seen.
CREATE TABLE heralds (
    herald   smallint PRIMARY KEY DEFAULT 1 CHECK (herald = 1),
    owner    text     NOT NULL,
    until    bigint   NOT NULL,
    seen_at  bigint   NOT NULL
);

-- No tenant sees anything of either, not even its own: they are for those who act for everybody.
CREATE POLICY others ON outbox USING (current_user <> 'duly_tenant');
CREATE POLICY others ON heralds USING (current_user <> 'duly_tenant');
ALTER TABLE outbox ENABLE ROW LEVEL SECURITY;
ALTER TABLE heralds ENABLE ROW LEVEL SECURITY;

-- With the rights of the owner: whoever changes an execution, in whatever role, is told of.
CREATE FUNCTION duly_note_created() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = duly, pg_temp AS $$
BEGIN
    INSERT INTO outbox (kind, at, ids, attempts)
    SELECT 0, duly_now(), array_agg(f.id), array_agg(0::smallint) FROM fresh f HAVING count(*) > 0;
    RETURN NULL;
END $$;

CREATE FUNCTION duly_note_dispatched() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = duly, pg_temp AS $$
BEGIN
    INSERT INTO outbox (kind, at, ids, attempts, lease_id, worker)
    SELECT 1, f.granted_at, f.ids, f.attempts, f.lease_id, f.worker FROM fresh f;
    RETURN NULL;
END $$;

CREATE FUNCTION duly_note_failed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = duly, pg_temp AS $$
BEGIN
    INSERT INTO outbox (kind, at, ids, attempts)
    SELECT 2, duly_now(), array_agg(f.id), array_agg(f.attempt) FROM fresh f HAVING count(*) > 0;
    RETURN NULL;
END $$;

CREATE FUNCTION duly_note_final() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = duly, pg_temp AS $$
BEGIN
    INSERT INTO outbox (kind, at, ids, attempts)
    SELECT 3, duly_now(), array_agg(f.id), array_agg(f.attempt) FROM fresh f HAVING count(*) > 0;
    RETURN NULL;
END $$;

REVOKE EXECUTE ON FUNCTION duly_note_created(), duly_note_dispatched(), duly_note_failed(), duly_note_final() FROM PUBLIC;

-- From now on every change is noted; from now on none. True when it is so. A lock that is not free soon is left for the next
-- time: whoever waits for it makes everybody behind it wait as well. Rows that retention moves are no news (`duly.moves`).
CREATE FUNCTION duly_note_events(wanted boolean) RETURNS boolean LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'outcomes'::regclass AND tgname = 'note_final') = wanted THEN
        RETURN true;
    END IF;
    PERFORM set_config('lock_timeout', '500ms', true);
    IF wanted THEN
        CREATE TRIGGER note_created AFTER INSERT ON executions REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT
            WHEN (current_setting('duly.moves', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION duly_note_created();
        CREATE TRIGGER note_dispatched AFTER INSERT ON leases REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT
            EXECUTE FUNCTION duly_note_dispatched();
        CREATE TRIGGER note_failed AFTER INSERT ON attempts REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT
            WHEN (current_setting('duly.moves', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION duly_note_failed();
        CREATE TRIGGER note_final AFTER INSERT ON outcomes REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT
            WHEN (current_setting('duly.moves', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION duly_note_final();
    ELSE
        DROP TRIGGER note_created ON executions;
        DROP TRIGGER note_dispatched ON leases;
        DROP TRIGGER note_failed ON attempts;
        DROP TRIGGER note_final ON outcomes;
    END IF;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;
REVOKE EXECUTE ON FUNCTION duly_note_events(boolean) FROM PUBLIC;
