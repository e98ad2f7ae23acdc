-- name: sifted_jobs
-- Which of these are meant: ids of 16 bytes, one after another. A filter that is NULL lets everything through. A pause with an end
-- is over by itself. The CASEs are that of `sifted`, one for each table.
WITH RECURSIVE nth (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM nth WHERE (n + 2) * 16 <= length(:ids))
SELECT /*job_columns*/
FROM nth
CROSS JOIN jobs j ON j.id = substr(:ids, n * 16 + 1, 16)
JOIN tenants t ON t.tenant = j.tenant
JOIN job_versions v ON v.id = j.version
JOIN routes r ON r.route = v.route
LEFT JOIN schedules s ON s.job_id = j.id
WHERE CASE WHEN n IS NULL THEN FALSE ELSE j.tenant = :tenant
  AND (:name IS NULL OR j.name = :name)
  AND (:state IS NULL OR CASE WHEN j.state = 0 AND j.paused_until > :now THEN 1 ELSE j.state END = :state)
  AND (:search IS NULL OR lower(j.name) LIKE :search ESCAPE '\') END
  AND CASE WHEN n IS NULL THEN FALSE ELSE (:handler IS NULL OR r.handler = :handler) AND (:pool IS NULL OR r.pool = :pool) END
  AND CASE WHEN n IS NULL THEN FALSE ELSE :type IS NULL OR v.definition -> 'timing' ->> 'type' = :type END
  AND (:next_fire_after IS NULL OR (j.state = 0 AND s.next_fire_at >= :next_fire_after AND s.next_fire_at < 4611686018427387904))
  AND (:next_fire_before IS NULL OR (j.state = 0 AND s.next_fire_at < :next_fire_before))
ORDER BY j.id DESC
LIMIT :quota;

-- part: job_columns
       j.id AS job_id, j.tenant, t.name AS tenant_name, j.state, j.created_at, j.paused_at, j.pause_reason, j.paused_by, j.paused_until,
       v.id AS version_id, v.version, v.route, v.definition, v.created_at AS version_created_at, s.next_fire_at, s.skip_at, s.skip_by

-- name: job_ids_like
-- Those of the next so many that have this in their names, and the last that was looked at if there may be more.
SELECT id, 1 AS is_like, 0 AS is_end
FROM (SELECT id
      FROM (SELECT id, name FROM jobs WHERE tenant = :tenant AND id < :before ORDER BY id DESC LIMIT :looked_at) looked
      WHERE lower(name) LIKE :search ESCAPE '\'
      LIMIT :quota) found
UNION ALL
SELECT id, 0 AS is_like, 1 AS is_end
FROM (SELECT id FROM jobs WHERE tenant = :tenant AND id < :before ORDER BY id DESC LIMIT 1 OFFSET :looked_at - 1) last;

-- name: next_fires_of_shard
SELECT s.job_id, j.version, s.next_fire_at, s.skip_at, j.tenant = :tenant AND j.state = 0 AS is_meant
FROM (SELECT job_id, next_fire_at, skip_at FROM schedules
      WHERE shard = :shard AND NOT paused AND next_fire_at < :before ORDER BY next_fire_at LIMIT :each) s
JOIN jobs j ON j.id = s.job_id;
