-- The same on PostgreSQL. The actor is the name under which the node connected (`application_name` of its store URL).
-- `seq` is drawn when a row is written, not when it is committed: writers of the same row wait for one another, so for them
-- it is the order of the commits; a transaction that was rolled back leaves a gap. Retention, when it drops a partition, puts what
-- must stay in again, which would be told as new: a recorded store is younger than its retention.

CREATE TABLE duly.verify_events (
    seq      bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       bigint   NOT NULL DEFAULT duly.duly_now(),
    kind     text     NOT NULL,
    actor    text     DEFAULT current_setting('application_name'),
    tenant   integer,
    job      uuid,
    run      uuid,
    attempt  integer,
    fence    bigint,
    worker   bigint,
    shard    integer,
    epoch    bigint,
    data     json     NOT NULL DEFAULT '{}'
);

CREATE FUNCTION duly.verify_jobs() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO duly.verify_events (kind, tenant, job, data)
        VALUES ('job.created', NEW.tenant, NEW.id, json_build_object('name', NEW.name, 'state', NEW.state, 'version', NEW.version));
    ELSE
        INSERT INTO duly.verify_events (kind, tenant, job, data)
        VALUES ('job.changed', NEW.tenant, NEW.id,
                json_build_object('state', NEW.state, 'version', NEW.version, 'pausedAt', NEW.paused_at, 'pausedUntil', NEW.paused_until));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER verify AFTER INSERT OR UPDATE ON duly.jobs FOR EACH ROW EXECUTE FUNCTION duly.verify_jobs();

CREATE FUNCTION duly.verify_job_versions() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO duly.verify_events (kind, job, data)
    VALUES ('version.created', NEW.job_id, json_build_object('versionId', NEW.id, 'version', NEW.version, 'maxAttempts', NEW.max_attempts));
    RETURN NULL;
END $$;
CREATE TRIGGER verify AFTER INSERT ON duly.job_versions FOR EACH ROW WHEN (NEW.workflow IS NULL) EXECUTE FUNCTION duly.verify_job_versions();

CREATE FUNCTION duly.verify_schedules() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO duly.verify_events (kind, job, shard, data)
        VALUES ('schedule.set', NEW.job_id, NEW.shard, json_build_object('next', NEW.next_fire_at, 'paused', NEW.paused::int));
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO duly.verify_events (kind, job, shard) VALUES ('schedule.removed', OLD.job_id, OLD.shard);
    ELSIF (OLD.next_fire_at, OLD.version, OLD.paused) IS DISTINCT FROM (NEW.next_fire_at, NEW.version, NEW.paused) THEN
        INSERT INTO duly.verify_events (kind, job, shard, epoch, data)
        SELECT 'schedule.advanced', NEW.job_id, NEW.shard, s.epoch,
               json_build_object('from', OLD.next_fire_at, 'to', NEW.next_fire_at, 'paused', NEW.paused::int,
                                 'versionId', NEW.version, 'owner', s.owner)
        FROM duly.shards s WHERE s.shard = NEW.shard;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER verify AFTER INSERT OR UPDATE OR DELETE ON duly.schedules FOR EACH ROW EXECUTE FUNCTION duly.verify_schedules();

CREATE FUNCTION duly.verify_shards() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF (OLD.epoch, OLD.owner) IS DISTINCT FROM (NEW.epoch, NEW.owner) THEN
        INSERT INTO duly.verify_events (kind, shard, epoch, data)
        VALUES ('shard.taken', NEW.shard, NEW.epoch, json_build_object('owner', NEW.owner, 'before', OLD.owner, 'until', OLD.lease_until));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER verify AFTER UPDATE ON duly.shards FOR EACH ROW EXECUTE FUNCTION duly.verify_shards();

