-- Workflows: runs that consist of steps, each an execution like any other (docs/decisions/0025).

-- A step has versions like a job: under an id of its own, computed from its workflow's and its name. It has no row in `jobs`.
ALTER TABLE job_versions ADD COLUMN workflow uuid,                -- whose step; NULL: it is a job's own version
                         ADD COLUMN step smallint;                -- which of its steps
CREATE INDEX job_versions_of_workflow ON job_versions (workflow, version) WHERE workflow IS NOT NULL;

-- The header of a step names its run, its place in the workflow and, of a mapped step, which item it is.
ALTER TABLE executions ADD COLUMN run uuid,
                       ADD COLUMN step smallint,
                       ADD COLUMN nth integer;
CREATE INDEX executions_of_run ON executions (run, id) WHERE run IS NOT NULL;

-- Where a run stands while its steps are under way, and so does a mapped step while its items are: RUNNING, without a worker.
CREATE TABLE flows (
    run          uuid     PRIMARY KEY,
    tenant       integer  NOT NULL,
    job_version  bigint   NOT NULL,                               -- of the workflow
    width        integer,                                         -- NULL: a run; else how many items a mapped step has
    depth        smallint NOT NULL DEFAULT 0,                     -- runs within runs
    began_at     bigint   NOT NULL,
    paused_at    bigint,
    paused_by    text,
    look_at      bigint   NOT NULL,                               -- when somebody looks whether a hand-over was lost
    looks        smallint NOT NULL DEFAULT 0
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX flows_due ON flows (look_at);

-- Steps that wait for somebody: an approval (2) or a signal (3). The step stands in `blocked` with the same reason.
CREATE TABLE flow_waits (
    id          uuid     PRIMARY KEY,
    run         uuid     NOT NULL,
    tenant      integer  NOT NULL,
    reason      smallint NOT NULL,
    name        text     NOT NULL,                                -- of the signal, or of the step
    until       bigint
);
CREATE INDEX flow_waits_of ON flow_waits (run);
CREATE INDEX flow_waits_due ON flow_waits (until) WHERE until IS NOT NULL;

-- What came from outside for a run; the first of a name counts.
CREATE TABLE signals (
    run      uuid    NOT NULL,
    name     text    NOT NULL,
    tenant   integer NOT NULL,
    payload  json,
    sent_at  bigint  NOT NULL,
    sent_by  text    NOT NULL,
    PRIMARY KEY (run, name)
);

-- A run that repeats another: which one, and the steps that it does anew. All others are taken over as they ended.
CREATE TABLE flow_seeds (
    run     uuid    PRIMARY KEY,
    tenant  integer NOT NULL,
    former  uuid    NOT NULL,
    redo    json    NOT NULL
);

-- Rows come and go with every run, as in `blocked` and `waits`.
ALTER TABLE flows SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE flow_waits SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE flow_seeds SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- As before; a step belongs to its workflow's tenant.
CREATE OR REPLACE FUNCTION duly_owner_of_job(id uuid) RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = duly, pg_temp AS $$
    SELECT j.tenant FROM jobs j
    WHERE j.id = coalesce((SELECT v.workflow FROM job_versions v WHERE v.job_id = duly_owner_of_job.id LIMIT 1), duly_owner_of_job.id)
$$;

-- As before, with the run that a step belongs to.
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
       e.batch, b.reason                                               AS blocked_reason,
       e.run, e.step, e.nth
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

-- Whether a run, or the run of a mapped step, has not ended. What its steps came to is needed until then.
CREATE FUNCTION duly_is_under_way(run uuid) RETURNS boolean LANGUAGE sql STABLE SET search_path = duly, pg_temp AS $$
    SELECT EXISTS (SELECT FROM flows f WHERE f.run = duly_is_under_way.run)
        OR EXISTS (SELECT FROM executions e JOIN flows f ON f.run = e.run WHERE e.id = duly_is_under_way.run)
$$;

-- As before, but steps stay for as long as their run is under way.
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
    EXECUTE format('SELECT array_agg(e.id) FROM %I e WHERE NOT EXISTS (SELECT FROM %I o WHERE o.id = e.id AND o.finished_at < $1)'
                   ' OR (e.run IS NOT NULL AND duly_is_under_way(e.run))', headers, ends)
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
