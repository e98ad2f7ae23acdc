-- What people look at most walks along thousands of jobs. Behind the wall each of them would be asked whose it is, a schedule through a
-- function even; all of them are one tenant's, so that is asked once, and they are read as the owner reads them.
-- Planned for whoever asks: where one tenant has nearly all jobs, any plan for everybody walks through them for the others too.

-- Whether who asks may read what is this tenant's: the tenant itself, or nobody who stands behind the wall.
CREATE FUNCTION duly_may_read(asked integer) RETURNS boolean LANGUAGE sql STABLE SET search_path = duly, pg_temp AS $$
    SELECT coalesce(duly_tenant() = asked, current_setting('role') <> 'duly_tenant')
$$;

-- Those of the next jobs of a tenant that have this in their names, newest first; and, where fewer than wanted were found, the last that
-- was looked at, if there may be more behind it. The case of plain ASCII letters does not matter: to ask a locale about every name would cost
-- several times as much.
CREATE FUNCTION duly_jobs_like(asked integer, before uuid, pattern text, looked_at integer, quota integer)
RETURNS TABLE (id uuid, is_like boolean) LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = duly, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET jit = off SET max_parallel_workers_per_gather = 0 AS $$
DECLARE
    found_ones bigint;
BEGIN
    IF NOT duly_may_read(asked) THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT w.id, TRUE
    FROM (SELECT j.id, j.name FROM jobs j WHERE j.tenant = asked AND j.id < before ORDER BY j.id DESC LIMIT looked_at) w
    WHERE lower(w.name COLLATE "C") LIKE pattern ESCAPE '\'
    LIMIT quota;
    GET DIAGNOSTICS found_ones = ROW_COUNT;
    IF found_ones < quota THEN
        RETURN QUERY SELECT j.id, FALSE
        FROM jobs j WHERE j.tenant = asked AND j.id < before ORDER BY j.id DESC LIMIT 1 OFFSET looked_at - 1;
    END IF;
END $$;

-- When the active jobs of a tenant that has few fire next, soonest first.
CREATE FUNCTION duly_waiting_of_few(asked integer, before bigint, few integer, quota integer)
RETURNS TABLE (job_id uuid, version bigint, next_fire_at bigint, skip_at bigint) LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 5000
SET search_path = duly, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET max_parallel_workers_per_gather = 0 AS $$
BEGIN
    IF NOT duly_may_read(asked) THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT j.id, j.version, s.next_fire_at, s.skip_at
    FROM (SELECT x.id, x.version FROM jobs x WHERE x.tenant = asked AND x.state = 0 LIMIT few) j
    JOIN schedules s ON s.job_id = j.id
    WHERE NOT s.paused AND s.next_fire_at < before
    ORDER BY s.next_fire_at, j.id
    LIMIT quota;
END $$;

-- How many jobs of a tenant stand so, counted no further than asked.
CREATE FUNCTION duly_count_jobs(asked integer, standing smallint, most bigint) RETURNS bigint LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = duly, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET jit = off SET max_parallel_workers_per_gather = 0 AS $$
BEGIN
    IF NOT duly_may_read(asked) THEN
        RETURN 0;
    END IF;
    RETURN (SELECT count(*) FROM (SELECT FROM jobs j WHERE j.tenant = asked AND j.state = standing LIMIT most) counted);
END $$;

-- What an application's code has brought to a tenant and may still fire, newest first. Behind the wall the index of sources is of no use: to
-- take a word out of a definition might tell somebody of it, so whose it is would be asked first, of every version there is.
CREATE FUNCTION duly_jobs_of_source(asked integer, source text, before uuid, quota integer) RETURNS TABLE (id uuid)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = duly, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET max_parallel_workers_per_gather = 0 AS $$
BEGIN
    IF NOT duly_may_read(asked) THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT j.id
    FROM job_versions v JOIN jobs j ON j.id = v.job_id AND j.version = v.id
    WHERE v.definition ->> 'source' = duly_jobs_of_source.source AND j.tenant = asked AND j.state < 2 AND j.id < before
    ORDER BY j.id DESC LIMIT quota;
END $$;

-- Nobody but us and the role behind the wall, which is given its rights with the wall.
REVOKE EXECUTE ON FUNCTION duly_jobs_like(integer, uuid, text, integer, integer), duly_waiting_of_few(integer, bigint, integer, integer),
    duly_count_jobs(integer, smallint, bigint), duly_jobs_of_source(integer, text, uuid, integer) FROM PUBLIC;
