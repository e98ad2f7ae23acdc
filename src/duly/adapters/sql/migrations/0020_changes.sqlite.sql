-- What was done to jobs, by time: charts mark it. Few records are of these actions, so all others cost nothing here.
CREATE INDEX audit_of_changes ON audit (tenant, at) WHERE action IN ('job.change', 'job.pause', 'job.resume');
