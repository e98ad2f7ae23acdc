-- Functions for a user's own transaction: an execution is enqueued, or an attempt is completed, with whatever else that transaction
-- writes, or not at all. Any language and any ORM can call them. They run with the caller's rights (docs/how-to/exactly-once.md
-- says which), and find their tables whatever the caller's search_path is.
--
-- A refusal has the SQLSTATE `DU` and the digits of its code (DULY-E204 is DU204), and its message starts with the code.

CREATE FUNCTION duly_refuse(code text, what text, hint text) RETURNS void LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'DU' || right(code, 3), MESSAGE = code || ': ' || what, HINT = hint;
END $$;

-- Version 7 as in domain/ids.py: 48 bits of time, a 26-bit counter, 48 random bits. The counter starts at the microsecond, so that
-- what one session makes call after call is in order as well.
CREATE FUNCTION duly_new_id(at_us bigint, nth bigint) RETURNS uuid LANGUAGE sql VOLATILE SET search_path = duly, pg_temp AS $$
    SELECT (lpad(to_hex(at_us / 1000), 12, '0')
            || '7' || lpad(to_hex(counter >> 14), 3, '0')
            || to_hex(32768 | (counter & 16383))
            || right(gen_random_uuid()::text, 12))::uuid
    FROM (SELECT ((at_us % 1000) << 15) + nth AS counter) c
$$;

-- ---------------------------------------------------------------- enqueue

-- When an execution is due: at a time, after a delay, or now. Days and months of a delay are counted in UTC.
CREATE FUNCTION duly_due(now_us bigint, run_at timestamptz, delay interval) RETURNS bigint LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
DECLARE
    due timestamptz;
BEGIN
    IF run_at IS NOT NULL AND delay IS NOT NULL THEN
        PERFORM duly_refuse('DULY-E106', 'run_at and delay contradict one another.', 'Pass one of them, or neither for now.');
    ELSIF delay < interval '0' THEN
        PERFORM duly_refuse('DULY-E104', format('the delay %s is negative.', delay), 'Pass run_at for a time in the past.');
    ELSIF run_at IS NULL AND delay IS NULL THEN
        RETURN now_us;
    END IF;
    due := coalesce(run_at, (timestamp 'epoch' + now_us * interval '1 microsecond' + delay) AT TIME ZONE 'UTC');
    IF NOT due BETWEEN timestamptz '1970-01-01 00:00:00Z' AND timestamptz '9999-12-31 23:59:59Z' THEN
        PERFORM duly_refuse('DULY-E105', format('%s is no time that can be waited for.', due), 'It lies between the years 1970 and 9999.');
    END IF;
    RETURN (extract(epoch FROM due) * 1000000)::bigint;
END $$;

-- How far ahead of its due time it stands in the queue: HEAD_STARTS of domain/job.py.
CREATE FUNCTION duly_head_start(priority text) RETURNS bigint LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
BEGIN
    CASE upper(priority)
        WHEN 'CRITICAL' THEN RETURN 3600000000;
        WHEN 'HIGH' THEN RETURN 300000000;
        WHEN 'NORMAL' THEN RETURN 0;
        WHEN 'LOW' THEN RETURN -300000000;
        ELSE PERFORM duly_refuse('DULY-E106', format('%L is not a priority.', priority), 'One of CRITICAL, HIGH, NORMAL and LOW.');
    END CASE;
END $$;

-- The values of a key's fields, as domain/limits.py writes them. A field that is not there is null.
CREATE FUNCTION duly_key_texts(payload json, fields json) RETURNS text[] LANGUAGE plpgsql IMMUTABLE SET search_path = duly, pg_temp AS $$
DECLARE
    texts text[] := '{}';
    field text;
    value json;
