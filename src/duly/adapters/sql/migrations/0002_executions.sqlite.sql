-- Executions to the letter: limits, calendars, pauses with an end, checkpoints, dead letters, batches.

ALTER TABLE jobs ADD COLUMN paused_until INTEGER;
ALTER TABLE jobs ADD COLUMN paused_by TEXT;
ALTER TABLE schedules ADD COLUMN skip_at INTEGER;
ALTER TABLE schedules ADD COLUMN skip_by TEXT;
ALTER TABLE workers ADD COLUMN tenant INTEGER;

CREATE TABLE calendars (
    tenant      INTEGER NOT NULL,
    name        TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    definition  TEXT    NOT NULL,
    updated_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;
-- Which jobs name a calendar: a change of it gives each of them a new version, in which its days are written out.
CREATE TABLE calendar_uses (
    tenant  INTEGER NOT NULL,
    name    TEXT    NOT NULL,
    job_id  BLOB    NOT NULL,
    PRIMARY KEY (tenant, name, job_id)
) WITHOUT ROWID;
CREATE INDEX calendar_uses_of ON calendar_uses (job_id);

ALTER TABLE executions ADD COLUMN scheduled_at INTEGER;           -- the nominal time, where it is not when it is due: jitter, backfill
ALTER TABLE executions ADD COLUMN gates BLOB;                     -- the limits it must pass, 16 bytes each; NULL: none
ALTER TABLE executions ADD COLUMN batch BLOB;                     -- the backfill or bulk action that made it
CREATE INDEX executions_of_batch ON executions (batch, id) WHERE batch IS NOT NULL;

CREATE TABLE batches (
    batch     BLOB    PRIMARY KEY,
    tenant    INTEGER NOT NULL,
    job_id    BLOB,
    kind      TEXT    NOT NULL,
    asked_at  INTEGER NOT NULL,
    asked_by  TEXT    NOT NULL,
    total     INTEGER NOT NULL,
    about     TEXT    NOT NULL
) WITHOUT ROWID;

-- Limits as rows: see the PostgreSQL text.
CREATE TABLE gates (
    gate      BLOB    PRIMARY KEY,
    tenant    INTEGER NOT NULL,
    shard     INTEGER NOT NULL,
    capacity  INTEGER NOT NULL,
    lasts     INTEGER,
    look_at   INTEGER,
    about     TEXT    NOT NULL
) WITHOUT ROWID;
CREATE INDEX gates_due ON gates (shard, look_at) WHERE look_at IS NOT NULL;

CREATE TABLE gate_waits (gate BLOB NOT NULL, rank INTEGER NOT NULL, id BLOB NOT NULL, PRIMARY KEY (gate, rank, id)) WITHOUT ROWID;
CREATE INDEX gate_waits_of ON gate_waits (id);

CREATE TABLE slots (
    gate     BLOB    NOT NULL,
    id       BLOB    NOT NULL,
    attempt  INTEGER NOT NULL,
    lasts    INTEGER,
    until    INTEGER,
    PRIMARY KEY (gate, id, attempt)
) WITHOUT ROWID;
CREATE INDEX slots_of ON slots (id);

ALTER TABLE timers ADD COLUMN gated INTEGER NOT NULL DEFAULT 0;
ALTER TABLE blocked ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;

CREATE TABLE uniques (key BLOB PRIMARY KEY, id BLOB NOT NULL, until INTEGER) WITHOUT ROWID;
CREATE INDEX uniques_of ON uniques (id);

ALTER TABLE cancels ADD COLUMN kill_at INTEGER;

CREATE TABLE checkpoints (
    id           BLOB    PRIMARY KEY,
    number       INTEGER NOT NULL DEFAULT 0,
    attempt      INTEGER NOT NULL,
    saved_at     INTEGER,
    data         TEXT,
    progress     TEXT,
    progress_at  INTEGER
) WITHOUT ROWID;

CREATE TABLE settled (
    id          BLOB    PRIMARY KEY,
    settled_at  INTEGER NOT NULL,
    settled_by  TEXT    NOT NULL,
    how         INTEGER NOT NULL,
    replay      BLOB
) WITHOUT ROWID;

DROP VIEW execution_state;
CREATE VIEW execution_state AS
SELECT e.id, e.job_id, e.job_version, e.tenant, e.trigger, e.due_at, e.created_at, e.payload, e.skip_reason, e.holds_place,
       CASE WHEN o.id IS NOT NULL THEN o.state
            WHEN t.id IS NOT NULL THEN 0
            WHEN b.id IS NOT NULL THEN 1
            WHEN r.id IS NOT NULL THEN 2
            ELSE 3 END                                                 AS state,
       coalesce(o.attempt, t.attempt, r.attempt, l.attempt, b.attempt) AS attempt,
       CASE WHEN o.state = 4 THEN 1 ELSE a.outcome END                 AS last_outcome,
       t.due_at                                                        AS next_attempt_at,
       coalesce((SELECT p.retry_at FROM attempts p
                 WHERE p.id = e.id AND p.attempt = coalesce(o.attempt, t.attempt, r.attempt, l.attempt, b.attempt) - 1), e.due_at) AS attempt_due_at,
       coalesce(o.lease_id, l.lease_id)                                AS fence,
       coalesce(o.worker, x.worker)                                    AS worker,
       coalesce(o.started_at, x.granted_at)                            AS started_at,
       o.finished_at, o.result, coalesce(o.error, a.error)             AS error,
       c.asked_at                                                      AS cancel_asked_at,
       coalesce(e.scheduled_at, e.due_at)                              AS scheduled_at,
       e.batch, b.reason                                               AS blocked_reason
FROM executions e
LEFT JOIN outcomes o ON o.id = e.id
LEFT JOIN timers t ON t.id = e.id
LEFT JOIN blocked b ON b.id = e.id
LEFT JOIN cancels c ON c.id = e.id
LEFT JOIN attempts a ON a.id = e.id AND a.attempt = (SELECT max(attempt) FROM attempts WHERE id = e.id)
LEFT JOIN ready r ON r.route = e.route AND r.tenant = e.tenant AND r.rank = coalesce(a.retry_at + e.rank - e.due_at, e.rank) AND r.id = e.id
LEFT JOIN leased l ON coalesce(o.id, t.id, b.id, r.id) IS NULL AND l.id = e.id
                  AND l.lease_id = (SELECT max(m.lease_id) FROM leased m WHERE m.id = e.id)
LEFT JOIN leases x ON x.lease_id = l.lease_id;
