-- The audit trail: who did what, written in the transaction of the change and never again.
--
-- Rows are linked into one chain per tenant afterwards (docs/decisions/0013-audit.md). `xid` is the transaction that wrote a row:
-- whatever is older than the oldest open transaction is all there, so links are made in the order of (xid, place) and nothing can
-- appear before what has its link.

CREATE TABLE audit (
    place       bigint   GENERATED ALWAYS AS IDENTITY,
    tenant      integer  NOT NULL,
    xid         bigint   NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    at          bigint   NOT NULL,
    actor       text     NOT NULL,                                -- the id of the key
    role        text     NOT NULL,
    channel     text     NOT NULL,
    request_id  text,
    action      text     NOT NULL,
    kind        text     NOT NULL,                                -- of the subject
    subject     text     NOT NULL,
    job_id      uuid,
    reason      text,
    before      text,                                             -- JSON, as all of its links have it
    after       text,
    PRIMARY KEY (tenant, place)
);
CREATE INDEX audit_order ON audit (xid, place);
CREATE INDEX audit_of_subject ON audit (tenant, subject, place);
CREATE INDEX audit_of_job ON audit (tenant, job_id, place) WHERE job_id IS NOT NULL;

CREATE TABLE audit_links (
    tenant  integer  NOT NULL,
    seq     bigint   NOT NULL,
    place   bigint   NOT NULL,
    hash    bytea    NOT NULL,
    PRIMARY KEY (tenant, seq),
    UNIQUE (tenant, place)
);

-- Where a tenant's chain ends, and where it begins: what lies at or before the anchor was kept long enough and is gone.
CREATE TABLE audit_heads (
    tenant       integer  PRIMARY KEY,
    seq          bigint   NOT NULL,
    hash         bytea    NOT NULL,
    anchor_seq   bigint   NOT NULL DEFAULT 0,
    anchor_hash  bytea    NOT NULL,
    anchor_at    bigint
);

-- How far links have been made, over all tenants.
CREATE TABLE audit_progress (
    id     integer  PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    xid    bigint   NOT NULL DEFAULT 0,
    place  bigint   NOT NULL DEFAULT 0
);

-- ---------------------------------------------------------------- append only

CREATE FUNCTION duly_audit_stays() RETURNS trigger LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'restrict_violation', MESSAGE = format('%s is append-only.', TG_TABLE_NAME);
END $$;

-- The old end goes once the anchor of its chain has moved past it, and not before.
CREATE FUNCTION duly_audit_is_anchored(whose integer, link bigint) RETURNS boolean LANGUAGE sql STABLE SET search_path = duly, pg_temp AS $$
    SELECT coalesce((SELECT h.anchor_seq >= link FROM audit_heads h WHERE h.tenant = whose), false)
$$;

CREATE FUNCTION duly_audit_keeps_row() RETURNS trigger LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
BEGIN
    IF NOT coalesce((SELECT duly_audit_is_anchored(l.tenant, l.seq) FROM audit_links l
                     WHERE l.tenant = OLD.tenant AND l.place = OLD.place), false) THEN
        RAISE EXCEPTION USING ERRCODE = 'restrict_violation', MESSAGE = 'audit is append-only.';
    END IF;
    RETURN OLD;
END $$;

CREATE FUNCTION duly_audit_keeps_link() RETURNS trigger LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
BEGIN
    IF NOT duly_audit_is_anchored(OLD.tenant, OLD.seq) THEN
        RAISE EXCEPTION USING ERRCODE = 'restrict_violation', MESSAGE = 'audit_links is append-only.';
    END IF;
    RETURN OLD;
END $$;

CREATE FUNCTION duly_audit_grows() RETURNS trigger LANGUAGE plpgsql SET search_path = duly, pg_temp AS $$
BEGIN
    IF NEW.tenant <> OLD.tenant OR NEW.seq < OLD.seq OR NEW.anchor_seq < OLD.anchor_seq OR NEW.anchor_seq > NEW.seq
       OR (NEW.seq = OLD.seq AND NEW.hash <> OLD.hash) THEN
        RAISE EXCEPTION USING ERRCODE = 'restrict_violation', MESSAGE = 'a chain only grows.';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit FOR EACH ROW EXECUTE FUNCTION duly_audit_stays();
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit FOR EACH ROW EXECUTE FUNCTION duly_audit_keeps_row();
CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION duly_audit_stays();
CREATE TRIGGER audit_links_no_update BEFORE UPDATE ON audit_links FOR EACH ROW EXECUTE FUNCTION duly_audit_stays();
CREATE TRIGGER audit_links_no_delete BEFORE DELETE ON audit_links FOR EACH ROW EXECUTE FUNCTION duly_audit_keeps_link();
CREATE TRIGGER audit_links_no_truncate BEFORE TRUNCATE ON audit_links FOR EACH STATEMENT EXECUTE FUNCTION duly_audit_stays();
CREATE TRIGGER audit_heads_grow BEFORE UPDATE ON audit_heads FOR EACH ROW EXECUTE FUNCTION duly_audit_grows();
CREATE TRIGGER audit_heads_no_delete BEFORE DELETE ON audit_heads FOR EACH ROW EXECUTE FUNCTION duly_audit_stays();
CREATE TRIGGER audit_heads_no_truncate BEFORE TRUNCATE ON audit_heads FOR EACH STATEMENT EXECUTE FUNCTION duly_audit_stays();
