-- Alerts. See the PostgreSQL text.

-- When jobs did not fire because somebody had paused or cancelled them: from `since` on, to before `until`; NULL: still.
CREATE TABLE pauses (
    job_id  BLOB   NOT NULL,
    since   INTEGER NOT NULL,
    until   INTEGER,
    PRIMARY KEY (job_id, since)
) WITHOUT ROWID;
INSERT INTO pauses (job_id, since, until)
SELECT id, coalesce(paused_at, changed_at, created_at), CASE WHEN state = 0 THEN paused_until END
FROM jobs WHERE state IN (1, 3) OR paused_until IS NOT NULL;

-- Who does what one alone does, until when, and how far it has come.
CREATE TABLE watches (
    name     TEXT   PRIMARY KEY,
    owner    TEXT   NOT NULL,
    until    INTEGER NOT NULL,
    reached  TEXT   NOT NULL
) WITHOUT ROWID;

-- How long a job's executions run: a sketch (domain/expected.py).
CREATE TABLE job_figures (
    job_id      BLOB    PRIMARY KEY,
    tenant      INTEGER NOT NULL,
    sketch      TEXT    NOT NULL,
    updated_at  INTEGER  NOT NULL
) WITHOUT ROWID;

-- Ends that are dead letters, in the order in which they came: small, and no success pays for it.
CREATE INDEX outcomes_dead ON outcomes (finished_at, id) WHERE state = 5;

CREATE TABLE missed_fires (
    job_id       BLOB     NOT NULL,
    at           INTEGER   NOT NULL,
    tenant       INTEGER  NOT NULL,
    kind         INTEGER NOT NULL,                               -- 0 nothing is recorded, 1 it is recorded and stands nowhere
    found_at     INTEGER   NOT NULL,
    resolved_at  INTEGER,
    PRIMARY KEY (job_id, at)
) WITHOUT ROWID;
CREATE INDEX missed_fires_of_tenant ON missed_fires (tenant, at, job_id);
CREATE INDEX missed_fires_open ON missed_fires (at) WHERE resolved_at IS NULL;

CREATE TABLE alert_rules (
    tenant         INTEGER NOT NULL,
    name           TEXT    NOT NULL,
    version        INTEGER NOT NULL,
    definition     TEXT    NOT NULL,
    updated_at     INTEGER  NOT NULL,
    snoozed_until  INTEGER,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

CREATE TABLE alert_channels (
    tenant      INTEGER NOT NULL,
    name        TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    definition  TEXT    NOT NULL,
    updated_at  INTEGER  NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

-- One row for each time that a rule's condition held for a subject. `version` grows with every change: a change is made where it still is
-- what was read.
CREATE TABLE incidents (
    id             BLOB     PRIMARY KEY,
    tenant         INTEGER  NOT NULL,
    rule           TEXT     NOT NULL,
    subject        TEXT     NOT NULL,                             -- a job, a pool, a cause …: what is grouped into one
    phase          INTEGER NOT NULL,                             -- 0 within the grace, 1 open, 2 resolved
    version        INTEGER  NOT NULL,
    since          INTEGER   NOT NULL,                             -- from when on the condition held
    opened_at      INTEGER,
    resolved_at    INTEGER,
    snoozed_until  INTEGER,
    is_told        INTEGER NOT NULL DEFAULT 0,               -- whether its channels were told, or are being
    about          TEXT     NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX incidents_live ON incidents (tenant, rule, subject) WHERE phase < 2;
CREATE INDEX incidents_of_tenant ON incidents (tenant, id);

CREATE TABLE deliveries (
    incident       BLOB     NOT NULL,
    channel        TEXT     NOT NULL,
    event          INTEGER NOT NULL,                             -- 0 opened, 1 resolved
    tenant         INTEGER  NOT NULL,
    created_at     INTEGER   NOT NULL,
    due_at         INTEGER   NOT NULL,
    tries          INTEGER  NOT NULL DEFAULT 0,
    claimed_by     TEXT,
    claimed_until  INTEGER   NOT NULL DEFAULT 0,
    sent_at        INTEGER,
    given_up_at    INTEGER,
    error          TEXT,
    PRIMARY KEY (incident, channel, event)
) WITHOUT ROWID;
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE sent_at IS NULL AND given_up_at IS NULL;

-- What may be read with an address alone: a badge, a calendar. As hashes.
CREATE TABLE links (
    id          TEXT    PRIMARY KEY,
    tenant      INTEGER NOT NULL,
    kind        TEXT    NOT NULL,
    job_id      BLOB,
    hash        BLOB   NOT NULL,
    created_at  INTEGER  NOT NULL,
    created_by  TEXT    NOT NULL,
    expires_at  INTEGER,
    revoked_at  INTEGER
) WITHOUT ROWID;
CREATE INDEX links_of_tenant ON links (tenant, id);
