-- name: standing_of_all
-- A lease names what has ended since, until it is closed: that does not run any more.
SELECT (SELECT count(*) FROM (SELECT FROM timers LIMIT :most::int) t) AS scheduled,
       (SELECT count(*) FROM (SELECT FROM blocked LIMIT :most::int) b) AS blocked,
       (SELECT count(*) FROM (SELECT FROM ready LIMIT :most::int) r) AS pending,
       (SELECT count(*)
        FROM (SELECT m.id, m.attempt FROM leases l CROSS JOIN LATERAL unnest(l.ids, l.attempts) AS m (id, attempt) LIMIT :most::int) m
        WHERE (SELECT o.id FROM outcomes o WHERE o.id = m.id) IS NULL
          AND (SELECT a.id FROM attempts a WHERE a.id = m.id AND a.attempt = m.attempt) IS NULL) AS running;
