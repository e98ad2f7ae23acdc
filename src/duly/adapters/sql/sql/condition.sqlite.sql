-- name: store_condition
-- The size of the file, and what of it is free. There is one writer, and nobody connects from elsewhere.
SELECT c.page_count * s.page_size AS bytes,
       f.freelist_count * s.page_size AS free_bytes,
       NULL AS connections,
       NULL AS most_connections,
       NULL AS oldest_transaction_at
FROM pragma_page_count() c, pragma_page_size() s, pragma_freelist_count() f;
