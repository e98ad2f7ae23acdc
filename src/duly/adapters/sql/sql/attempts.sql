-- What attempts have left behind.

-- name: losses
SELECT count(*) AS n FROM attempts WHERE id = :id AND outcome = 4;
