-- Keys: a beginning that may be shown, the pools that a worker's key opens, when it was last used, and the chain of its rotations.
-- Sessions and one-time links for browsers: like keys they are kept as hashes, and they end with the key that they came from.

ALTER TABLE keys
    ADD COLUMN prefix        text,                                -- NULL: made before it was kept
    ADD COLUMN pools         text,                                -- a JSON list; NULL: every pool
    ADD COLUMN lasts         bigint,                              -- how long it was made for; NULL: for ever
    ADD COLUMN replaces      text,                                -- the key that it was rotated from
    ADD COLUMN family        text,                                -- the first key of its chain; NULL: itself
    ADD COLUMN last_used_at  bigint;
UPDATE keys SET lasts = expires_at - created_at WHERE expires_at IS NOT NULL;
CREATE INDEX keys_replacing ON keys (replaces) WHERE replaces IS NOT NULL;

ALTER TABLE workers ADD COLUMN family text;                       -- whose keys may act as this worker; NULL: its tenant's

CREATE TABLE sessions (
    hash        bytea   PRIMARY KEY,
    tenant      integer NOT NULL,
    key_id      text    NOT NULL,
    role        text    NOT NULL,
    created_at  bigint  NOT NULL,
    used_at     bigint  NOT NULL
) WITH (fillfactor = 80);

CREATE TABLE login_links (
    hash        bytea   PRIMARY KEY,
    tenant      integer NOT NULL,
    key_id      text    NOT NULL,
    role        text    NOT NULL,
    expires_at  bigint  NOT NULL
);
