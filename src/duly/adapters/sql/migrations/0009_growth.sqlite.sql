-- What keeps a store with millions of rows as quick as an empty one: indexes that lists and counts walk along.

-- Jobs by their state, for the list and for the counts; a quota's count walks along it as well.
DROP INDEX jobs_live;
CREATE INDEX jobs_standing ON jobs (tenant, state, id);
-- Pauses that end by themselves: few.
CREATE INDEX jobs_paused_until ON jobs (tenant, id) WHERE paused_until IS NOT NULL;
-- A name belongs to one live job, which `jobs_named` finds, and to any number of cancelled ones.
CREATE INDEX jobs_cancelled_named ON jobs (tenant, name, id) WHERE state = 3;
-- The jobs that an application's code has brought, of which there are few: it looks for those that it no longer has.
CREATE INDEX job_versions_of_source ON job_versions (definition ->> 'source') WHERE definition ->> 'source' IS NOT NULL;

-- Newest first, of one tenant: with the id, a page is a walk and not a sort of all that wait.
DROP INDEX timers_of_tenant;
CREATE INDEX timers_of_tenant ON timers (tenant, id);
DROP INDEX blocked_of_tenant;
CREATE INDEX blocked_of_tenant ON blocked (tenant, id);
-- Who waits for its time and then for a limit.
CREATE INDEX timers_gated ON timers (id) WHERE gated;

-- Every start of a worker leaves a row for as long as history is kept.
CREATE INDEX workers_lost ON workers (lost_at);
CREATE INDEX uniques_until ON uniques (until) WHERE until IS NOT NULL;
CREATE INDEX batches_asked ON batches (asked_at);
CREATE INDEX batches_of_job ON batches (job_id) WHERE job_id IS NOT NULL;
