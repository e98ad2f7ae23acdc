-- name: store_condition
-- The size of the database, and who is connected. A snapshot of any database keeps what died since from being cleaned up. Of the sessions of
-- other users a role that may not read all statistics sees no times.
SELECT pg_database_size(current_database()) AS bytes,
       NULL::bigint AS free_bytes,
       (SELECT count(*) FROM pg_stat_activity WHERE datid IS NOT NULL) AS connections,
       current_setting('max_connections')::bigint AS most_connections,
       (SELECT (extract(epoch FROM min(a.xact_start)) * 1000000)::bigint
        FROM pg_stat_activity a
        WHERE a.backend_type IS DISTINCT FROM 'autovacuum worker' AND a.pid <> pg_backend_pid()) AS oldest_transaction_at;

-- name: table_conditions
-- The tables with most to clean up, by the statistics of the server.
SELECT s.relname::text AS name, s.n_live_tup AS live, s.n_dead_tup AS dead, pg_total_relation_size(s.relid) AS bytes,
       (extract(epoch FROM greatest(s.last_vacuum, s.last_autovacuum)) * 1000000)::bigint AS vacuumed_at
FROM pg_stat_user_tables s
WHERE s.schemaname = current_schema()
ORDER BY s.n_dead_tup DESC, s.n_live_tup DESC, s.relname
LIMIT :quota::int;
