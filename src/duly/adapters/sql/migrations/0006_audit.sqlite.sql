-- The audit trail: see the PostgreSQL text. With one writer the order of the places is the order of the commits.

CREATE TABLE audit (
    place       INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant      INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    actor       TEXT    NOT NULL,
    role        TEXT    NOT NULL,
    channel     TEXT    NOT NULL,
    request_id  TEXT,
    action      TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    subject     TEXT    NOT NULL,
    job_id      BLOB,
    reason      TEXT,
    before      TEXT,
    after       TEXT
);
CREATE INDEX audit_of_tenant ON audit (tenant, place);
CREATE INDEX audit_of_subject ON audit (tenant, subject, place);
CREATE INDEX audit_of_job ON audit (tenant, job_id, place) WHERE job_id IS NOT NULL;

CREATE TABLE audit_links (
    tenant  INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    place   INTEGER NOT NULL,
    hash    BLOB    NOT NULL,
    PRIMARY KEY (tenant, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX audit_links_of_place ON audit_links (tenant, place);

CREATE TABLE audit_heads (
    tenant       INTEGER PRIMARY KEY,
    seq          INTEGER NOT NULL,
    hash         BLOB    NOT NULL,
    anchor_seq   INTEGER NOT NULL DEFAULT 0,
    anchor_hash  BLOB    NOT NULL,
    anchor_at    INTEGER
);

CREATE TABLE audit_progress (
    id     INTEGER PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    xid    INTEGER NOT NULL DEFAULT 0,
    place  INTEGER NOT NULL DEFAULT 0
);

-- ---------------------------------------------------------------- append only

CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit is append-only.');
END;

CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
WHEN NOT EXISTS (SELECT 1 FROM audit_links l JOIN audit_heads h ON h.tenant = l.tenant
                 WHERE l.tenant = OLD.tenant AND l.place = OLD.place AND l.seq <= h.anchor_seq)
BEGIN
    SELECT RAISE(ABORT, 'audit is append-only.');
END;

CREATE TRIGGER audit_links_no_update BEFORE UPDATE ON audit_links
BEGIN
    SELECT RAISE(ABORT, 'audit_links is append-only.');
END;

CREATE TRIGGER audit_links_no_delete BEFORE DELETE ON audit_links
WHEN NOT EXISTS (SELECT 1 FROM audit_heads h WHERE h.tenant = OLD.tenant AND OLD.seq <= h.anchor_seq)
BEGIN
    SELECT RAISE(ABORT, 'audit_links is append-only.');
END;

CREATE TRIGGER audit_heads_grow BEFORE UPDATE ON audit_heads
WHEN NEW.tenant <> OLD.tenant OR NEW.seq < OLD.seq OR NEW.anchor_seq < OLD.anchor_seq OR NEW.anchor_seq > NEW.seq
     OR (NEW.seq = OLD.seq AND NEW.hash <> OLD.hash)
BEGIN
    SELECT RAISE(ABORT, 'a chain only grows.');
END;

CREATE TRIGGER audit_heads_no_delete BEFORE DELETE ON audit_heads
BEGIN
    SELECT RAISE(ABORT, 'audit_heads is append-only.');
END;
