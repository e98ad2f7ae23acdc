-- The end of an attempt in a transaction of its handler's own.

-- name: end_in_transaction
-- On a connection that is the handler's to change: every name is whole, and the text is cast here whatever its codecs do.
SELECT duly.duly_end(:lease::bigint, :id::text::uuid, :result::text::json, :started_at::bigint) AS ended;
