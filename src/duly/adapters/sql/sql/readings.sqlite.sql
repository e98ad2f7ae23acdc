-- name: standing_of_all
SELECT (SELECT count(*) FROM (SELECT 1 FROM timers LIMIT :most)) AS scheduled,
       (SELECT count(*) FROM (SELECT 1 FROM blocked LIMIT :most)) AS blocked,
       (SELECT count(*) FROM (SELECT 1 FROM ready LIMIT :most)) AS pending,
       (SELECT count(*) FROM (SELECT 1 FROM leased LIMIT :most)) AS running;
