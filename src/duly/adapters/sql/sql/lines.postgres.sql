-- Connections as the server sees them, for whoever waits for an answer (see postgres/watch.py).

-- name: lines_at_work
-- Which of these sessions do something, or wait for something other than their client.
SELECT pid, application_name AS mark
FROM pg_stat_activity
WHERE (pid = ANY (:pids::int[]) OR application_name = ANY (:marks::text[]))
  AND state NOT LIKE 'idle%'
  AND wait_event IS DISTINCT FROM 'ClientWrite';

-- name: end_silent_lines
-- End sessions that wait for a client who has given them up: what they have locked is free at once.
SELECT pg_terminate_backend(pid)
FROM pg_stat_activity
WHERE (pid = ANY (:pids::int[]) OR application_name = ANY (:marks::text[]))
  AND usename = current_user
  AND (state LIKE 'idle%' OR wait_event = 'ClientWrite');
