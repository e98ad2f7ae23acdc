-- The usual questions about finished executions, in the words that ClickHouse and DuckDB share. What they say differently stands in
-- seams: /*finished*/ is where the rows are, /*p95 x*/ a percentile of a column. `:since` and `:until` are instants, a tenant of ''
-- is everybody, and no question answers more than `:most` rows.

-- name: throughput
-- How many ended each hour, and how
SELECT date_trunc('hour', finished_at) AS hour,
       count(*) AS executions,
       count(*) FILTER (WHERE state = 'SUCCEEDED') AS succeeded,
       count(*) FILTER (WHERE state = 'DEAD') AS dead,
       count(*) FILTER (WHERE state = 'CANCELLED') AS cancelled,
       count(*) FILTER (WHERE state = 'SKIPPED') AS skipped
FROM /*finished*/
WHERE /*wanted*/
GROUP BY hour
ORDER BY hour DESC
LIMIT :most;

-- name: lateness
-- How late each job's executions began, latest first
SELECT tenant, job, count(lateness_ms) AS started,
       /*p50 lateness_ms*/ AS p50_ms,
       /*p95 lateness_ms*/ AS p95_ms,
       /*p99 lateness_ms*/ AS p99_ms,
       max(lateness_ms) AS max_ms
FROM /*finished*/
WHERE /*wanted*/ AND lateness_ms IS NOT NULL
GROUP BY tenant, job
ORDER BY p99_ms DESC, tenant, job
LIMIT :most;

-- name: slowest
-- Which jobs run longest, and what they add up to
SELECT tenant, job, count(run_ms) AS runs,
       /*p50 run_ms*/ AS p50_ms,
       /*p95 run_ms*/ AS p95_ms,
       max(run_ms) AS max_ms,
       sum(run_ms) / 1000 AS total_s
FROM /*finished*/
WHERE /*wanted*/ AND run_ms IS NOT NULL
GROUP BY tenant, job
ORDER BY p95_ms DESC, tenant, job
LIMIT :most;

-- name: failures
-- What attempts fail of: by job and the type of the last error
SELECT tenant, job, coalesce(error_type, '(none)') AS cause,
       sum(failed + timed_out + lost) AS failed_attempts,
       count(*) FILTER (WHERE state = 'DEAD') AS dead,
       max(finished_at) AS latest,
       max(error_message) AS example
FROM /*finished*/
WHERE /*wanted*/ AND (failed + timed_out + lost > 0 OR state = 'DEAD')
GROUP BY tenant, job, cause
ORDER BY failed_attempts DESC, tenant, job, cause
LIMIT :most;

-- name: retries
-- How often jobs are retried, and whether it helps
SELECT tenant, job, count(*) AS executions,
       count(*) FILTER (WHERE failed + timed_out + lost > 0) AS troubled,
       count(*) FILTER (WHERE failed + timed_out + lost > 0 AND state = 'SUCCEEDED') AS recovered,
       sum(failed) AS failed_attempts,
       sum(timed_out) AS timed_out_attempts,
       sum(lost) AS lost_attempts
FROM /*finished*/
WHERE /*wanted*/ AND attempts > 0
GROUP BY tenant, job
HAVING count(*) FILTER (WHERE failed + timed_out + lost > 0) > 0
ORDER BY troubled DESC, tenant, job
LIMIT :most;

-- name: tenants
-- Who uses how much
SELECT tenant, count(*) AS executions,
       sum(attempts) AS attempts_made,
       sum(coalesce(run_ms, 0)) / 1000 AS run_s,
       count(*) FILTER (WHERE state = 'DEAD') AS dead,
       count(*) FILTER (WHERE state = 'SKIPPED') AS skipped
FROM /*finished*/
WHERE /*wanted*/
GROUP BY tenant
ORDER BY run_s DESC, tenant
LIMIT :most;

-- name: waits
-- How long executions wait for a worker, by pool
SELECT pool, count(wait_ms) AS started,
       /*p50 wait_ms*/ AS p50_ms,
       /*p95 wait_ms*/ AS p95_ms,
       /*p99 wait_ms*/ AS p99_ms,
       max(wait_ms) AS max_ms
FROM /*finished*/
WHERE /*wanted*/ AND wait_ms IS NOT NULL
GROUP BY pool
ORDER BY p95_ms DESC, pool
LIMIT :most;
