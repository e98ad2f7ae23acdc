-- Alerts: rules, channels, incidents and what is sent of them; what should have fired and did not; how long jobs take; links for those
-- who have no key.

-- When jobs did not fire because somebody had paused or cancelled them: from `since` on, to before `until`; NULL: still.
CREATE TABLE pauses (
    job_id  uuid   NOT NULL,
    since   bigint NOT NULL,
    until   bigint,
    PRIMARY KEY (job_id, since)
);
INSERT INTO pauses (job_id, since, until)
SELECT id, coalesce(paused_at, changed_at, created_at), CASE WHEN state = 0 THEN paused_until END
FROM jobs WHERE state IN (1, 3) OR paused_until IS NOT NULL;

-- Who does what one alone does, until when, and how far it has come.
CREATE TABLE watches (
    name     text   PRIMARY KEY,
    owner    text   NOT NULL,
    until    bigint NOT NULL,
    reached  text   NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

-- How long a job's executions run: a sketch (domain/expected.py).
CREATE TABLE job_figures (
    job_id      uuid    PRIMARY KEY,
    tenant      integer NOT NULL,
    sketch      json    NOT NULL,
    updated_at  bigint  NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Ends that are dead letters, in the order in which they came: small, and no success pays for it.
CREATE INDEX outcomes_dead ON outcomes (finished_at, id) WHERE state = 5;

CREATE TABLE missed_fires (
    job_id       uuid     NOT NULL,
    at           bigint   NOT NULL,
    tenant       integer  NOT NULL,
    kind         smallint NOT NULL,                               -- 0 nothing is recorded, 1 it is recorded and stands nowhere
    found_at     bigint   NOT NULL,
    resolved_at  bigint,
    PRIMARY KEY (job_id, at)
);
CREATE INDEX missed_fires_of_tenant ON missed_fires (tenant, at, job_id);
CREATE INDEX missed_fires_open ON missed_fires (at) WHERE resolved_at IS NULL;

CREATE TABLE alert_rules (
    tenant         integer NOT NULL,
    name           text    NOT NULL,
    version        integer NOT NULL,
    definition     json    NOT NULL,
    updated_at     bigint  NOT NULL,
    snoozed_until  bigint,
    PRIMARY KEY (tenant, name)
);

CREATE TABLE alert_channels (
    tenant      integer NOT NULL,
    name        text    NOT NULL,
    version     integer NOT NULL,
    definition  json    NOT NULL,
    updated_at  bigint  NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- One row for each time that a rule's condition held for a subject. `version` grows with every change: a change is made where it still is
-- what was read.
CREATE TABLE incidents (
    id             uuid     PRIMARY KEY,
    tenant         integer  NOT NULL,
    rule           text     NOT NULL,
    subject        text     NOT NULL,                             -- a job, a pool, a cause …: what is grouped into one
    phase          smallint NOT NULL,                             -- 0 within the grace, 1 open, 2 resolved
    version        integer  NOT NULL,
    since          bigint   NOT NULL,                             -- from when on the condition held
    opened_at      bigint,
    resolved_at    bigint,
    snoozed_until  bigint,
    is_told        boolean  NOT NULL DEFAULT false,               -- whether its channels were told, or are being
    about          json     NOT NULL
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX incidents_live ON incidents (tenant, rule, subject) WHERE phase < 2;
CREATE INDEX incidents_of_tenant ON incidents (tenant, id);

CREATE TABLE deliveries (
    incident       uuid     NOT NULL,
    channel        text     NOT NULL,
    event          smallint NOT NULL,                             -- 0 opened, 1 resolved
    tenant         integer  NOT NULL,
    created_at     bigint   NOT NULL,
    due_at         bigint   NOT NULL,
    tries          integer  NOT NULL DEFAULT 0,
    claimed_by     text,
    claimed_until  bigint   NOT NULL DEFAULT 0,
    sent_at        bigint,
    given_up_at    bigint,
    error          text,
    PRIMARY KEY (incident, channel, event)
) WITH (fillfactor = 70);
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE sent_at IS NULL AND given_up_at IS NULL;

-- What may be read with an address alone: a badge, a calendar. As hashes.
CREATE TABLE links (
    id          text    PRIMARY KEY,
    tenant      integer NOT NULL,
    kind        text    NOT NULL,
    job_id      uuid,
    hash        bytea   NOT NULL,
    created_at  bigint  NOT NULL,
    created_by  text    NOT NULL,
    expires_at  bigint,
    revoked_at  bigint
);
CREATE INDEX links_of_tenant ON links (tenant, id);

-- For those who act for everybody; no tenant sees it.
CREATE POLICY others ON watches USING (current_user <> 'duly_tenant');
ALTER TABLE watches ENABLE ROW LEVEL SECURITY;
