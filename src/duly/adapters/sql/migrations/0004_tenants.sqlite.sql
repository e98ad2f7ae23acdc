-- Tenants with quotas: see the text of the same number for PostgreSQL.

ALTER TABLE tenants ADD COLUMN max_jobs INTEGER;
ALTER TABLE tenants ADD COLUMN max_queued INTEGER;
ALTER TABLE tenants ADD COLUMN max_concurrent INTEGER;
ALTER TABLE tenants ADD COLUMN max_fires_per_minute INTEGER;
ALTER TABLE tenants ADD COLUMN max_payload_bytes INTEGER;
ALTER TABLE tenants ADD COLUMN retention_days INTEGER;
ALTER TABLE tenants ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
ALTER TABLE tenants ADD COLUMN created_at INTEGER NOT NULL DEFAULT 0;

CREATE TABLE headroom (
    tenant      INTEGER NOT NULL,
    kind        INTEGER NOT NULL,
    counted     INTEGER NOT NULL DEFAULT 0,
    granted     INTEGER NOT NULL DEFAULT 0,
    counted_at  INTEGER,
    PRIMARY KEY (tenant, kind)
) WITHOUT ROWID;

CREATE TABLE fires (
    tenant  INTEGER NOT NULL,
    second  INTEGER NOT NULL,
    count   INTEGER NOT NULL,
    PRIMARY KEY (tenant, second)
) WITHOUT ROWID;

ALTER TABLE gates ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;

CREATE INDEX jobs_live ON jobs (tenant) WHERE state < 2;
CREATE INDEX tenants_bounded ON tenants (tenant)
WHERE coalesce(max_jobs, max_queued, max_concurrent, max_fires_per_minute, max_payload_bytes, retention_days) IS NOT NULL;
CREATE INDEX timers_of_tenant ON timers (tenant);
CREATE INDEX blocked_of_tenant ON blocked (tenant);
