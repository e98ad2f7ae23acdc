"""What was sent does not fit what there is: missing, taken, changed or over already (E2xx)."""

from __future__ import annotations

from duly.domain.codes.code import Code

STANDING = (
    Code("DULY-E201", 404, "No such route", "See /v1/openapi.json for what there is."),
    Code("DULY-E202", 405, "Method not allowed", "The Allow header names the methods of this route."),
    Code("DULY-E204", 404, "No such job", "It does not exist in this key's tenant. `duly job list` shows those that do."),
    Code("DULY-E205", 404, "No such execution", "It does not exist in this key's tenant, or retention has removed it."),
    Code(
        "DULY-E207",
        409,
        "Idempotency key used for another request",
        "Use a new Idempotency-Key for a new request; repeat a request with its own key and body.",
    ),
    Code("DULY-E208", 409, "The name is taken", "Another live job of the tenant has this name. Change it with PUT, or delete it first."),
    Code("DULY-E209", 412, "Somebody was faster", "The job has changed since its ETag was read. Read it again and repeat the change."),
    Code(
        "DULY-E210",
        409,
        "The job's state does not allow this",
        "The problem says which state the job is in. A cancelled job stays cancelled: create a new one.",
    ),
    Code("DULY-E211", 409, "The execution is final", "It can no longer change. `replay` runs it again as a new execution."),
    Code("DULY-E212", 409, "The execution is not final", "Only a final execution can be replayed. Wait for it, or cancel it first."),
    Code(
        "DULY-E213",
        409,
        "It has been made already, with a secret that was shown once",
        "This Idempotency-Key has made it before, and what opens it is shown once. Revoke it, and make another with a new Idempotency-Key; "
        "a tenant gets another key by `duly tenant key`.",
    ),
    Code("DULY-E214", 409, "The job is declared in code", "The next deployment would put it back: change it there, and deploy."),
    Code(
        "DULY-E221",
        404,
        "No such worker",
        "It was never registered with a key of this tenant, or is long gone. Register with POST /v1/workers.",
    ),
    Code(
        "DULY-E222",
        410,
        "The worker is lost",
        "Its time ran out or it has retired, and others have its work. Stop every handler and register anew.",
    ),
    Code(
        "DULY-E223",
        409,
        "The fence is refused",
        "The lease is gone: the worker was replaced, and another one may run this execution. Stop the handler; nothing was written.",
    ),
    Code(
        "DULY-E224",
        409,
        "The attempt has ended otherwise",
        "It was reported before with another end, and that one stands. An attempt ends once.",
    ),
    Code("DULY-E225", 404, "No such key", "It does not exist in this key's tenant. `duly key list` shows those that do."),
    Code(
        "DULY-E226",
        409,
        "The checkpoint is not newer",
        "Numbers grow over all attempts of an execution: go on from the number that came with the lease.",
    ),
    Code(
        "DULY-E231",
        409,
        "There is nothing to retry",
        "Only a retry that waits, or a dead letter, can be retried. `replay` runs any final execution again.",
    ),
    Code("DULY-E232", 409, "Not a dead letter", "Only an execution that is DEAD can be discarded."),
    Code("DULY-E233", 404, "No such batch", "It does not exist in this key's tenant, or retention has removed it."),
    Code(
        "DULY-E234",
        409,
        "Canaries did not succeed",
        'Look at the executions of the batch first. "continue": "anyway" does the rest all the same.',
    ),
    Code("DULY-E235", 409, "Canaries have not ended", 'Wait for them, or send "continue": "anyway".'),
    Code("DULY-E236", 409, "The batch was aborted", "Nothing more comes of it. Start a new one."),
    Code(
        "DULY-E241",
        409,
        "The lease is lost",
        "Another worker has the execution, or it has ended before. The transaction is rolled back: there is nothing to do.",
    ),
    Code("DULY-E251", 404, "No such calendar", "It does not exist in this key's tenant. `duly calendar list` shows those that do."),
    Code("DULY-E252", 409, "The calendar is in use", "The problem names the jobs. Take it out of them, or cancel them, then delete it."),
    Code(
        "DULY-E253",
        409,
        "Another fire is skipped already",
        "One fire at a time can be skipped. Take the other back with `duly unskip JOB`.",
    ),
    Code("DULY-E254", 404, "No such alert rule", "It does not exist in this key's tenant. `duly alert rules` shows those that do."),
    Code("DULY-E255", 404, "No such alert channel", "It does not exist in this key's tenant. `duly alert channels` shows those that do."),
    Code("DULY-E256", 409, "The alert channel is in use", "The problem names the rules. Take it out of them, then delete it."),
    Code(
        "DULY-E257", 404, "No such incident", "It does not exist in this key's tenant, or was over long ago. `duly alert list` shows them."
    ),
    Code("DULY-E258", 409, "The incident is over", "There is nothing to snooze. Snooze its rule to hear of no other."),
    Code("DULY-E259", 404, "No such link", "It does not exist in this key's tenant. `duly alert links` shows those that do."),
    Code(
        "DULY-E260",
        409,
        "Somebody has made an alert rule of that name",
        "A job's alert makes rules named after the job and the kind. Give yours another name, or delete it, then repeat.",
    ),
    Code("DULY-E264", 404, "No such store", "`duly config` shows the file that lists the stores; names are as it has them."),
    Code(
        "DULY-E265",
        409,
        "The tenant cannot move so",
        "The message says why. `duly tenant show` says where it lives; `duly tenant move NAME --undo` takes a move back.",
    ),
    Code(
        "DULY-E266",
        503,
        "The tenant still has running work",
        "Repeat `duly tenant move` to wait on, or take it back with --undo and cancel what runs.",
    ),
    Code(
        "DULY-E267", 409, "The copy is not complete", "Repeat `duly tenant move`: it copies what is missing. Or take it back with --undo."
    ),
    Code(
        "DULY-E268", 409, "The tenant has workflows", "They cannot be moved to another store yet. Make them anew in a tenant of that store."
    ),
    Code(
        "DULY-E261",
        409,
        "The tenant exists already",
        "Choose another name, change it with PUT, or make a key for it with POST /v1/tenants/{tenant}/keys.",
    ),
    Code(
        "DULY-E262", 404, "No such tenant", "It does not exist, or is not the tenant of this key. `duly tenant list` shows those you see."
    ),
    Code(
        "DULY-E263",
        403,
        "Only for the installation's administrators",
        "Use an ADMIN key of the tenant default: it alone makes tenants and changes their weights and quotas.",
    ),
    Code("DULY-E271", 422, "Unknown channel", "Duly-Channel is one of api, cli, sdk, dashboard and proxy, or left out."),
    Code(
        "DULY-E272",
        422,
        "Malformed reason",
        "Duly-Reason has at most 500 characters and no control characters; what is not ASCII is percent-encoded UTF-8.",
    ),
    Code(
        "DULY-E273",
        409,
        "The audit trail was tampered with",
        "The message names the first link that is not as it was written. Keep a copy of the store, and compare it with a backup.",
    ),
    Code(
        "DULY-E274",
        404,
        "The link is not kept any more",
        "It is older than DULY_AUDIT_RETENTION. Compare with a head that was noted later.",
    ),
    Code(
        "DULY-E281",
        422,
        "The plan is malformed",
        "The message says where. A plan has [[classes]], each with a name and a schedule or perSecond; docs/how-to/capacity.md has one.",
    ),
    Code(
        "DULY-E282",
        422,
        "A duration or a share of failures is impossible",
        'Write duration = "2s", or {p50 = "2s", p95 = "9s"} with p50 at most p95; failures are between 0 and 1.',
    ),
    Code(
        "DULY-E283",
        422,
        "The fleet is malformed",
        "Pools are written NAME=WORKERSxSLOTS, such as --pool reports=2x20; servers and cores are positive numbers.",
    ),
    Code(
        "DULY-E284",
        422,
        "There is nothing to simulate",
        "A horizon is at most 31 days, and something must be due in it. Choose another --from or --horizon.",
    ),
    Code(
        "DULY-E285",
        422,
        "The unit costs cannot be used",
        "Measure them with `python -m benchmarks.capacity`, which prints them as --costs reads them, or leave --costs out.",
    ),
    Code(
        "DULY-E290",
        409,
        "The step does not wait for that",
        "Only a step that waits for an approval can be approved or rejected; read the run's steps.",
    ),
    Code("DULY-E291", 403, "The step waits for somebody else's word", "Its approval names the keys or roles that may decide."),
    Code("DULY-E292", 404, "The run has no such step", "`duly workflow show RUN` lists its steps."),
    Code("DULY-E293", 409, "The execution is no run of a workflow", "Steps, signals and retries belong to runs of jobs with steps."),
    Code(
        "DULY-E294", 409, "The run has ended", "A signal reaches a run that is under way; a run that has ended can be retried from a step."
    ),
)
