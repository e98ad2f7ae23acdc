-- Where those who look for executions begin. Each reads a bounded number of rows along a key; `sifted` looks closer.

-- name: jobs_of_name
-- The live one, and those of the same name that are cancelled: their history stays.
SELECT id FROM jobs WHERE tenant = :tenant AND name = :name ORDER BY id DESC LIMIT 100;

-- name: some_jobs_of_tenant
SELECT id FROM jobs WHERE tenant = :tenant ORDER BY id DESC LIMIT :quota;

-- name: ids_of_all
-- Everybody's: whose they are is asked of each.
SELECT id FROM executions WHERE id < :before ORDER BY id DESC LIMIT :quota;

-- name: ids_unusual
SELECT id FROM outcomes WHERE state = :state AND state <> 4 AND id < :before ORDER BY id DESC LIMIT :quota;