BEGIN
    FOR field IN SELECT f.field FROM json_array_elements_text(fields) WITH ORDINALITY AS f (field, nth) ORDER BY f.nth LOOP
        value := payload #> string_to_array(field, '.');
        IF json_typeof(value) IN ('object', 'array') THEN
            PERFORM duly_refuse('DULY-E117', format('%L is part of a key, so it must be a plain value.', field), 'Pass text, a number or a boolean.');
        END IF;
        texts := texts || CASE json_typeof(value)
            WHEN 'string' THEN '"' || (payload #>> string_to_array(field, '.')) || '"'
            WHEN 'number' THEN CASE WHEN value::text ~ '^-?[0-9]+$' THEN value::text
                                    ELSE regexp_replace((value::text)::float8::text, '^(-?[0-9]+)$', '\1.0') END
            WHEN 'boolean' THEN value::text
            ELSE 'null' END;
    END LOOP;
    RETURN texts;
END $$;

-- The id of a gate or a unique key: the first half of a SHA-256, as version 8.
CREATE FUNCTION duly_digest(parts text[]) RETURNS uuid LANGUAGE sql IMMUTABLE SET search_path = duly, pg_temp AS $$
    SELECT (substr(hex, 1, 12) || '8' || substr(hex, 14, 3) || substr('89ab', 1 + (get_byte(decode('0' || substr(hex, 17, 1), 'hex'), 0) & 3), 1) || substr(hex, 18, 15))::uuid
    FROM (SELECT encode(substring(sha256(convert_to(array_to_string(parts, chr(31)), 'UTF8')) FROM 1 FOR 16), 'hex') AS hex) h
$$;

-- The gates of an execution with this payload, in the order in which it passes them: gates_of in domain/limits.py.
CREATE FUNCTION duly_gates(limits json, tenant integer, job uuid, job_name text, payload json)
RETURNS TABLE (gate uuid, capacity integer, lasts bigint, about json) LANGUAGE plpgsql STABLE SET search_path = duly, pg_temp AS $$
#variable_conflict use_column
DECLARE
    one json;
    texts text[];
    whose text;
    kind text;
BEGIN
    -- Keyed before plain, running before starting.
    FOR kind, one IN
        SELECT k.kind, k.one
        FROM (VALUES ('job', json_build_object('max', limits -> 'max_concurrent', 'key', '[]'::json), 0),
                     ('concurrency', limits -> 'concurrency', 0), ('rate', limits -> 'rate', 1)) AS k (kind, one, starting)
        WHERE json_typeof(k.one) = 'object' AND coalesce(json_typeof(k.one -> 'max'), 'x') <> 'null'
        ORDER BY json_array_length(k.one -> 'key') = 0, k.starting, k.kind = 'concurrency'
    LOOP
        texts := duly_key_texts(payload, one -> 'key');
        whose := CASE WHEN one ->> 'name' IS NULL THEN replace(job::text, '-', '') ELSE tenant || '/' || (one ->> 'name') END;
        gate := duly_digest(ARRAY[kind, whose] || texts);
        capacity := coalesce(one ->> 'max', one ->> 'count')::int;
        lasts := (one ->> 'per')::bigint;
        about := json_strip_nulls(json_build_object('limit', kind, 'job', CASE WHEN one ->> 'name' IS NULL THEN job_name END, 'name', one ->> 'name',
                 'key', CASE WHEN json_array_length(one -> 'key') > 0 THEN
                    (SELECT json_object_agg(f.field, payload #> string_to_array(f.field, '.')) FROM json_array_elements_text(one -> 'key') AS f (field)) END));
        RETURN NEXT;
    END LOOP;
END $$;

-- One execution of a job that has limits or a unique key: it waits in `timers`, due at once, and promotion sees it through its
-- gates. Returns its id, or that of whoever has the unique key.
CREATE FUNCTION duly_enqueue_limited(job jobs, route integer, limits json, shard integer, payload json, own_payload json, due_us bigint, rank_us bigint,
                                     now_us bigint, nth bigint) RETURNS uuid LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
#variable_conflict use_column
DECLARE
    new_id uuid := duly_new_id(now_us, nth);
    holder uuid;
    unique_key uuid;
    gates uuid[];
    seen json := coalesce(payload, own_payload);
BEGIN
    IF json_typeof(limits -> 'unique') = 'object' THEN
        unique_key := duly_digest(ARRAY['unique', replace((job).id::text, '-', '')]
            || CASE WHEN json_array_length(limits #> '{unique,key}') > 0 THEN duly_key_texts(seen, limits #> '{unique,key}')
                    ELSE ARRAY[coalesce(seen::jsonb::text, 'null')] END);
        INSERT INTO uniques AS u (key, id, until) VALUES (unique_key, new_id, now_us + (limits #>> '{unique,window}')::bigint)
        ON CONFLICT (key) DO UPDATE SET id = excluded.id, until = excluded.until
        WHERE u.until <= now_us OR (u.until IS NULL AND EXISTS (SELECT FROM outcomes o WHERE o.id = u.id));
        IF NOT FOUND THEN
            SELECT u.id INTO holder FROM uniques u WHERE u.key = unique_key;
            RETURN holder;
        END IF;
    END IF;
    INSERT INTO gates AS g (gate, tenant, shard, capacity, lasts, about)
    SELECT n.gate, (job).tenant, get_byte(uuid_send(n.gate), 15) & 63, n.capacity, n.lasts, n.about
    FROM duly_gates(limits, (job).tenant, (job).id, (job).name, seen) n ORDER BY n.gate
    -- Locked, if it is there: whoever clears gates away waits for us.
    ON CONFLICT (gate) DO UPDATE SET capacity = excluded.capacity, lasts = excluded.lasts;
    SELECT array_agg(n.gate) INTO gates FROM duly_gates(limits, (job).tenant, (job).id, (job).name, seen) n;
    INSERT INTO executions (id, job_id, job_version, tenant, route, trigger, due_at, rank, created_at, payload, gates)
    VALUES (new_id, (job).id, (job).version, (job).tenant, route, 1, due_us, rank_us, now_us, payload, gates);
    INSERT INTO timers (id, shard, due_at, route, tenant, rank, attempt, failures, gated)
    VALUES (new_id, shard, due_us, route, (job).tenant, rank_us, 1, 0, gates IS NOT NULL);
    RETURN new_id;
END $$;

-- Executions of one job, one for each element of the array `payloads` (null: the job's own payload), in its order. Writes what
-- the statement `enqueue` writes: headers, then `ready` for what is due and `timers` for the rest.
CREATE FUNCTION duly_enqueue_many(job text, payloads json, run_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL,
                                  priority text DEFAULT NULL, tenant text DEFAULT 'default')
RETURNS SETOF text LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
#variable_conflict use_column
DECLARE
    target record;
    longest bigint;
    now_us bigint := duly_now();
    due_us bigint := duly_due(now_us, duly_enqueue_many.run_at, duly_enqueue_many.delay);
    rank_us bigint;
BEGIN
    SELECT j.id, j.tenant, j.version, j AS job, v.route, v.definition ->> 'priority' AS priority, v.definition -> 'limits' AS limits,
           (v.definition ->> 'payload')::json AS own_payload,
           -- Promotion reads the timers of every shard, and a cancel finds one by its id: any shard is right that is always the same.
           -- The schedule's is the one that the other statements use for this job; without one, the last bits of its id.
           coalesce(s.shard, get_byte(uuid_send(j.id), 15) & 63) AS shard
    INTO target
    FROM tenants t
    JOIN jobs j ON j.tenant = t.tenant AND j.name = duly_enqueue_many.job AND j.state <> 3
    JOIN job_versions v ON v.id = j.version
    LEFT JOIN schedules s ON s.job_id = j.id
    WHERE t.name = duly_enqueue_many.tenant;
    IF NOT FOUND THEN
        IF EXISTS (SELECT FROM tenants t JOIN jobs j ON j.tenant = t.tenant AND j.name = duly_enqueue_many.job WHERE t.name = duly_enqueue_many.tenant) THEN
            PERFORM duly_refuse('DULY-E210', format('the job %L is cancelled.', duly_enqueue_many.job), 'Create a new one.');
        END IF;
        PERFORM duly_refuse('DULY-E204', format('the tenant %L has no job %L.', duly_enqueue_many.tenant, duly_enqueue_many.job),
                            'Publish it first: start a worker of its application, or create it through the API.');
    END IF;
    IF json_typeof(payloads) IS DISTINCT FROM 'array' THEN
        PERFORM duly_refuse('DULY-E107', 'payloads is not a JSON array.', 'Pass one element for each execution; null stands for the job''s own payload.');
    END IF;
    SELECT max(octet_length(p.payload::text)) INTO longest FROM json_array_elements(payloads) AS p (payload);
    IF longest > 262144 THEN
        PERFORM duly_refuse('DULY-E109', format('a payload has %s bytes; at most 262144 are kept.', longest), 'Keep it elsewhere and pass a reference.');
    ELSIF strpos(payloads::text, chr(92) || 'u0000') > 0 THEN
        PERFORM duly_refuse('DULY-E110', 'a payload contains a NUL character, which cannot be stored.', 'Leave it out.');
    END IF;
    rank_us := due_us - duly_head_start(coalesce(duly_enqueue_many.priority, target.priority));

    IF json_strip_nulls(target.limits)::text <> '{}' THEN
        RETURN QUERY
        SELECT 'run_' || replace(duly_enqueue_limited(target.job, target.route, target.limits, target.shard, p.payload, target.own_payload, due_us, rank_us, now_us, p.nth)::text, '-', '')
        FROM (SELECT CASE json_typeof(e.payload) WHEN 'null' THEN NULL ELSE e.payload END AS payload, e.nth
              FROM json_array_elements(payloads) WITH ORDINALITY AS e (payload, nth)) p
        ORDER BY p.nth;
        PERFORM pg_notify('duly_ready', ' ' || due_us);
        RETURN;
    END IF;

    RETURN QUERY
    WITH wanted AS MATERIALIZED (
        SELECT duly_new_id(now_us, p.nth) AS id, p.nth, CASE json_typeof(p.payload) WHEN 'null' THEN NULL ELSE p.payload END AS payload
        FROM json_array_elements(payloads) WITH ORDINALITY AS p (payload, nth)
    ), header AS (
        INSERT INTO executions (id, job_id, job_version, tenant, route, trigger, due_at, rank, created_at, payload)
        SELECT w.id, target.id, target.version, target.tenant, target.route, 1, due_us, rank_us, now_us, w.payload FROM wanted w ORDER BY w.nth
    ), made_ready AS (
        INSERT INTO ready (route, tenant, rank, id, attempt, failures)
        SELECT target.route, target.tenant, rank_us, w.id, 1, 0 FROM wanted w WHERE due_us <= now_us ORDER BY w.nth
    ), made_timer AS (
        INSERT INTO timers (id, shard, due_at, route, tenant, rank, attempt, failures)
        SELECT w.id, target.shard, due_us, target.route, target.tenant, rank_us, 1, 0 FROM wanted w WHERE due_us > now_us ORDER BY w.nth
    )
    SELECT 'run_' || replace(w.id::text, '-', '') FROM wanted w ORDER BY w.nth;

    -- Heard when the caller commits (transport_postgres.py); equal words of one transaction are sent once.
    IF FOUND THEN
        PERFORM pg_notify('duly_ready', CASE WHEN due_us <= now_us THEN 'ready' ELSE ' ' || due_us END);
    END IF;
END $$;

-- One execution of a job; returns its id. `payload` NULL: the job's own.
CREATE FUNCTION duly_enqueue(job text, payload jsonb DEFAULT NULL, run_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL,
                             priority text DEFAULT NULL, tenant text DEFAULT 'default')
RETURNS text LANGUAGE sql VOLATILE SET search_path = duly, pg_temp AS $$
    SELECT * FROM duly_enqueue_many($1, json_build_array($2), $3, $4, $5, $6)
$$;

-- ---------------------------------------------------------------- complete

-- Which of these executions have not ended. It waits for a transaction that completes one of them: whoever ends an attempt locks
-- its header first, because a lease is locked by all who end something in it. Called from inside a statement it still sees what
-- was committed while it waited: a volatile function's statements have snapshots of their own.
CREATE FUNCTION duly_unended(ids uuid[]) RETURNS SETOF uuid LANGUAGE plpgsql VOLATILE SET search_path = duly, pg_temp AS $$
BEGIN
    PERFORM FROM (SELECT f.id FROM unnest(ids) AS f (id) ORDER BY f.id) f
    CROSS JOIN LATERAL (SELECT FROM executions e WHERE e.id = f.id FOR NO KEY UPDATE) e;
    RETURN QUERY SELECT f.id FROM unnest(ids) AS f (id) WHERE (SELECT o.id FROM outcomes o WHERE o.id = f.id) IS NULL;
END $$;

-- Ends an attempt as succeeded under its lease. False, and nothing written: the lease is gone or never held it, or the execution has
-- ended otherwise or in an earlier transaction; the caller must roll back, or its effect happens without its end, or twice. Called
-- again in the same transaction it is true again. Places are passed on, and the lease is closed, by the worker's report that
-- follows the commit; should there be none, by the sweeper.
CREATE FUNCTION duly_end(lease bigint, execution uuid, result json, started_at bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
#variable_conflict use_column
DECLARE
    held leases;
    header executions;
    try smallint;
    this text := format('%s/%s', lease, execution);
BEGIN
    IF octet_length(result::text) > 1048576 THEN
        PERFORM duly_refuse('DULY-E109', format('the result has %s bytes; at most 1048576 are kept.', octet_length(result::text)),
                            'Keep it elsewhere and pass a reference.');
    END IF;
    SELECT l.* INTO held FROM leases l WHERE l.lease_id = lease FOR SHARE;
    try := held.attempts[array_position(held.ids, execution)];
    IF try IS NULL THEN
        RETURN false;
    END IF;
    SELECT e.* INTO header FROM executions e WHERE e.id = execution FOR NO KEY UPDATE;
    IF EXISTS (SELECT FROM attempts a WHERE a.id = execution AND a.attempt = try) THEN
        RETURN false;
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        -- This transaction's snapshot may be older than the lock, and not show how the attempt ended meanwhile. The key shows it: the
        -- insert fails for a row that the snapshot lacks, and the whole transaction with it.
        INSERT INTO attempts (id, attempt, outcome, lease_id, worker, finished_at) VALUES (execution, try, 1, lease, held.worker, 0) ON CONFLICT DO NOTHING;
        DELETE FROM attempts a WHERE a.id = execution AND a.attempt = try AND a.outcome = 1;
    END IF;
    INSERT INTO outcomes (id, state, attempt, lease_id, worker, started_at, finished_at, result)
    VALUES (execution, 4, try, lease, held.worker, coalesce(duly_end.started_at, held.granted_at), duly_now(), duly_end.result)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN coalesce(current_setting('duly.ended', true) = this, false);
    END IF;
    -- Forgotten with the transaction, or with the savepoint that is rolled back.
    PERFORM set_config('duly.ended', this, true);
    IF header.holds_place THEN
        DELETE FROM places p WHERE p.job_id = header.job_id AND p.id = execution;
    END IF;
    DELETE FROM slots s WHERE s.id = execution AND s.attempt = try AND s.lasts IS NULL;
    UPDATE slots s SET until = coalesce(duly_end.started_at, held.granted_at) + s.lasts WHERE s.id = execution AND s.attempt = try AND s.lasts IS NOT NULL;
    RETURN true;
END $$;

-- The same for callers that have the execution's id as people see it.
CREATE FUNCTION duly_complete(lease bigint, execution text, result jsonb DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
BEGIN
    IF execution !~ '^run_[0-9a-f]{32}$' THEN
        PERFORM duly_refuse('DULY-E111', format('%L is not an id.', left(execution, 60)), 'Ids look like run_0198c2…, with 32 hexadecimal digits.');
    END IF;
    RETURN duly_end(lease, right(execution, 32)::uuid, result::json, NULL);
END $$;

-- ---------------------------------------------------------------- without the schema's name

-- The same names in `public`, where most callers look, if whoever migrates may create them there and nobody else has taken them.
DO $do$
BEGIN
    IF to_regnamespace('public') IS NULL OR NOT has_schema_privilege('public', 'CREATE') THEN
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname = 'duly_enqueue') THEN
        CREATE FUNCTION public.duly_enqueue(job text, payload jsonb DEFAULT NULL, run_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL,
                                            priority text DEFAULT NULL, tenant text DEFAULT 'default')
        RETURNS text LANGUAGE sql VOLATILE SET search_path = duly, pg_temp AS 'SELECT duly.duly_enqueue($1, $2, $3, $4, $5, $6)';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname = 'duly_complete') THEN
        CREATE FUNCTION public.duly_complete(lease bigint, execution text, result jsonb DEFAULT NULL)
        RETURNS boolean LANGUAGE sql VOLATILE SET search_path = duly, pg_temp AS 'SELECT duly.duly_complete($1, $2, $3)';
    END IF;
END $do$;
