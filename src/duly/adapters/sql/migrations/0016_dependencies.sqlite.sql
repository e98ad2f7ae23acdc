-- Dependencies between jobs. See the PostgreSQL text.
CREATE TABLE awaited (
    gate      BLOB    PRIMARY KEY,
    tenant    INTEGER NOT NULL,
    job       TEXT    NOT NULL,
    first     INTEGER NOT NULL,
    past      INTEGER NOT NULL,
    deadline  INTEGER NOT NULL,
    runs      INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX awaited_jobs ON awaited (tenant, job);