CREATE FUNCTION duly.verify_executions() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO duly.verify_events (kind, tenant, job, run, data)
    VALUES ('fire.created', NEW.tenant,
            coalesce((SELECT v.workflow FROM duly.job_versions v WHERE v.id = NEW.job_version), NEW.job_id), NEW.id,
            json_build_object('trigger', NEW.trigger, 'nominal', coalesce(NEW.scheduled_at, NEW.due_at), 'due', NEW.due_at,
                              'skip', NEW.skip_reason, 'versionId', NEW.job_version, 'holdsPlace', NEW.holds_place::int,
                              'flow', 'run_' || replace(NEW.run::text, '-', ''), 'step', NEW.step, 'nth', NEW.nth));
    RETURN NULL;
END $$;
CREATE TRIGGER verify AFTER INSERT ON duly.executions FOR EACH ROW EXECUTE FUNCTION duly.verify_executions();

CREATE FUNCTION duly.verify_flows() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO duly.verify_events (kind, tenant, run, data) VALUES ('flow.begun', NEW.tenant, NEW.run, json_build_object('width', NEW.width));
    RETURN NULL;
END $$;
CREATE TRIGGER verify AFTER INSERT ON duly.flows FOR EACH ROW EXECUTE FUNCTION duly.verify_flows();

CREATE FUNCTION duly.verify_timers() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO duly.verify_events (kind, tenant, run, attempt, data)
    VALUES (CASE TG_OP WHEN 'INSERT' THEN 'run.scheduled' ELSE 'timer.changed' END, NEW.tenant, NEW.id, NEW.attempt, json_build_object('due', NEW.due_at));
    RETURN NULL;
END $$;
CREATE TRIGGER verify_changes AFTER UPDATE ON duly.timers FOR EACH ROW
WHEN (OLD.due_at <> NEW.due_at OR OLD.attempt <> NEW.attempt) EXECUTE FUNCTION duly.verify_timers();
CREATE TRIGGER verify AFTER INSERT ON duly.timers FOR EACH ROW EXECUTE FUNCTION duly.verify_timers();

CREATE FUNCTION duly.verify_ready() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO duly.verify_events (kind, tenant, run, attempt, data)
    VALUES ('run.ready', NEW.tenant, NEW.id, NEW.attempt, json_build_object('rank', NEW.rank));
    RETURN NULL;
END $$;
-- What the sweeper only moves to new pages (`renew_queue`) was ready before.
CREATE TRIGGER verify AFTER INSERT ON duly.ready FOR EACH ROW WHEN (current_query() NOT LIKE '%TRUNCATE ready%') EXECUTE FUNCTION duly.verify_ready();

CREATE FUNCTION duly.verify_blocked() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO duly.verify_events (kind, tenant, run, attempt, data)
    VALUES (CASE TG_OP WHEN 'INSERT' THEN 'run.blocked' ELSE 'block.changed' END, NEW.tenant, NEW.id, NEW.attempt, json_build_object('reason', NEW.reason));
    RETURN NULL;
END $$;
CREATE TRIGGER verify_changes AFTER UPDATE ON duly.blocked FOR EACH ROW WHEN (OLD.reason <> NEW.reason) EXECUTE FUNCTION duly.verify_blocked();
CREATE TRIGGER verify AFTER INSERT ON duly.blocked FOR EACH ROW EXECUTE FUNCTION duly.verify_blocked();

CREATE FUNCTION duly.verify_leases() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO duly.verify_events (kind, run, attempt, fence, worker, data)
    SELECT 'lease.granted', m.id, m.attempt, NEW.lease_id, NEW.worker, json_build_object('granted', NEW.granted_at)
    FROM unnest(NEW.ids, NEW.attempts) AS m (id, attempt);
    RETURN NULL;
END $$;
CREATE TRIGGER verify AFTER INSERT ON duly.leases FOR EACH ROW EXECUTE FUNCTION duly.verify_leases();

CREATE FUNCTION duly.verify_attempts() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO duly.verify_events (kind, run, attempt, fence, worker, data)
    VALUES (CASE TG_OP WHEN 'INSERT' THEN 'attempt.ended' ELSE 'attempt.changed' END, NEW.id, NEW.attempt, NEW.lease_id, NEW.worker,
            json_build_object('outcome', NEW.outcome, 'retryAt', NEW.retry_at));
    RETURN NULL;
