-- Writes down every change of the ledger, in the transaction that makes it. `{now}` and `{actor}` are expressions: what the
-- store's clock says, and who is writing, where anybody can tell.

CREATE TABLE verify_events (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    at       INTEGER NOT NULL,
    kind     TEXT    NOT NULL,
    actor    TEXT,
    tenant   INTEGER,
    job      BLOB,
    run      BLOB,
    attempt  INTEGER,
    fence    INTEGER,
    worker   INTEGER,
    shard    INTEGER,
    epoch    INTEGER,
    data     TEXT    NOT NULL DEFAULT '{}'
);

CREATE TRIGGER verify_jobs_insert AFTER INSERT ON jobs BEGIN
    INSERT INTO verify_events (at, kind, actor, tenant, job, data)
    VALUES ({now}, 'job.created', {actor}, NEW.tenant, NEW.id, json_object('name', NEW.name, 'state', NEW.state, 'version', NEW.version));
END;
CREATE TRIGGER verify_jobs_update AFTER UPDATE ON jobs BEGIN
    INSERT INTO verify_events (at, kind, actor, tenant, job, data)
    VALUES ({now}, 'job.changed', {actor}, NEW.tenant, NEW.id,
            json_object('state', NEW.state, 'version', NEW.version, 'pausedAt', NEW.paused_at, 'pausedUntil', NEW.paused_until));
END;
CREATE TRIGGER verify_versions_insert AFTER INSERT ON job_versions WHEN NEW.workflow IS NULL BEGIN
    INSERT INTO verify_events (at, kind, actor, job, data)
    VALUES ({now}, 'version.created', {actor}, NEW.job_id,
            json_object('versionId', NEW.id, 'version', NEW.version, 'maxAttempts', NEW.max_attempts));
END;

CREATE TRIGGER verify_schedules_insert AFTER INSERT ON schedules BEGIN
    INSERT INTO verify_events (at, kind, actor, job, shard, data)
    VALUES ({now}, 'schedule.set', {actor}, NEW.job_id, NEW.shard, json_object('next', NEW.next_fire_at, 'paused', NEW.paused));
END;
CREATE TRIGGER verify_schedules_update AFTER UPDATE ON schedules
WHEN OLD.next_fire_at <> NEW.next_fire_at OR OLD.version <> NEW.version OR OLD.paused <> NEW.paused BEGIN
    INSERT INTO verify_events (at, kind, actor, job, shard, epoch, data)
    SELECT {now}, 'schedule.advanced', {actor}, NEW.job_id, NEW.shard, s.epoch,
           json_object('from', OLD.next_fire_at, 'to', NEW.next_fire_at, 'paused', NEW.paused, 'versionId', NEW.version, 'owner', s.owner)
    FROM shards s WHERE s.shard = NEW.shard;
END;
CREATE TRIGGER verify_schedules_delete AFTER DELETE ON schedules BEGIN
    INSERT INTO verify_events (at, kind, actor, job, shard) VALUES ({now}, 'schedule.removed', {actor}, OLD.job_id, OLD.shard);
END;

CREATE TRIGGER verify_shards_update AFTER UPDATE ON shards WHEN OLD.epoch <> NEW.epoch OR OLD.owner IS NOT NEW.owner BEGIN
    INSERT INTO verify_events (at, kind, actor, shard, epoch, data)
    VALUES ({now}, 'shard.taken', {actor}, NEW.shard, NEW.epoch, json_object('owner', NEW.owner, 'before', OLD.owner, 'until', OLD.lease_until));
END;

CREATE TRIGGER verify_executions_insert AFTER INSERT ON executions BEGIN
    INSERT INTO verify_events (at, kind, actor, tenant, job, run, data)
    VALUES ({now}, 'fire.created', {actor}, NEW.tenant,
            coalesce((SELECT v.workflow FROM job_versions v WHERE v.id = NEW.job_version), NEW.job_id), NEW.id,
            json_object('trigger', NEW.trigger, 'nominal', coalesce(NEW.scheduled_at, NEW.due_at), 'due', NEW.due_at,
                        'skip', NEW.skip_reason, 'versionId', NEW.job_version, 'holdsPlace', NEW.holds_place,
                        'flow', CASE WHEN NEW.run IS NOT NULL THEN 'run_' || lower(hex(NEW.run)) END, 'step', NEW.step, 'nth', NEW.nth));
