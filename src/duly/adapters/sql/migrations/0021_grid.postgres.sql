-- The run grid reads tens of thousands of rows. Behind the wall the header of each would be looked up again; so whose a run is is asked once
-- of every run, and its steps and tries are then read as the owner reads them. A step whose run may be seen may be seen.
-- In plpgsql, which keeps its plans: with many partitions planning takes as long as looking.

-- A step is told as two characters: one for its place, from 256 on, and the digit of its state. How the steps of a run ended carries its time, as
-- they do: a walk along the key finds most of them for a tenth of what a probe for each costs, because a probe must first find its partition.
-- What others did in the same millisecond lies between them, so the walk is not long, and who is not found by it is probed for. The two are
-- brought together by hashing, not by sorting: that takes half as long.
CREATE FUNCTION duly_steps_of_runs(runs uuid[], firsts uuid[], lasts uuid[]) RETURNS TABLE (run uuid, cells text)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 500
SET search_path = duly, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT f.run, c.cells
    FROM unnest(runs, firsts, lasts) AS f (run, first, last)
    CROSS JOIN LATERAL (
        SELECT string_agg(chr(256 + w.step) || coalesce(w.state, (SELECT o.state FROM outcomes o WHERE o.id = w.id),
                                                        (SELECT s.state FROM execution_state s WHERE s.id = w.id)), '') AS cells
        FROM (SELECT u.id, max(u.step) AS step, max(u.state) AS state
              FROM (SELECT x.id, x.step, NULL::smallint AS state FROM executions x WHERE x.run = f.run AND x.id >= f.first AND x.id <= f.last
                    UNION ALL
                    (SELECT x.id, NULL, x.state FROM outcomes x WHERE x.id >= f.first AND x.id <= f.last LIMIT 400)) u
              GROUP BY u.id HAVING max(u.step) IS NOT NULL) w) c
    WHERE c.cells IS NOT NULL
      AND EXISTS (SELECT FROM executions r WHERE r.id = f.run AND (duly_tenant() IS NULL OR r.tenant = duly_tenant()));
END $$;

-- The outcomes of tries that did not succeed, first to last as the key has them, and when the last of them wanted the next one.
CREATE FUNCTION duly_tries_of_runs(runs uuid[]) RETURNS TABLE (run uuid, outcomes text, retry_at bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 500
SET search_path = duly, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT f.run, a.outcomes, a.retry_at
    FROM unnest(runs) AS f (run)
    CROSS JOIN LATERAL (
        SELECT string_agg(x.outcome::text, '') AS outcomes, max(x.retry_at) AS retry_at
        FROM (SELECT t.outcome, t.retry_at FROM attempts t WHERE t.id = f.run ORDER BY t.attempt) x) a
    WHERE a.outcomes IS NOT NULL
      AND EXISTS (SELECT FROM executions r WHERE r.id = f.run AND (duly_tenant() IS NULL OR r.tenant = duly_tenant()));
END $$;

-- Nobody but us and the role behind the wall, which is given its rights with the wall.
REVOKE EXECUTE ON FUNCTION duly_steps_of_runs(uuid[], uuid[], uuid[]), duly_tries_of_runs(uuid[]) FROM PUBLIC;
