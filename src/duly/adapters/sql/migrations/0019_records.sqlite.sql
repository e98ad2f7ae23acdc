-- What analysts get, and where they left off: see the PostgreSQL migration. Triggers here are for each row, so there is a row for each
-- execution. Log lines are removed with their execution, one by one: nothing changes for them here.
CREATE TABLE unexported (
    seq  INTEGER PRIMARY KEY AUTOINCREMENT,
    id   BLOB    NOT NULL
);
CREATE TABLE exporters (
    exporter    INTEGER PRIMARY KEY DEFAULT 1 CHECK (exporter = 1),
    owner       TEXT    NOT NULL,
    until       INTEGER NOT NULL,
    seen_at     INTEGER NOT NULL,
    reached     BLOB,
    is_through  INTEGER NOT NULL DEFAULT 0
);

-- A finished execution, flat.
CREATE VIEW records AS
SELECT o.id, e.tenant AS tenant_number, t.name AS tenant, coalesce(v.workflow, v.job_id) AS job_id,
       (SELECT j.name FROM jobs j WHERE j.id = coalesce(v.workflow, v.job_id)) AS job,
       v.definition -> 'step' ->> 'name' AS step, v.version, r.pool, r.handler, e.trigger, o.state, e.skip_reason, o.attempt AS attempts,
       coalesce(e.scheduled_at, e.due_at) AS scheduled_at, e.due_at, e.created_at, o.started_at, o.finished_at,
       (SELECT a.started_at FROM attempts a WHERE a.id = o.id AND a.attempt = 1) AS first_started_at,
       (SELECT a.retry_at FROM attempts a WHERE a.id = o.id AND a.attempt = o.attempt - 1) AS attempt_due_at,
       (SELECT count(*) FROM attempts a WHERE a.id = o.id AND a.outcome = 2) AS failed,
       (SELECT count(*) FROM attempts a WHERE a.id = o.id AND a.outcome = 3) AS timed_out,
       (SELECT count(*) FROM attempts a WHERE a.id = o.id AND a.outcome = 4) AS lost,
       (SELECT count(*) FROM attempts a WHERE a.id = o.id AND a.outcome = 6) AS released,
       coalesce(o.error, (SELECT a.error FROM attempts a WHERE a.id = o.id ORDER BY a.attempt DESC LIMIT 1)) AS error
FROM outcomes o
JOIN executions e ON e.id = o.id
JOIN job_versions v ON v.id = e.job_version
JOIN routes r ON r.route = e.route
JOIN tenants t ON t.tenant = e.tenant
;