END;
CREATE TRIGGER verify_flows_insert AFTER INSERT ON flows BEGIN
    INSERT INTO verify_events (at, kind, actor, tenant, run, data)
    VALUES ({now}, 'flow.begun', {actor}, NEW.tenant, NEW.run, json_object('width', NEW.width));
END;
CREATE TRIGGER verify_timers_insert AFTER INSERT ON timers BEGIN
    INSERT INTO verify_events (at, kind, actor, tenant, run, attempt, data)
    VALUES ({now}, 'run.scheduled', {actor}, NEW.tenant, NEW.id, NEW.attempt, json_object('due', NEW.due_at));
END;
CREATE TRIGGER verify_timers_update AFTER UPDATE ON timers WHEN OLD.due_at <> NEW.due_at OR OLD.attempt <> NEW.attempt BEGIN
    INSERT INTO verify_events (at, kind, actor, tenant, run, attempt, data)
    VALUES ({now}, 'timer.changed', {actor}, NEW.tenant, NEW.id, NEW.attempt, json_object('due', NEW.due_at));
END;
CREATE TRIGGER verify_ready_insert AFTER INSERT ON ready BEGIN
    INSERT INTO verify_events (at, kind, actor, tenant, run, attempt, data)
    VALUES ({now}, 'run.ready', {actor}, NEW.tenant, NEW.id, NEW.attempt, json_object('rank', NEW.rank));
END;
CREATE TRIGGER verify_blocked_insert AFTER INSERT ON blocked BEGIN
    INSERT INTO verify_events (at, kind, actor, tenant, run, attempt, data)
    VALUES ({now}, 'run.blocked', {actor}, NEW.tenant, NEW.id, NEW.attempt, json_object('reason', NEW.reason));
END;
CREATE TRIGGER verify_blocked_update AFTER UPDATE ON blocked WHEN OLD.reason <> NEW.reason BEGIN
    INSERT INTO verify_events (at, kind, actor, tenant, run, attempt, data)
    VALUES ({now}, 'block.changed', {actor}, NEW.tenant, NEW.id, NEW.attempt, json_object('reason', NEW.reason));
END;
CREATE TRIGGER verify_leased_insert AFTER INSERT ON leased BEGIN
    INSERT INTO verify_events (at, kind, actor, run, attempt, fence, worker, data)
    SELECT {now}, 'lease.granted', {actor}, NEW.id, NEW.attempt, NEW.lease_id, l.worker, json_object('granted', l.granted_at)
    FROM leases l WHERE l.lease_id = NEW.lease_id;
END;
CREATE TRIGGER verify_attempts_insert AFTER INSERT ON attempts WHEN NEW.outcome <> 1 BEGIN
    INSERT INTO verify_events (at, kind, actor, run, attempt, fence, worker, data)
    VALUES ({now}, 'attempt.ended', {actor}, NEW.id, NEW.attempt, NEW.lease_id, NEW.worker,
            json_object('outcome', NEW.outcome, 'retryAt', NEW.retry_at));
END;
CREATE TRIGGER verify_attempts_update AFTER UPDATE ON attempts BEGIN
    INSERT INTO verify_events (at, kind, actor, run, attempt, fence, worker, data)
    VALUES ({now}, 'attempt.changed', {actor}, NEW.id, NEW.attempt, NEW.lease_id, NEW.worker,
            json_object('outcome', NEW.outcome, 'retryAt', NEW.retry_at));
END;
CREATE TRIGGER verify_outcomes_insert AFTER INSERT ON outcomes BEGIN
    INSERT INTO verify_events (at, kind, actor, run, attempt, fence, worker, data)
    VALUES ({now}, 'run.ended', {actor}, NEW.id, NEW.attempt, NEW.lease_id, NEW.worker, json_object('state', NEW.state));
END;
CREATE TRIGGER verify_outcomes_update AFTER UPDATE ON outcomes BEGIN
    INSERT INTO verify_events (at, kind, actor, run, attempt, fence, worker, data)
    VALUES ({now}, 'run.ended', {actor}, NEW.id, NEW.attempt, NEW.lease_id, NEW.worker, json_object('state', NEW.state));
