-- What a claim hands out, beside the ready row's key: a row that is written with its header carries it, and the claim reads no header.
-- NULL where it does not: after a retry or a wait, with a large payload, or from an older release. Then the claim looks it up.
ALTER TABLE ready ADD COLUMN job_version bigint,
                  ADD COLUMN due_at bigint,
                  ADD COLUMN holds_place boolean,
                  ADD COLUMN payload json;
