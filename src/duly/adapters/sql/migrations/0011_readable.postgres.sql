-- JSON is more than a worker's decoder reads: a number beyond a double, half of a surrogate pair, a thousand levels. The API refuses
-- those, and so does SQL: an execution that nobody can decode would take the rest of its claim with it.

-- Looked at as jsonb, where of a key that comes twice only the last is left: what stands under the others is not seen.
CREATE FUNCTION duly_check_readable(payloads json) RETURNS void LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
DECLARE
    document jsonb;
BEGIN
    BEGIN
        document := payloads::jsonb;
    EXCEPTION
        WHEN untranslatable_character THEN
            PERFORM duly_refuse('DULY-E110', 'a payload contains a NUL character, which cannot be stored.', 'Leave it out.');
        WHEN data_exception THEN
            PERFORM duly_refuse('DULY-E110', format('a payload cannot be stored: %s.', SQLERRM), 'Send large numbers as strings and whole surrogate pairs.');
        WHEN program_limit_exceeded THEN
            PERFORM duly_refuse('DULY-E109', format('the payloads are too many or too large together: %s.', SQLERRM), 'Enqueue them in several calls.');
    END;
    -- The payloads are elements of one array, hence one level more.
    IF jsonb_path_exists(document, 'strict $.**{33 to last} ? (@.type() == "array" || @.type() == "object")') THEN
        PERFORM duly_refuse('DULY-E108', 'a payload is nested more than 32 levels deep.', 'Keep it elsewhere and pass a reference.');
    ELSIF jsonb_path_exists(document, 'strict $.** ? (@.type() == "number" && (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308))') THEN
        PERFORM duly_refuse('DULY-E106', 'a payload contains a number that is out of range.', 'Send large numbers as strings.');
    END IF;
END $$;

-- As before; what no worker could read is refused, and what is due is carried in its ready row.
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
    END IF;
    PERFORM duly_check_readable(payloads);
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
        SELECT duly_new_id(now_us, p.nth) AS id, p.nth, CASE json_typeof(p.payload) WHEN 'null' THEN NULL ELSE p.payload END AS payload,
               octet_length(p.payload::text) <= 500 AS is_small
        FROM json_array_elements(payloads) WITH ORDINALITY AS p (payload, nth)
    ), header AS (
        INSERT INTO executions (id, job_id, job_version, tenant, route, trigger, due_at, rank, created_at, payload)
        SELECT w.id, target.id, target.version, target.tenant, target.route, 1, due_us, rank_us, now_us, w.payload FROM wanted w ORDER BY w.nth
    ), made_ready AS (
        INSERT INTO ready (route, tenant, rank, id, attempt, failures, job_version, due_at, holds_place, payload)
        SELECT target.route, target.tenant, rank_us, w.id, 1, 0, CASE WHEN w.is_small THEN target.version END, due_us, false,
               CASE WHEN w.is_small THEN w.payload END
        FROM wanted w WHERE due_us <= now_us ORDER BY w.nth
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
