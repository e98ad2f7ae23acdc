-- The second wall between tenants. Every statement names its tenant; should one forget to, the server itself shows and
-- changes nothing of another's. What is asked on behalf of a tenant runs as the role `duly_tenant`, with the tenant in
-- `duly.tenant`, for the length of its transaction. Dispatchers, workers and sweepers act for everybody, as the owner of
-- the tables, and pay nothing for it.

CREATE FUNCTION duly_tenant() RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT nullif(current_setting('duly.tenant', true), '')::integer
$$;

-- Whose job it is: the function sees all, whoever asks. NULL while the job is just being made.
CREATE FUNCTION duly_owner_of_job(id uuid) RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = duly, pg_temp AS $$
    SELECT j.tenant FROM jobs j WHERE j.id = duly_owner_of_job.id
$$;

-- Builds the wall wherever it is missing, and says whether it stands. Called after every upgrade, so a new table is never
-- outside: one with a tenant is walled by it, one of a job or an execution by theirs, and any other must be listed here as
-- shared by all. It takes the right to create a role, or a role that was created and granted by somebody who has it.
CREATE FUNCTION duly_build_wall() RETURNS boolean LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
DECLARE
    -- Numbers and ids only: who waits for what, who holds which place, who serves whom.
    shared constant text[] := ARRAY['routes', 'shards', 'dispatchers', 'waits', 'places', 'gate_waits', 'slots', 'uniques', 'leases', 'audit_progress', 'duly_migrations'];
    by_execution constant text[] := ARRAY['outcomes', 'attempts', 'logs', 'checkpoints', 'settled', 'cancels'];
    one record;
    rule text;
BEGIN
    PERFORM pg_advisory_xact_lock(3859);
    BEGIN
        -- A role belongs to the whole server: another database's Duly may have made it, or be making it now.
        IF to_regrole('duly_tenant') IS NULL THEN
            CREATE ROLE duly_tenant NOLOGIN NOINHERIT;
        END IF;
        EXECUTE format('GRANT duly_tenant TO %I', current_user);
    EXCEPTION
        WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN NULL;
    END;
    IF to_regrole('duly_tenant') IS NULL OR NOT pg_has_role(current_user, 'duly_tenant', 'MEMBER') THEN
        RETURN false;
    END IF;
    GRANT USAGE ON SCHEMA duly TO duly_tenant;
    GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA duly TO duly_tenant;
    GRANT USAGE ON ALL SEQUENCES IN SCHEMA duly TO duly_tenant;
    FOR one IN
        SELECT c.relname AS name, c.relkind AS kind, c.relrowsecurity AS is_walled,
               EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped) AS has_tenant,
               EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'job_id' AND NOT a.attisdropped) AS has_job
        FROM pg_class c
        WHERE c.relnamespace = 'duly'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition
        ORDER BY c.relname
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO duly_tenant', one.name);
        CONTINUE WHEN one.is_walled OR one.kind = 'v' OR one.name = ANY (shared);
        rule := CASE
            -- NULL is a worker of the installation: everybody is served by it.
            WHEN one.name = 'workers' THEN 'USING (tenant IS NULL OR tenant = duly_tenant())'
            WHEN one.has_tenant THEN 'USING (tenant = duly_tenant())'
            WHEN one.has_job THEN 'USING (coalesce(duly_owner_of_job(job_id), duly_tenant()) = duly_tenant())'
            -- The headers have a wall of their own: who sees one may see what hangs on it. Both may be written by one statement.
            WHEN one.name = ANY (by_execution) THEN format('USING (EXISTS (SELECT FROM executions e WHERE e.id = %I.id)) WITH CHECK (true)', one.name)
        END;
        IF rule IS NULL THEN
            RAISE EXCEPTION 'the table % has no place in the wall', one.name;
        END IF;
        EXECUTE format('CREATE POLICY own ON %I TO duly_tenant %s', one.name, rule);
        -- Whoever else was given rights on the tables has them as before: an application that enqueues in its own transaction.
        EXECUTE format('CREATE POLICY others ON %I USING (current_user <> ''duly_tenant'')', one.name);
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', one.name);
    END LOOP;
    RETURN true;
END $$;

-- The view looks with the eyes of the owner, once per execution and not once per table that it joins: half the cost for a list.
DO $$
BEGIN
    EXECUTE 'CREATE OR REPLACE VIEW execution_state AS ' || rtrim(pg_get_viewdef('execution_state'::regclass), ';')
        || ' WHERE duly_tenant() IS NULL OR e.tenant = duly_tenant()';
END $$;