END $$;
-- Only unsuccessful attempts have a row. `duly_end` writes another one and takes it back at once, to be told of a conflict.
CREATE TRIGGER verify AFTER INSERT ON duly.attempts FOR EACH ROW WHEN (NEW.outcome <> 1) EXECUTE FUNCTION duly.verify_attempts();
CREATE TRIGGER verify_changes AFTER UPDATE ON duly.attempts FOR EACH ROW EXECUTE FUNCTION duly.verify_attempts();

CREATE FUNCTION duly.verify_outcomes() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO duly.verify_events (kind, run, attempt, fence, worker, data)
    VALUES ('run.ended', NEW.id, NEW.attempt, NEW.lease_id, NEW.worker, json_build_object('state', NEW.state));
    RETURN NULL;
END $$;
CREATE TRIGGER verify AFTER INSERT OR UPDATE ON duly.outcomes FOR EACH ROW EXECUTE FUNCTION duly.verify_outcomes();

CREATE FUNCTION duly.verify_workers() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO duly.verify_events (kind, worker, data)
        VALUES ('worker.registered', NEW.id, json_build_object('expires', NEW.expires_at, 'name', NEW.name));
    ELSIF OLD.lost_at IS NULL AND NEW.lost_at IS NOT NULL THEN
        INSERT INTO duly.verify_events (kind, worker) VALUES ('worker.lost', NEW.id);
    ELSIF OLD.expires_at <> NEW.expires_at THEN
        INSERT INTO duly.verify_events (kind, worker, data) VALUES ('worker.renewed', NEW.id, json_build_object('expires', NEW.expires_at));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER verify AFTER INSERT OR UPDATE ON duly.workers FOR EACH ROW EXECUTE FUNCTION duly.verify_workers();

CREATE FUNCTION duly.verify_cancels() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO duly.verify_events (kind, run, data) VALUES ('cancel.asked', NEW.id, json_build_object('by', NEW.asked_by));
    RETURN NULL;
END $$;
CREATE TRIGGER verify AFTER INSERT ON duly.cancels FOR EACH ROW EXECUTE FUNCTION duly.verify_cancels();

CREATE FUNCTION duly.verify_checkpoints() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF NEW.number > 0 AND (TG_OP = 'INSERT' OR OLD.number <> NEW.number OR OLD.attempt <> NEW.attempt) THEN
        INSERT INTO duly.verify_events (kind, run, attempt, data)
        VALUES ('checkpoint.saved', NEW.id, NEW.attempt, json_build_object('number', NEW.number));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER verify AFTER INSERT OR UPDATE ON duly.checkpoints FOR EACH ROW EXECUTE FUNCTION duly.verify_checkpoints();

CREATE FUNCTION duly.verify_places() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.id = NEW.id THEN
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO duly.verify_events (kind, job, run) VALUES ('place.left', OLD.job_id, OLD.id);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO duly.verify_events (kind, job, run) VALUES ('place.taken', NEW.job_id, NEW.id);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER verify AFTER INSERT OR UPDATE OR DELETE ON duly.places FOR EACH ROW EXECUTE FUNCTION duly.verify_places();

CREATE FUNCTION duly.verify_slots() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO duly.verify_events (kind, run, attempt, data)
        VALUES ('slot.taken', NEW.id, NEW.attempt, json_build_object('gate', replace(NEW.gate::text, '-', ''), 'until', NEW.until));
    ELSIF TG_OP = 'UPDATE' THEN
        IF OLD.until IS DISTINCT FROM NEW.until THEN
            INSERT INTO duly.verify_events (kind, run, attempt, data)
            VALUES ('slot.changed', NEW.id, NEW.attempt, json_build_object('gate', replace(NEW.gate::text, '-', ''), 'until', NEW.until));
        END IF;
    ELSE
        INSERT INTO duly.verify_events (kind, run, attempt, data)
        VALUES ('slot.left', OLD.id, OLD.attempt, json_build_object('gate', replace(OLD.gate::text, '-', ''), 'until', OLD.until));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER verify AFTER INSERT OR UPDATE OR DELETE ON duly.slots FOR EACH ROW EXECUTE FUNCTION duly.verify_slots();
