-- name: standing_of_all
-- A lease names what has ended since, until it is closed: that does not run any more.
SELECT (SELECT count(*) FROM (SELECT FROM timers LIMIT :most::int) t) AS scheduled,
       (SELECT count(*) FROM (SELECT FROM blocked LIMIT :most::int) b) AS blocked,
       (SELECT count(*) FROM (SELECT FROM ready LIMIT :most::int) r) AS pending,
       (SELECT count(*)
        FROM (SELECT m.id, m.attempt FROM leases l CROSS JOIN LATERAL unnest(l.ids, l.attempts) AS m (id, attempt) LIMIT :most::int) m
        WHERE (SELECT o.id FROM outcomes o WHERE o.id = m.id) IS NULL
          AND (SELECT a.id FROM attempts a WHERE a.id = m.id AND a.attempt = m.attempt) IS NULL) AS running;

-- name: long_runs_of_all
-- Leases in the order in which they were granted. A lease names what has ended since, until it is closed: that does not run any more.
SELECT e.tenant, e.job_id, m.granted_at
FROM (SELECT d.id, d.attempt, l.granted_at
      FROM (SELECT ids, attempts, granted_at FROM leases WHERE granted_at < :before ORDER BY lease_id LIMIT :most::int) l
      CROSS JOIN LATERAL unnest(l.ids, l.attempts) AS d (id, attempt) LIMIT :most::int) m
JOIN executions e ON e.id = m.id
WHERE e.trigger <> 5
  AND (SELECT o.id FROM outcomes o WHERE o.id = m.id) IS NULL
  AND (SELECT a.id FROM attempts a WHERE a.id = m.id AND a.attempt = m.attempt) IS NULL;
