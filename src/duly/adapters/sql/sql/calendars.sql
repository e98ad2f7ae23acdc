-- Calendars, and which jobs name them. Whoever writes both locks the calendar first, then the schedules, then the jobs.

-- name: calendars
SELECT name, version, definition, updated_at FROM calendars WHERE tenant = :tenant ORDER BY name;

-- name: calendar
SELECT name, version, definition, updated_at FROM calendars WHERE tenant = :tenant AND name = :name;

-- name: lock_calendar
-- Held until the commit, so that a job that names it and a change of it see one another.
SELECT version, definition, updated_at FROM calendars WHERE tenant = :tenant AND name = :name
/*for update*/;

-- name: add_calendar
-- No row: another was faster.
INSERT INTO calendars (tenant, name, version, definition, updated_at)
VALUES (:tenant, :name, 1, :definition, :now)
ON CONFLICT DO NOTHING
RETURNING version;

-- name: set_calendar
UPDATE calendars SET version = :version, definition = :definition, updated_at = :now WHERE tenant = :tenant AND name = :name;

-- name: drop_calendar
DELETE FROM calendars WHERE tenant = :tenant AND name = :name;

-- name: add_calendar_use
INSERT INTO calendar_uses (tenant, name, job_id) VALUES (:tenant, :name, :job_id) ON CONFLICT DO NOTHING;

-- name: drop_calendar_uses
DELETE FROM calendar_uses WHERE job_id = :job_id;

-- name: drop_uses_of_calendar
DELETE FROM calendar_uses WHERE tenant = :tenant AND name = :name;

-- name: lock_schedules_of_calendar
SELECT job_id FROM schedules WHERE job_id IN (SELECT job_id FROM calendar_uses WHERE tenant = :tenant AND name = :name) ORDER BY job_id
/*for update*/;

-- name: lock_jobs_of_calendar
SELECT id FROM jobs WHERE id IN (SELECT job_id FROM calendar_uses WHERE tenant = :tenant AND name = :name) ORDER BY id
/*for update*/;

-- name: jobs_of_calendar
-- Those that may still fire.
SELECT /*job_columns*/
FROM calendar_uses u
JOIN jobs j ON j.id = u.job_id
JOIN tenants t ON t.tenant = j.tenant
JOIN job_versions v ON v.id = j.version
LEFT JOIN schedules s ON s.job_id = j.id
WHERE u.tenant = :tenant AND u.name = :name AND j.state IN (0, 1)
ORDER BY j.id;

-- name: add_version_of
-- A new version of a job as it is, on the route that it has.
INSERT INTO job_versions (job_id, version, route, max_attempts, definition, created_at)
VALUES (:job_id, :version, :route, :max_attempts, :definition, :now);

-- name: follow_version
-- The schedule waits for the new version's next fire; a skip that is none of its fires is forgotten.
UPDATE schedules
SET version = (SELECT id FROM job_versions WHERE job_id = :job_id AND version = :version), next_fire_at = :next_fire_at,
    skip_at = CAST(:skip_at AS bigint), skip_by = CASE WHEN CAST(:skip_at AS bigint) IS NULL THEN NULL ELSE skip_by END
WHERE job_id = :job_id;

-- name: adopt_version
UPDATE jobs SET version = (SELECT id FROM job_versions WHERE job_id = :job_id AND version = :version), changed_at = :now WHERE id = :job_id;

-- part: job_columns
       j.id AS job_id, j.tenant, t.name AS tenant_name, j.state, j.created_at, j.paused_at, j.pause_reason, j.paused_by, j.paused_until,
       v.id AS version_id, v.version, v.route, v.definition, v.created_at AS version_created_at, s.next_fire_at, s.skip_at, s.skip_by
