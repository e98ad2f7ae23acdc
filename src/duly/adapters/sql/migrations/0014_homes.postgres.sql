-- More than one store: where a tenant lives, and how it leaves (docs/decisions/0023-several-stores.md).

-- standing: 0 here, 1 leaving, 2 arriving, 3 gone; store: the other side of that, by its name.
ALTER TABLE tenants
    ADD COLUMN standing smallint NOT NULL DEFAULT 0,
    ADD COLUMN store text;

CREATE FUNCTION duly_refuse_moving() RETURNS trigger LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
BEGIN
    PERFORM duly_refuse('DULY-E405', 'the tenant is on its way to another store.', 'Try again in a moment.');
    RETURN NULL;
END $$;

-- What would become ready of a tenant that leaves waits for its time instead, in a shard that nobody owns.
CREATE FUNCTION duly_ready_sleeps() RETURNS trigger LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
BEGIN
    INSERT INTO timers (id, shard, due_at, route, tenant, rank, attempt, failures)
    VALUES (NEW.id, -1 - (get_byte(uuid_send(NEW.id), 15) & 63), coalesce((SELECT e.due_at FROM executions e WHERE e.id = NEW.id), NEW.rank),
            NEW.route, NEW.tenant, NEW.rank, NEW.attempt, NEW.failures);
    RETURN NULL;
END $$;

CREATE FUNCTION duly_timer_sleeps() RETURNS trigger LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
BEGIN
    NEW.shard := -1 - NEW.shard;
    RETURN NEW;
END $$;

-- The guards of one tenant, made for the time of its move: rows of others only meet a comparison. `asked` refuses what people ask
-- for (all of that goes with a record), `new` refuses new executions, `work` keeps what waits from being run. Between `asked` and
-- `new` its schedules are put to sleep, so that no batch of fires meets a guard. A lock that is not free at once is left for the
-- next try: false.
CREATE FUNCTION duly_hold_tenant(number integer, what text) RETURNS boolean LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
DECLARE
    called text := 'moving_' || number;
    refuse constant text := 'CREATE OR REPLACE TRIGGER %I BEFORE INSERT ON %I FOR EACH ROW WHEN (NEW.tenant = %s) EXECUTE FUNCTION duly_refuse_moving()';
BEGIN
    PERFORM set_config('lock_timeout', '300ms', true);
    IF what = 'asked' THEN
        EXECUTE format(refuse, called, 'audit', number);
    ELSIF what = 'new' THEN
        EXECUTE format(refuse, called, 'executions', number);
    ELSE
        EXECUTE format('CREATE OR REPLACE TRIGGER %I BEFORE INSERT ON ready FOR EACH ROW WHEN (NEW.tenant = %s) EXECUTE FUNCTION duly_ready_sleeps()', called, number);
        EXECUTE format('CREATE OR REPLACE TRIGGER %I BEFORE INSERT ON timers FOR EACH ROW WHEN (NEW.tenant = %s AND NEW.shard >= 0) EXECUTE FUNCTION duly_timer_sleeps()', called, number);
    END IF;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

CREATE FUNCTION duly_release_tenant(number integer) RETURNS boolean LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
DECLARE
    called text := 'moving_' || number;
    guarded text;
BEGIN
    PERFORM set_config('lock_timeout', '300ms', true);
    FOREACH guarded IN ARRAY ARRAY['audit', 'executions', 'ready', 'timers'] LOOP
        IF EXISTS (SELECT FROM pg_trigger t WHERE t.tgname = called AND t.tgrelid = guarded::regclass) THEN
            EXECUTE format('DROP TRIGGER %I ON %I', called, guarded);
        END IF;
    END LOOP;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;
