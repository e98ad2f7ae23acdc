-- Tenants with quotas. A quota that is NULL is none.

ALTER TABLE tenants
    ADD COLUMN max_jobs integer,
    ADD COLUMN max_queued integer,
    ADD COLUMN max_concurrent integer,
    ADD COLUMN max_fires_per_minute integer,
    ADD COLUMN max_payload_bytes integer,
    ADD COLUMN retention_days integer,
    ADD COLUMN version integer NOT NULL DEFAULT 1,
    ADD COLUMN created_at bigint NOT NULL DEFAULT 0;

-- How much a tenant holds of what a quota bounds: what a count has found, and what was granted since. Together they are never less than
-- what the grants have brought. Whoever grants locks the row, so a quota is exact; only tenants that have the quota have the row.
CREATE TABLE headroom (
    tenant      integer  NOT NULL,
    kind        smallint NOT NULL,                                -- 0 jobs, 1 executions that wait
    counted     bigint   NOT NULL DEFAULT 0,
    granted     bigint   NOT NULL DEFAULT 0,
    counted_at  bigint,                                           -- NULL: to be counted by whoever comes next
    PRIMARY KEY (tenant, kind)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

-- How many executions came in, by the second, of tenants whose rate is bounded.
CREATE TABLE fires (
    tenant  integer NOT NULL,
    second  bigint  NOT NULL,
    count   integer NOT NULL,
    PRIMARY KEY (tenant, second)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

-- A tenant's own gate is there before anybody comes to it, and is never cleared away.
ALTER TABLE gates ADD COLUMN kept boolean NOT NULL DEFAULT false;

-- What a count walks along.
CREATE INDEX jobs_live ON jobs (tenant) WHERE state < 2;
CREATE INDEX tenants_bounded ON tenants (tenant)
WHERE coalesce(max_jobs, max_queued, max_concurrent, max_fires_per_minute, max_payload_bytes, retention_days) IS NOT NULL;
CREATE INDEX timers_of_tenant ON timers (tenant);
CREATE INDEX blocked_of_tenant ON blocked (tenant);

-- ---------------------------------------------------------------- functions

-- The gates of a tenant's quotas, in their order: tenant_gates in domain/tenants.py.
CREATE FUNCTION duly_tenant_gates(tenant integer) RETURNS uuid[] LANGUAGE sql STABLE SET search_path = duly, pg_temp AS $$
    SELECT CASE WHEN t.max_concurrent IS NULL THEN '{}'::uuid[] ELSE ARRAY[duly_digest(ARRAY['tenant', t.tenant::text, 'maxConcurrent'])] END
           || CASE WHEN t.max_fires_per_minute IS NULL THEN '{}'::uuid[] ELSE ARRAY[duly_digest(ARRAY['tenant', t.tenant::text, 'maxFiresPerMinute'])] END
    FROM tenants t WHERE t.tenant = $1
$$;

-- How many executions of a tenant wait, counted no further than `most`. Along the keys, whatever the statistics say: they are old where
-- rows come and go by the thousand, and nobody's count may walk through somebody else's flood.
CREATE FUNCTION duly_count_queued(tenant integer, most bigint) RETURNS bigint LANGUAGE sql VOLATILE SET search_path = duly, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    SELECT count(*) FROM (
        SELECT FROM (
            SELECT FROM timers t WHERE t.tenant = $1
            UNION ALL
            SELECT FROM blocked b WHERE b.tenant = $1
            UNION ALL
            SELECT FROM routes r CROSS JOIN LATERAL (SELECT FROM ready q WHERE q.route = r.route AND q.tenant = $1) w
        ) waiting LIMIT $2
    ) counted
$$;

-- Whether so many more may come in: admit_executions in adapters/sql/quotas.py. The lock lasts as long as the caller's transaction. A
-- volatile function's statements have snapshots of their own, so what it counts is younger than its lock.
CREATE FUNCTION duly_admit(tenant integer, wanted bigint, now_us bigint) RETURNS void LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
#variable_conflict use_column
DECLARE
    room headroom;
    queued bigint;
    rate bigint;
    came bigint;
BEGIN
    INSERT INTO headroom (tenant, kind) VALUES (duly_admit.tenant, 1) ON CONFLICT DO NOTHING;
    SELECT h.* INTO room FROM headroom h WHERE h.tenant = duly_admit.tenant AND h.kind = 1 FOR UPDATE;
    SELECT t.max_queued, t.max_fires_per_minute INTO queued, rate FROM tenants t WHERE t.tenant = duly_admit.tenant;
    IF queued IS NOT NULL THEN
        IF room.counted_at IS NULL OR room.counted_at > now_us OR now_us - room.counted_at > 1000000 OR room.counted + room.granted + wanted > queued THEN
            room.counted := duly_count_queued(duly_admit.tenant, queued + 1);
            room.granted := 0;
            room.counted_at := now_us;
        END IF;
        IF room.counted + room.granted + wanted > queued THEN
            PERFORM duly_refuse('DULY-E402', format('%s executions of the tenant wait already, or would: the quota maxQueued is reached.', queued),
                                'Submit again when some of them have started.');
        END IF;
        UPDATE headroom h SET counted = room.counted, granted = room.granted + wanted, counted_at = room.counted_at
        WHERE h.tenant = duly_admit.tenant AND h.kind = 1;
    END IF;
    IF rate IS NOT NULL THEN
        -- A second counts until all of it lies a minute back.
        SELECT coalesce(sum(f.count), 0) INTO came FROM fires f WHERE f.tenant = duly_admit.tenant AND f.second > now_us / 1000000 - 61;
        IF came + wanted > rate THEN
            PERFORM duly_refuse('DULY-E403', format('The tenant may submit %s executions a minute: the quota maxFiresPerMinute is reached.', rate),
                                'Submit again within a minute.');
        END IF;
        INSERT INTO fires AS f (tenant, second, count) VALUES (duly_admit.tenant, now_us / 1000000, wanted)
        ON CONFLICT (tenant, second) DO UPDATE SET count = f.count + excluded.count;
    END IF;
END $$;

-- As before, with the tenant's gates after the job's own.
CREATE OR REPLACE FUNCTION duly_enqueue_limited(job jobs, route integer, limits json, shard integer, payload json, own_payload json, due_us bigint, rank_us bigint,
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
    SELECT nullif(coalesce(array_agg(n.gate), '{}') || duly_tenant_gates((job).tenant), '{}') INTO gates
    FROM duly_gates(limits, (job).tenant, (job).id, (job).name, seen) n;
    INSERT INTO executions (id, job_id, job_version, tenant, route, trigger, due_at, rank, created_at, payload, gates)
    VALUES (new_id, (job).id, (job).version, (job).tenant, route, 1, due_us, rank_us, now_us, payload, gates);
    INSERT INTO timers (id, shard, due_at, route, tenant, rank, attempt, failures, gated)
    VALUES (new_id, shard, due_us, route, (job).tenant, rank_us, 1, 0, gates IS NOT NULL);
    RETURN new_id;
END $$;

-- As before, within the tenant's quotas.
CREATE OR REPLACE FUNCTION duly_enqueue_many(job text, payloads json, run_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL,
                                  priority text DEFAULT NULL, tenant text DEFAULT 'default')
RETURNS SETOF text LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
#variable_conflict use_column
DECLARE
    target record;
    longest bigint;
    how_many bigint;
    now_us bigint := duly_now();
    due_us bigint := duly_due(now_us, duly_enqueue_many.run_at, duly_enqueue_many.delay);
    rank_us bigint;
BEGIN
    SELECT j.id, j.tenant, j.version, j AS job, v.route, v.definition ->> 'priority' AS priority, v.definition -> 'limits' AS limits,
           (v.definition ->> 'payload')::json AS own_payload,
           t.max_queued, t.max_fires_per_minute, t.max_concurrent, t.max_payload_bytes,
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
    SELECT max(octet_length(p.payload::text)) FILTER (WHERE json_typeof(p.payload) <> 'null'), count(*) INTO longest, how_many
    FROM json_array_elements(payloads) AS p (payload);
    IF longest > 262144 THEN
        PERFORM duly_refuse('DULY-E109', format('a payload has %s bytes; at most 262144 are kept.', longest), 'Keep it elsewhere and pass a reference.');
    ELSIF longest > target.max_payload_bytes THEN
        PERFORM duly_refuse('DULY-E404', format('a payload has %s bytes; the tenant''s quota maxPayloadBytes is %s.', longest, target.max_payload_bytes),
                            'Keep it elsewhere and pass a reference.');
    ELSIF strpos(payloads::text, chr(92) || 'u0000') > 0 THEN
        PERFORM duly_refuse('DULY-E110', 'a payload contains a NUL character, which cannot be stored.', 'Leave it out.');
    END IF;
    rank_us := due_us - duly_head_start(coalesce(duly_enqueue_many.priority, target.priority));
    IF target.max_queued IS NOT NULL OR target.max_fires_per_minute IS NOT NULL THEN
        PERFORM duly_admit(target.tenant, how_many, now_us);
    END IF;

    IF json_strip_nulls(target.limits)::text <> '{}' OR target.max_concurrent IS NOT NULL OR target.max_fires_per_minute IS NOT NULL THEN
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
