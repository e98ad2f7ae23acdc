-- When a job last changed, for those who follow what happens; NULL: not since it was made. Rare, so the index stays small.

ALTER TABLE jobs ADD COLUMN changed_at bigint;
CREATE INDEX jobs_changed ON jobs (tenant, changed_at) WHERE changed_at IS NOT NULL;
