-- The ledger on SQLite 3.38 and newer: the same tables, columns and codes as on PostgreSQL. Where it differs:
--   * one writer: BEGIN IMMEDIATE is the lock, so nothing needs FOR SHARE, SKIP LOCKED or a second snapshot;
--   * narrow tables are WITHOUT ROWID: the primary key is the table, and a claim is one walk along it;
--   * no arrays: a lease's members are rows of `leased`, deleted as they end;
--   * no partitions: retention deletes id ranges in small batches;
--   * a uuid is a 16-byte BLOB (sorts as on PostgreSQL), instants are INTEGER microseconds, JSON is TEXT.

CREATE TABLE tenants (
    tenant  INTEGER PRIMARY KEY,
    name    TEXT    NOT NULL UNIQUE,
    weight  INTEGER NOT NULL DEFAULT 100 CHECK (weight > 0)
);
INSERT INTO tenants (tenant, name) VALUES (1, 'default');

CREATE TABLE keys (
    id          TEXT    PRIMARY KEY,
    tenant      INTEGER NOT NULL,
    role        TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    hash        BLOB    NOT NULL,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,
    revoked_at  INTEGER
) WITHOUT ROWID;

CREATE TABLE routes (
    route    INTEGER PRIMARY KEY,
    pool     TEXT NOT NULL,
    labels   TEXT NOT NULL,
    handler  TEXT NOT NULL,
    UNIQUE (pool, labels, handler)
);

CREATE TABLE jobs (
    id            BLOB    PRIMARY KEY,
    tenant        INTEGER NOT NULL,
    name          TEXT    NOT NULL,
    state         INTEGER NOT NULL DEFAULT 0,
    version       INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    paused_at     INTEGER,
    pause_reason  TEXT
) WITHOUT ROWID;
CREATE UNIQUE INDEX jobs_named ON jobs (tenant, name) WHERE state <> 3;
CREATE INDEX jobs_of_tenant ON jobs (tenant, id);

CREATE TABLE job_versions (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id        BLOB    NOT NULL,
    version       INTEGER NOT NULL,
    route         INTEGER NOT NULL,
    max_attempts  INTEGER NOT NULL,
    definition    TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    UNIQUE (job_id, version)
);

CREATE TABLE schedules (
    job_id        BLOB    PRIMARY KEY,
    shard         INTEGER NOT NULL,
    next_fire_at  INTEGER NOT NULL,
    version       INTEGER NOT NULL,
    paused        INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX schedules_due ON schedules (shard, next_fire_at) WHERE NOT paused;

CREATE TABLE shards (
    shard        INTEGER PRIMARY KEY,
    epoch        INTEGER NOT NULL DEFAULT 0,
    owner        TEXT,
    lease_until  INTEGER NOT NULL DEFAULT 0,
    progress_at  INTEGER NOT NULL DEFAULT 0
);
WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 63)
INSERT INTO shards (shard) SELECT n FROM numbers;

CREATE TABLE dispatchers (
    name        TEXT    PRIMARY KEY,
    expires_at  INTEGER NOT NULL
) WITHOUT ROWID;

-- A rowid table: the header is wide, and ids come in order, so rows append and the key stays small.
CREATE TABLE executions (
    id           BLOB    PRIMARY KEY,
    job_id       BLOB    NOT NULL,
    job_version  INTEGER NOT NULL,
    tenant       INTEGER NOT NULL,
    route        INTEGER NOT NULL,
    trigger      INTEGER NOT NULL,
    holds_place  INTEGER NOT NULL DEFAULT 0,
    skip_reason  INTEGER,
    due_at       INTEGER NOT NULL,
    rank         INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    payload      TEXT
);
CREATE INDEX executions_of_job ON executions (job_id, id);

CREATE TABLE timers (
    id        BLOB    PRIMARY KEY,
    shard     INTEGER NOT NULL,
    due_at    INTEGER NOT NULL,
    route     INTEGER NOT NULL,
    tenant    INTEGER NOT NULL,
    rank      INTEGER NOT NULL,
    attempt   INTEGER NOT NULL,
    failures  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX timers_due ON timers (shard, due_at);

CREATE TABLE blocked (
    id       BLOB    PRIMARY KEY,
    reason   INTEGER NOT NULL,
    route    INTEGER NOT NULL,
    tenant   INTEGER NOT NULL,
    rank     INTEGER NOT NULL,
    attempt  INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID;
CREATE TABLE waits (waits_for BLOB NOT NULL, id BLOB NOT NULL, PRIMARY KEY (waits_for, id)) WITHOUT ROWID;
CREATE INDEX waits_of ON waits (id);

CREATE TABLE ready (
    route     INTEGER NOT NULL,
    tenant    INTEGER NOT NULL,
    rank      INTEGER NOT NULL,
    id        BLOB    NOT NULL,
    attempt   INTEGER NOT NULL,
    failures  INTEGER NOT NULL,
    PRIMARY KEY (route, tenant, rank, id)
) WITHOUT ROWID;

CREATE TABLE workers (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT    NOT NULL,
    started_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    lost_at     INTEGER,
    about       TEXT    NOT NULL
);

-- AUTOINCREMENT: an id never returns, it is the fence.
CREATE TABLE leases (
    lease_id    INTEGER PRIMARY KEY AUTOINCREMENT,
    worker      INTEGER NOT NULL,
    granted_at  INTEGER NOT NULL
);
CREATE INDEX leases_of_worker ON leases (worker);
CREATE TABLE leased (
    lease_id  INTEGER NOT NULL,
    id        BLOB    NOT NULL,
    attempt   INTEGER NOT NULL,
    failures  INTEGER NOT NULL,
    PRIMARY KEY (lease_id, id)
) WITHOUT ROWID;

CREATE TABLE places (job_id BLOB NOT NULL, place INTEGER NOT NULL, id BLOB NOT NULL, PRIMARY KEY (job_id, place)) WITHOUT ROWID;
CREATE TABLE cancels (id BLOB PRIMARY KEY, asked_at INTEGER NOT NULL, asked_by TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE idempotency (
    tenant      INTEGER NOT NULL,
    key         TEXT    NOT NULL,
    body_hash   BLOB    NOT NULL,
    answer      TEXT    NOT NULL,
    expires_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_expiry ON idempotency (expires_at);

CREATE TABLE outcomes (
    id           BLOB    PRIMARY KEY,
    state        INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    lease_id     INTEGER,
    worker       INTEGER,
    started_at   INTEGER,
    finished_at  INTEGER NOT NULL,
    result       TEXT,
    error        TEXT
) WITHOUT ROWID;
CREATE INDEX outcomes_unusual ON outcomes (state, id) WHERE state <> 4;

CREATE TABLE attempts (
    id           BLOB    NOT NULL,
    attempt      INTEGER NOT NULL,
    outcome      INTEGER NOT NULL,
    lease_id     INTEGER NOT NULL,
    worker       INTEGER NOT NULL,
    started_at   INTEGER,
    finished_at  INTEGER NOT NULL,
    retry_at     INTEGER,
    error        TEXT,
    PRIMARY KEY (id, attempt)
) WITHOUT ROWID;

CREATE TABLE logs (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    id       BLOB    NOT NULL,
    attempt  INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    level    TEXT    NOT NULL,
    message  TEXT    NOT NULL,
    fields   TEXT
);
CREATE INDEX logs_of ON logs (id, seq);

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
       c.asked_at                                                      AS cancel_asked_at
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
