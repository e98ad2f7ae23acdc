-- Workflows: runs that consist of steps, each an execution like any other. See the PostgreSQL text.

ALTER TABLE job_versions ADD COLUMN workflow BLOB;
ALTER TABLE job_versions ADD COLUMN step INTEGER;
CREATE INDEX job_versions_of_workflow ON job_versions (workflow, version) WHERE workflow IS NOT NULL;

ALTER TABLE executions ADD COLUMN run BLOB;
ALTER TABLE executions ADD COLUMN step INTEGER;
ALTER TABLE executions ADD COLUMN nth INTEGER;
CREATE INDEX executions_of_run ON executions (run, id) WHERE run IS NOT NULL;

CREATE TABLE flows (
    run          BLOB    PRIMARY KEY,
    tenant       INTEGER NOT NULL,
    job_version  INTEGER NOT NULL,
    width        INTEGER,
    depth        INTEGER NOT NULL DEFAULT 0,
    began_at     INTEGER NOT NULL,
    paused_at    INTEGER,
    paused_by    TEXT,
    look_at      INTEGER NOT NULL,
    looks        INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX flows_due ON flows (look_at);

CREATE TABLE flow_waits (
    id      BLOB    PRIMARY KEY,
    run     BLOB    NOT NULL,
    tenant  INTEGER NOT NULL,
    reason  INTEGER NOT NULL,
    name    TEXT    NOT NULL,
    until   INTEGER
) WITHOUT ROWID;
CREATE INDEX flow_waits_of ON flow_waits (run);
CREATE INDEX flow_waits_due ON flow_waits (until) WHERE until IS NOT NULL;

CREATE TABLE signals (
    run      BLOB    NOT NULL,
    name     TEXT    NOT NULL,
    tenant   INTEGER NOT NULL,
    payload  TEXT,
    sent_at  INTEGER NOT NULL,
    sent_by  TEXT    NOT NULL,
    PRIMARY KEY (run, name)
) WITHOUT ROWID;

CREATE TABLE flow_seeds (run BLOB PRIMARY KEY, tenant INTEGER NOT NULL, former BLOB NOT NULL, redo TEXT NOT NULL) WITHOUT ROWID;

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
       e.batch, b.reason                                               AS blocked_reason,
       e.run, e.step, e.nth
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
