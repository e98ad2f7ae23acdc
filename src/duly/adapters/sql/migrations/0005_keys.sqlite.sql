-- Keys, sessions and one-time links, as in the PostgreSQL text of the same number.

ALTER TABLE keys ADD COLUMN prefix TEXT;
ALTER TABLE keys ADD COLUMN pools TEXT;
ALTER TABLE keys ADD COLUMN lasts INTEGER;
ALTER TABLE keys ADD COLUMN replaces TEXT;
ALTER TABLE keys ADD COLUMN family TEXT;
ALTER TABLE keys ADD COLUMN last_used_at INTEGER;
UPDATE keys SET lasts = expires_at - created_at WHERE expires_at IS NOT NULL;
CREATE INDEX keys_replacing ON keys (replaces) WHERE replaces IS NOT NULL;

ALTER TABLE workers ADD COLUMN family TEXT;

CREATE TABLE sessions (
    hash        BLOB    PRIMARY KEY,
    tenant      INTEGER NOT NULL,
    key_id      TEXT    NOT NULL,
    role        TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    used_at     INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE login_links (
    hash        BLOB    PRIMARY KEY,
    tenant      INTEGER NOT NULL,
    key_id      TEXT    NOT NULL,
    role        TEXT    NOT NULL,
    expires_at  INTEGER NOT NULL
) WITHOUT ROWID;
