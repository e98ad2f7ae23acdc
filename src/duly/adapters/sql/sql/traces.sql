-- Trace contexts that executions were given; see docs/decisions/0034.

-- name: note_trace
INSERT INTO traces (id, tenant, context) VALUES (:id, :tenant, :context) ON CONFLICT DO NOTHING;

-- name: traces_between
SELECT id, context FROM traces WHERE id >= :first AND id <= :last ORDER BY id LIMIT :quota;

