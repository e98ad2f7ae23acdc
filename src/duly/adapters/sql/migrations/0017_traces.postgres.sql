-- The trace contexts that executions were given by whoever enqueued them (docs/decisions/0034). Beside the header and not in it: few have
-- one, and a claim reads no header.
CREATE TABLE traces (
    id       uuid     PRIMARY KEY,
    tenant   integer  NOT NULL,
    context  text     NOT NULL
);
