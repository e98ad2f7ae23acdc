-- Alerts: rules and channels, incidents, and what is to be sent of them.

-- name: alert_rules
SELECT r.tenant, t.name AS tenant_name, r.name, r.version, r.definition, r.updated_at, r.snoozed_until
FROM alert_rules r JOIN tenants t ON t.tenant = r.tenant
WHERE (CAST(:tenant AS integer) IS NULL OR r.tenant = CAST(:tenant AS integer)) AND t.standing = 0
ORDER BY r.tenant, r.name;

-- name: lock_alert_rule
SELECT name, version, definition FROM alert_rules WHERE tenant = :tenant AND name = :name
/*for update*/;

-- name: add_alert_rule
-- No row: another was faster.
INSERT INTO alert_rules (tenant, name, version, definition, updated_at) VALUES (:tenant, :name, 1, :definition, :now)
ON CONFLICT DO NOTHING
RETURNING version;

-- name: set_alert_rule
UPDATE alert_rules SET version = :version, definition = :definition, updated_at = :now WHERE tenant = :tenant AND name = :name;

-- name: drop_alert_rule
DELETE FROM alert_rules WHERE tenant = :tenant AND name = :name AND version = :version RETURNING name;

-- name: forget_alert_rule
-- The rule of a job's alert, with its job or with that part of its definition.
DELETE FROM alert_rules WHERE tenant = :tenant AND name = :name;

-- name: snooze_alert_rule
UPDATE alert_rules SET snoozed_until = :until WHERE tenant = :tenant AND name = :name RETURNING name;

-- name: alert_channels
SELECT c.tenant, c.name, c.version, c.definition, c.updated_at
FROM alert_channels c
WHERE CAST(:tenant AS integer) IS NULL OR c.tenant = CAST(:tenant AS integer)
ORDER BY c.tenant, c.name;

-- name: lock_alert_channel
SELECT name, version, definition FROM alert_channels WHERE tenant = :tenant AND name = :name
/*for update*/;

-- name: add_alert_channel
INSERT INTO alert_channels (tenant, name, version, definition, updated_at) VALUES (:tenant, :name, 1, :definition, :now)
ON CONFLICT DO NOTHING
RETURNING version;

-- name: set_alert_channel
UPDATE alert_channels SET version = :version, definition = :definition, updated_at = :now WHERE tenant = :tenant AND name = :name;

-- name: drop_alert_channel
DELETE FROM alert_channels WHERE tenant = :tenant AND name = :name AND version = :version RETURNING name;

-- name: latest_incidents
-- Newest first; of one subject the first is the latest.
SELECT * FROM incidents
WHERE tenant = :tenant AND rule = :rule AND (phase < 2 OR id >= :since)
ORDER BY id DESC LIMIT :quota;

-- name: live_incidents
-- Of tenants that are here, as their rules are: one that moves takes its incidents along as they are.
SELECT i.*
FROM incidents i JOIN tenants t ON t.tenant = i.tenant
WHERE i.phase < 2 AND t.standing = 0 AND (CAST(:tenant AS integer) IS NULL OR i.tenant = CAST(:tenant AS integer))
ORDER BY i.tenant, i.rule, i.subject LIMIT :quota;

-- name: add_incident
-- No row: this subject has a live one already.
INSERT INTO incidents (id, tenant, rule, subject, phase, version, since, opened_at, resolved_at, is_told, about)
VALUES (:id, :tenant, :rule, :subject, :phase, :version, :since, :opened_at, :resolved_at, :is_told, :about)
ON CONFLICT DO NOTHING
RETURNING id;

-- name: change_incident
UPDATE incidents
SET phase = :phase, version = :version, opened_at = :opened_at, resolved_at = :resolved_at, is_told = :is_told, about = :about
WHERE id = :id AND version = :seen
RETURNING id;

-- name: drop_incident
DELETE FROM incidents WHERE id = :id AND version = :seen RETURNING id;

-- name: incident
SELECT * FROM incidents WHERE tenant = :tenant AND id = :id AND phase > 0;

-- name: incidents
SELECT * FROM incidents
WHERE tenant = :tenant AND id < :before AND phase BETWEEN :least AND :most
  AND (CAST(:rule AS text) IS NULL OR rule = CAST(:rule AS text))
ORDER BY id DESC LIMIT :quota;

-- name: snooze_incident
UPDATE incidents SET snoozed_until = :until, version = version + 1 WHERE tenant = :tenant AND id = :id AND phase = 1 RETURNING id;

-- name: add_delivery
-- Once for each incident, channel and event, whoever asks for it.
INSERT INTO deliveries (incident, channel, event, tenant, created_at, due_at) VALUES (:incident, :channel, :event, :tenant, :now, :now)
ON CONFLICT DO NOTHING;

-- name: due_deliveries
-- What came first goes first, of each channel a few; a recovery waits until its alert is out, or given up.
SELECT q.incident, q.channel, q.event
FROM (SELECT d.incident, d.channel, d.event, d.due_at, row_number() OVER (PARTITION BY d.tenant, d.channel ORDER BY d.due_at, d.incident) AS nth
      FROM deliveries d
      WHERE d.sent_at IS NULL AND d.given_up_at IS NULL AND d.due_at <= :now AND d.claimed_until <= :now
        AND NOT EXISTS (SELECT 1 FROM deliveries o
                        WHERE o.incident = d.incident AND o.channel = d.channel AND o.event < d.event
                          AND o.sent_at IS NULL AND o.given_up_at IS NULL)) q
WHERE q.nth <= :each
ORDER BY q.due_at, q.incident, q.channel LIMIT :quota;

-- name: claim_delivery
-- No row: another node sends it.
UPDATE deliveries SET claimed_by = :sender, claimed_until = :until, tries = tries + 1
WHERE incident = :incident AND channel = :channel AND event = :event
  AND sent_at IS NULL AND given_up_at IS NULL AND due_at <= :now AND claimed_until <= :now
RETURNING tries, created_at;

-- name: delivery_about
SELECT i.*, t.name AS tenant_name, c.definition AS channel_definition
FROM incidents i
JOIN tenants t ON t.tenant = i.tenant
LEFT JOIN alert_channels c ON c.tenant = i.tenant AND c.name = :channel
WHERE i.id = :incident;

-- name: delivery_sent
UPDATE deliveries SET sent_at = :now, error = NULL
WHERE incident = :incident AND channel = :channel AND event = :event AND claimed_by = :sender AND sent_at IS NULL;

-- name: delivery_failed
UPDATE deliveries SET claimed_until = 0, due_at = :due_at, error = :error, given_up_at = :given_up_at
WHERE incident = :incident AND channel = :channel AND event = :event AND claimed_by = :sender AND sent_at IS NULL;

-- name: deliveries_of
SELECT channel, event, tries, sent_at, given_up_at, error FROM deliveries WHERE incident = :id ORDER BY event, channel;

-- name: forget_deliveries
DELETE FROM deliveries WHERE incident IN (SELECT id FROM incidents WHERE phase = 2 AND resolved_at < :before);

-- name: forget_incidents
DELETE FROM incidents WHERE phase = 2 AND resolved_at < :before;
