-- The outbox: see the PostgreSQL migration. Triggers here are for each row, so there is a row for each execution.
CREATE TABLE outbox (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    kind      INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    id        BLOB    NOT NULL,
    attempt   INTEGER NOT NULL,
    lease_id  INTEGER,
    worker    INTEGER
);
CREATE TABLE heralds (
    herald   INTEGER PRIMARY KEY DEFAULT 1 CHECK (herald = 1),
    owner    TEXT    NOT NULL,
    until    INTEGER NOT NULL,
    seen_at  INTEGER NOT NULL
);
