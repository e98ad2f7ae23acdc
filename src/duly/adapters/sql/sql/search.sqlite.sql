-- name: sifted
-- Which of these are meant: ids of 16 bytes, one after another. First by their headers, which is cheap; then by where they
-- stand. A filter that is NULL lets everything through. Conditions stand in a CASE that asks for `n`: of those that are on one table alone
-- SQLite, where it has statistics, concludes that a Bloom filter pays, and goes through the whole table to build it.
WITH RECURSIVE nth (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM nth WHERE (n + 2) * 16 <= length(:ids)),
asked (id) AS MATERIALIZED (
    SELECT e.id
    FROM nth
    CROSS JOIN executions e ON e.id = substr(:ids, n * 16 + 1, 16)
    WHERE CASE WHEN n IS NULL THEN FALSE ELSE e.tenant = :tenant
      AND (:trigger IS NULL OR e.trigger = :trigger)
      AND (:routes IS NULL OR e.route IN (SELECT value FROM json_each(:routes)))
      AND (:jobs IS NULL OR hex(e.job_id) IN (SELECT value FROM json_each(:jobs)))
      AND (:batch IS NULL OR e.batch = :batch)
      AND (:since IS NULL OR coalesce(e.scheduled_at, e.due_at) >= :since)
      AND (:until IS NULL OR coalesce(e.scheduled_at, e.due_at) < :until)
      AND (:matches IS NULL OR NOT EXISTS (
          SELECT 1
          FROM json_each(:matches) w
          LEFT JOIN (
              SELECT coalesce(e.payload, (SELECT v.definition ->> 'payload' FROM job_versions v WHERE v.id = e.job_version)) AS text) p
          WHERE CASE WHEN NOT json_valid(p.text) THEN NULL
                     WHEN json_type(p.text, w.value ->> 'path') = 'text' THEN p.text ->> (w.value ->> 'path')
                     ELSE p.text -> (w.value ->> 'path') END
                IS NOT w.value ->> 'value')) END
)
SELECT s.*, j.name AS job_name, v.max_attempts, coalesce(v.workflow, v.job_id) AS own_job, v.definition ->> 'payload' AS own_payload, v.definition -> 'step' ->> 'name' AS step_name,
       k.number AS saved_number, k.saved_at, k.progress, d.how AS settled_how, d.settled_at AS dealt_with_at, d.replay AS replayed_as
FROM asked a
CROSS JOIN execution_state s ON s.id = a.id
JOIN job_versions v ON v.id = s.job_version
JOIN jobs j ON j.id = CASE WHEN v.workflow IS NULL THEN v.job_id ELSE v.workflow END
LEFT JOIN checkpoints k ON k.id = s.id
LEFT JOIN settled d ON d.id = s.id
WHERE (:state IS NULL OR s.state = :state)
  AND (:last_outcome IS NULL OR s.last_outcome = :last_outcome)
  AND (:worker IS NULL OR s.worker = :worker)
ORDER BY s.id DESC
LIMIT :quota;

-- name: ends_of
-- How many of these have ended how. The CASE is that of `sifted`.
WITH RECURSIVE nth (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM nth WHERE (n + 2) * 16 <= length(:ids))
SELECT e.trigger, o.state, count(*) AS n
FROM nth
CROSS JOIN executions e ON e.id = substr(:ids, nth.n * 16 + 1, 16)
LEFT JOIN outcomes o ON o.id = e.id
WHERE CASE WHEN n IS NULL THEN FALSE ELSE e.tenant = :tenant END
GROUP BY e.trigger, o.state;

-- name: ended_of
-- When those of these that have ended were due, began and ended. The CASE is that of `sifted`.
WITH RECURSIVE nth (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM nth WHERE (n + 2) * 16 <= length(:ids))
SELECT e.due_at, o.started_at, o.finished_at, o.state, o.attempt
FROM nth
CROSS JOIN executions e ON e.id = substr(:ids, nth.n * 16 + 1, 16)
JOIN outcomes o ON o.id = e.id
WHERE CASE WHEN n IS NULL THEN FALSE ELSE e.tenant = :tenant END;

-- name: changes_since
-- What was done to jobs, by minute: how many, and one of them. The actions are those of the index.
SELECT c.minute, c.action, c.jobs, c.job_id, (SELECT j.name FROM jobs j WHERE j.id = c.job_id AND j.tenant = :tenant) AS name
FROM (SELECT a.at / 60000000 AS minute, a.action, count(DISTINCT a.job_id) AS jobs, min(a.job_id) AS job_id, min(a.place) AS place
      FROM audit a
      WHERE a.tenant = :tenant AND a.at >= :since AND a.action IN ('job.change', 'job.pause', 'job.resume')
      GROUP BY 1, 2) c
ORDER BY c.minute DESC, c.place DESC
LIMIT :quota;
