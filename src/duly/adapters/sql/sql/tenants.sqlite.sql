-- name: drop_cancel
DELETE FROM cancels WHERE id = :id;

-- name: drop_unique
DELETE FROM uniques WHERE id = :id AND until IS NULL;