END;

CREATE TRIGGER verify_workers_insert AFTER INSERT ON workers BEGIN
    INSERT INTO verify_events (at, kind, actor, worker, data)
    VALUES ({now}, 'worker.registered', {actor}, NEW.id, json_object('expires', NEW.expires_at, 'name', NEW.name));
END;
CREATE TRIGGER verify_workers_renew AFTER UPDATE ON workers
WHEN OLD.expires_at <> NEW.expires_at AND NOT (OLD.lost_at IS NULL AND NEW.lost_at IS NOT NULL) BEGIN
    INSERT INTO verify_events (at, kind, actor, worker, data)
    VALUES ({now}, 'worker.renewed', {actor}, NEW.id, json_object('expires', NEW.expires_at));
END;
CREATE TRIGGER verify_workers_lose AFTER UPDATE ON workers WHEN OLD.lost_at IS NULL AND NEW.lost_at IS NOT NULL BEGIN
    INSERT INTO verify_events (at, kind, actor, worker) VALUES ({now}, 'worker.lost', {actor}, NEW.id);
END;

CREATE TRIGGER verify_cancels_insert AFTER INSERT ON cancels BEGIN
    INSERT INTO verify_events (at, kind, actor, run, data) VALUES ({now}, 'cancel.asked', {actor}, NEW.id, json_object('by', NEW.asked_by));
END;
CREATE TRIGGER verify_checkpoints_insert AFTER INSERT ON checkpoints WHEN NEW.number > 0 BEGIN
    INSERT INTO verify_events (at, kind, actor, run, attempt, data)
    VALUES ({now}, 'checkpoint.saved', {actor}, NEW.id, NEW.attempt, json_object('number', NEW.number));
END;
CREATE TRIGGER verify_checkpoints_update AFTER UPDATE ON checkpoints
WHEN NEW.number > 0 AND (OLD.number <> NEW.number OR OLD.attempt <> NEW.attempt) BEGIN
    INSERT INTO verify_events (at, kind, actor, run, attempt, data)
    VALUES ({now}, 'checkpoint.saved', {actor}, NEW.id, NEW.attempt, json_object('number', NEW.number));
END;

CREATE TRIGGER verify_places_insert AFTER INSERT ON places BEGIN
    INSERT INTO verify_events (at, kind, actor, job, run) VALUES ({now}, 'place.taken', {actor}, NEW.job_id, NEW.id);
END;
CREATE TRIGGER verify_places_update AFTER UPDATE ON places WHEN OLD.id <> NEW.id BEGIN
    INSERT INTO verify_events (at, kind, actor, job, run) VALUES ({now}, 'place.left', {actor}, OLD.job_id, OLD.id);
    INSERT INTO verify_events (at, kind, actor, job, run) VALUES ({now}, 'place.taken', {actor}, NEW.job_id, NEW.id);
END;
CREATE TRIGGER verify_places_delete AFTER DELETE ON places BEGIN
    INSERT INTO verify_events (at, kind, actor, job, run) VALUES ({now}, 'place.left', {actor}, OLD.job_id, OLD.id);
END;
CREATE TRIGGER verify_slots_insert AFTER INSERT ON slots BEGIN
    INSERT INTO verify_events (at, kind, actor, run, attempt, data)
    VALUES ({now}, 'slot.taken', {actor}, NEW.id, NEW.attempt, json_object('gate', lower(hex(NEW.gate)), 'until', NEW.until));
END;
CREATE TRIGGER verify_slots_update AFTER UPDATE ON slots WHEN OLD.until IS NOT NEW.until BEGIN
    INSERT INTO verify_events (at, kind, actor, run, attempt, data)
    VALUES ({now}, 'slot.changed', {actor}, NEW.id, NEW.attempt, json_object('gate', lower(hex(NEW.gate)), 'until', NEW.until));
END;
CREATE TRIGGER verify_slots_delete AFTER DELETE ON slots BEGIN
    INSERT INTO verify_events (at, kind, actor, run, attempt, data)
    VALUES ({now}, 'slot.left', {actor}, OLD.id, OLD.attempt, json_object('gate', lower(hex(OLD.gate)), 'until', OLD.until));
END;
