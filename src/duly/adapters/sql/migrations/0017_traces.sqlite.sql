-- The trace contexts that executions were given. See the PostgreSQL text.
CREATE TABLE traces (
    id       BLOB    PRIMARY KEY,
    tenant   INTEGER NOT NULL,
    context  TEXT    NOT NULL
) WITHOUT ROWID;
