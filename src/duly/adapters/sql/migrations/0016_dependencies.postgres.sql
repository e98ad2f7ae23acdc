-- Dependencies between jobs (docs/decisions/0026): what opens a gate that is closed until another job has succeeded.
CREATE TABLE awaited (
    gate      uuid     PRIMARY KEY,
    tenant    integer  NOT NULL,
    job       text     NOT NULL,                                  -- by its name: whoever has it when it succeeds
    first     bigint   NOT NULL,                                  -- for a time from here …
    past      bigint   NOT NULL,                                  -- … to before this
    deadline  bigint   NOT NULL,
    runs      boolean  NOT NULL                                   -- at the deadline: it runs all the same, or is skipped
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX awaited_jobs ON awaited (tenant, job);
