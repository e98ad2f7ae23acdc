-- Executions to the letter: limits, calendars, pauses with an end, checkpoints, dead letters, batches.

-- ---------------------------------------------------------------- definitions

ALTER TABLE jobs ADD COLUMN paused_until bigint, ADD COLUMN paused_by text;          -- until: it is active again from then on, without anybody's help
ALTER TABLE schedules ADD COLUMN skip_at bigint, ADD COLUMN skip_by text;            -- the one fire that somebody asked to skip
ALTER TABLE workers ADD COLUMN tenant integer;                                       -- whose work it may take; NULL: everybody's

CREATE TABLE calendars (
    tenant      integer NOT NULL,
    name        text    NOT NULL,
    version     integer NOT NULL,
    definition  json    NOT NULL,
    updated_at  bigint  NOT NULL,
    PRIMARY KEY (tenant, name)
);
-- Which jobs name a calendar: a change of it gives each of them a new version, in which its days are written out.
CREATE TABLE calendar_uses (
    tenant  integer NOT NULL,
    name    text    NOT NULL,
    job_id  uuid    NOT NULL,
    PRIMARY KEY (tenant, name, job_id)
);
CREATE INDEX calendar_uses_of ON calendar_uses (job_id);

-- ---------------------------------------------------------------- the immutable header

ALTER TABLE executions
    ADD COLUMN scheduled_at bigint,                               -- the nominal time, where it is not when it is due: jitter, backfill
    ADD COLUMN gates uuid[],                                      -- the limits it must pass before it is ready; NULL: none
    ADD COLUMN batch uuid;                                        -- the backfill or bulk action that made it
CREATE INDEX executions_of_batch ON executions (batch, id) WHERE batch IS NOT NULL;

CREATE TABLE batches (
    batch     uuid     PRIMARY KEY,
    tenant    integer  NOT NULL,
    job_id    uuid,
    kind      text     NOT NULL,
    asked_at  bigint   NOT NULL,
    asked_by  text     NOT NULL,
    total     integer  NOT NULL,
    about     json     NOT NULL
);

-- ---------------------------------------------------------------- limits as rows

-- A gate lets `capacity` attempts through at a time. Whoever needs it waits in `gate_waits`, in the order of the ranks, and
-- stands in `slots` from then on: until its attempt ends, or, for a rate, for `lasts` from its start. The row of the gate is
-- locked by whoever lets somebody through, so a limit is exact; who leaves only deletes.
CREATE TABLE gates (
    gate      uuid     PRIMARY KEY,
    tenant    integer  NOT NULL,
    shard     smallint NOT NULL,
    capacity  integer  NOT NULL,
    lasts     bigint,                                             -- NULL: a limit of how many run; else the period of a rate
    look_at   bigint,                                             -- when time frees a slot that somebody waits for
    about     json     NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX gates_due ON gates (shard, look_at) WHERE look_at IS NOT NULL;

CREATE TABLE gate_waits (
    gate  uuid   NOT NULL,
    rank  bigint NOT NULL,
    id    uuid   NOT NULL,
    PRIMARY KEY (gate, rank, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX gate_waits_of ON gate_waits (id);

CREATE TABLE slots (
    gate     uuid     NOT NULL,
    id       uuid     NOT NULL,
    attempt  smallint NOT NULL,
    lasts    bigint,                                              -- of a rate; NULL: until the attempt ends
    until    bigint,                                              -- of a rate, once its start is known
    PRIMARY KEY (gate, id, attempt)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX slots_of ON slots (id);

ALTER TABLE timers ADD COLUMN gated boolean NOT NULL DEFAULT false;                  -- it passes its gates before it is ready
ALTER TABLE blocked ADD COLUMN failures smallint NOT NULL DEFAULT 0;                 -- reason: 0 overlap, 1 a limit

-- A key that is taken: until its execution is final, or until a time.
CREATE TABLE uniques (
    key    uuid   PRIMARY KEY,
    id     uuid   NOT NULL,
    until  bigint
);
CREATE INDEX uniques_of ON uniques (id);

-- ---------------------------------------------------------------- wishes and saved progress

ALTER TABLE cancels ADD COLUMN kill_at bigint;                                       -- when asking ends; NULL: it is only asked

CREATE TABLE checkpoints (
    id           uuid     PRIMARY KEY,
    number       integer  NOT NULL DEFAULT 0,                     -- grows with every checkpoint, over all attempts
    attempt      smallint NOT NULL,
    saved_at     bigint,
    data         json,
    progress     json,
    progress_at  bigint
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- Dead letters that somebody has dealt with.
CREATE TABLE settled (
    id          uuid     PRIMARY KEY,
    settled_at  bigint   NOT NULL,
    settled_by  text     NOT NULL,
    how         smallint NOT NULL,                                -- 1 replayed, 2 discarded
    replay      uuid
);

-- ---------------------------------------------------------------- reading

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
       e.batch, b.reason                                               AS blocked_reason
FROM executions e
LEFT JOIN outcomes o ON o.id = e.id
LEFT JOIN timers t ON t.id = e.id
LEFT JOIN blocked b ON b.id = e.id
LEFT JOIN cancels c ON c.id = e.id
LEFT JOIN LATERAL (SELECT outcome, retry_at, error FROM attempts WHERE id = e.id ORDER BY attempt DESC LIMIT 1) a ON true
LEFT JOIN ready r ON (r.route, r.tenant, r.rank, r.id) = (e.route, e.tenant, coalesce(a.retry_at + e.rank - e.due_at, e.rank), e.id)
LEFT JOIN LATERAL (                                               -- asked only when it stands nowhere else: a scan of the few lease rows
    SELECT x.lease_id, x.worker, x.granted_at, x.attempts[array_position(x.ids, e.id)] AS attempt
    FROM leases x
    WHERE coalesce(o.id, t.id, b.id, r.id) IS NULL AND e.id = ANY (x.ids)
    ORDER BY x.lease_id DESC LIMIT 1) l ON true;
