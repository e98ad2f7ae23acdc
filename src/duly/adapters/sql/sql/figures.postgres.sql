-- How long jobs take, where many rows cost one question.

-- name: figures_of
SELECT job_id, sketch FROM job_figures WHERE job_id = ANY (:ids::uuid[]) ORDER BY job_id FOR UPDATE;

-- name: expected_of
SELECT job_id, sketch FROM job_figures WHERE tenant = :tenant AND job_id = ANY (:ids::uuid[]);
