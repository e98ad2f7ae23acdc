"""The registry of error codes: what each means and what to do. `duly help CODE` and the reference print it; a test holds them together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """One code: its HTTP status, a title, and the way out."""

    code: str
    status: int
    title: str
    fix: str


_ALL = (
    Code(
        "DULY-E101",
        422,
        "Malformed cron expression",
        'Five fields (minute hour day month weekday); six with seconds first and "seconds": true. Try `duly cron "0 3 * * *"`.',
    ),
    Code(
        "DULY-E102",
        422,
        "The schedule can never fire",
        "No date satisfies it, such as 30 February, or it ends before its first fire. Change the day, the month or endAt.",
    ),
    Code("DULY-E103", 422, "Unknown time zone", "Use an IANA name such as Europe/Berlin or UTC; case matters."),
    Code(
        "DULY-E104",
        422,
        "Malformed duration",
        "Durations are numbers of seconds on the wire and 90s, 15m, 2h, 3d in Python and on the command line.",
    ),
    Code(
        "DULY-E105",
        422,
        "Malformed or impossible time",
        "Use RFC 3339 with an offset, such as 2026-03-08T07:00:00Z; endAt lies after startAt.",
    ),
    Code(
        "DULY-E106",
        422,
        "A field is invalid",
        "The problem names the field and what it takes. Unknown keys are refused, so look for a misspelling.",
    ),
    Code("DULY-E107", 400, "The body is not JSON", "Send UTF-8 JSON. NaN, Infinity, comments and trailing commas are not JSON."),
    Code("DULY-E108", 400, "The JSON is nested too deeply", "At most 32 levels. Keep large structures elsewhere and pass a reference."),
    Code(
        "DULY-E109",
        413,
        "The body is too large",
        "At most 256 KiB for one object and 16 MiB for a batch. Keep large payloads elsewhere and pass a reference.",
    ),
    Code("DULY-E110", 422, "Text that cannot be stored", "Strings must not contain NUL characters or lone surrogates."),
    Code(
        "DULY-E111",
        422,
        "Malformed id",
        "Job ids look like job_… and execution ids like run_…, with 32 hexadecimal digits; worker ids are numbers. Copy it from a list.",
    ),
    Code("DULY-E112", 422, "Malformed cursor", "Pass nextCursor of the page before, unchanged, or leave it out to start again."),
    Code("DULY-E114", 422, "Malformed name", "Names are 1 to 128 letters, digits and . _ : / @ -, starting with a letter or digit."),
    Code("DULY-E115", 415, "Unsupported media type", "Send Content-Type: application/json."),
    Code("DULY-E116", 422, "Malformed idempotency key", "Idempotency-Key is 1 to 200 visible ASCII characters."),
    Code(
        "DULY-E117",
        422,
        "The payload does not fit the handler",
        "The problem names the argument. The handler's signature in the code says what it takes.",
    ),
    Code("DULY-E118", 422, "The declaration is wrong", "The message names the job and what to change in its decorator."),
    Code(
        "DULY-E119",
        422,
        "Malformed payload search",
        "Ask for one value at a path of object keys: payload.customer=42, or payload.customer.id=42.",
    ),
    Code(
        "DULY-E120",
        422,
        "The cursor belongs to another list",
        "A cursor goes on with the filter of the page that it came from. Repeat that filter, or leave the cursor out to start again.",
    ),
    Code("DULY-E130", 413, "The checkpoint is too large", "At most 256 KiB. Keep large data elsewhere and save a reference."),
    Code(
        "DULY-E133",
        422,
        "The match means everything",
        'Name a job, a state, a cause, a time, a batch or ids; or say "everything": true.',
    ),
    Code(
        "DULY-E131",
        422,
        "The connection cannot be used",
        "Pass one of asyncpg, psycopg 3, SQLAlchemy or Django, to the PostgreSQL database that is Duly's store.",
    ),
    Code(
        "DULY-E132",
        422,
        "No transaction can be opened here",
        "ctx.transaction() works in a worker: `async with`, or on a SQLite file `with` in a thread. Elsewhere use ctx.complete_with.",
    ),
    Code(
        "DULY-E134",
        422,
        "Malformed recurrence rule",
        "A rule is KEY=VALUE parts with ; between them, such as FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9; the problem names the part.",
    ),
    Code(
        "DULY-E135",
        422,
        "Malformed calendar",
        "The problem names the entry. Holidays are dates, windows have a start and a later end, weekly times are such as 02:00.",
    ),
    Code("DULY-E136", 422, "Not a fire of the job", "The problem names the fires near that time; `duly next JOB` shows those to come."),
    Code(
        "DULY-E141",
        422,
        "Malformed reference to a secret",
        'As a JSON value it is {"$secret": "env:NAME"} or {"$secret": "file:NAME"}; in a header, URL or variable ${secret:env:NAME}.',
    ),
    Code(
        "DULY-E142",
        422,
        "A secret would be stored in clear",
        "Send a reference to it, such as Secret.env(NAME), or have payloads encrypted: set DULY_PAYLOAD_KEYS.",
    ),
    Code(
        "DULY-E143",
        422,
        "The payload cannot be read",
        "It is encrypted with a key that this process does not have. Put that key into DULY_PAYLOAD_KEYS again, after the one that writes.",
    ),
    Code(
        "DULY-E144",
        422,
        "SQL cannot encrypt",
        "With DULY_PAYLOAD_KEYS a payload is encrypted by the application. Enqueue without a transaction of yours.",
    ),
    Code(
        "DULY-E145",
        422,
        "Encrypted payloads cannot be searched",
        "Leave payload.… out and look by job, time or state. Without DULY_PAYLOAD_KEYS payloads are stored in clear and can be searched.",
    ),
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
    Code("DULY-E301", 401, "A key is needed", "Send Authorization: Bearer duly_… . `duly up` prints where the first key is kept."),
    Code("DULY-E302", 401, "The key is not valid", "It is unknown, expired or revoked. Check DULY_KEY."),
    Code(
        "DULY-E303",
        403,
        "The key's role does not allow this",
        "Ask for a key with the role that the problem names. Worker keys open the worker protocol and nothing else.",
    ),
    Code(
        "DULY-E401",
        429,
        "The quota of jobs is used up",
        "Cancel jobs that are not needed, or ask for a larger maxJobs. `duly tenant show` says what is used.",
    ),
    Code(
        "DULY-E402",
        429,
        "The quota of waiting executions is used up",
        "Submit again when some have started: Retry-After says when to try. Or ask for a larger maxQueued.",
    ),
    Code(
        "DULY-E403",
        429,
        "The quota of executions per minute is used up",
        "Submit again after Retry-After seconds, or ask for a larger maxFiresPerMinute.",
    ),
    Code(
        "DULY-E404",
        413,
        "The payload is larger than the tenant may send",
        "Keep it elsewhere and pass a reference, or ask for a larger maxPayloadBytes.",
    ),
    Code(
        "DULY-E304",
        403,
        "The key does not open this pool",
        "A worker's key may be made for some pools only; `duly key list` shows which. Serve one of those, or make another key.",
    ),
    Code(
        "DULY-E305",
        403,
        "Another key's worker",
        "Only the key that registered a worker, one that it was rotated to, and an ADMIN key act as it. Register a worker of your own.",
    ),
    Code(
        "DULY-E306",
        409,
        "The last ADMIN key must stay",
        "Nobody could administer the tenant any more. Make another ADMIN key that lasts first, then end this one.",
    ),
    Code(
        "DULY-E307",
        409,
        "The key has ended",
        "It is expired or revoked, so nothing can take its place. Make a new one with `duly key create`.",
    ),
    Code("DULY-E308", 401, "The session is not valid", "It has ended, or its key has. Log in again: `duly login` prints a link."),
    Code(
        "DULY-E309",
        403,
        "The request comes from another site",
        "A session changes something from our own pages only. Behind a proxy, set DULY_PUBLIC_URL to the address that people see.",
    ),
    Code(
        "DULY-E310",
        403,
        "The CSRF token is missing or wrong",
        "Send X-CSRF-Token with the csrfToken that GET /v1/session answers, or use a key instead of the session.",
    ),
    Code(
        "DULY-E311",
        403,
        "This user may not enter",
        "The proxy vouches for the user, but DULY_PROXY_AUTH_USERS does not name one of an existing tenant.",
    ),
    Code("DULY-E312", 403, "The login link is not valid", "A link works once, within five minutes. Get a new one with `duly login`."),
    Code("DULY-E313", 403, "This takes a key", "A session cannot make another session. Use the key itself, such as with `duly login`."),
    Code(
        "DULY-E314",
        500,
        "Nobody could enter",
        "The store has no key, so nothing is served on an address that others can reach. Set DULY_ADMIN_KEY, or start with `duly up`.",
    ),
    Code(
        "DULY-E411",
        429,
        "Too many requests",
        "The key has asked for more than its share of this server (DULY_RATE_LIMIT). Wait for Retry-After; send many in one with :batch.",
    ),
    Code(
        "DULY-E412",
        429,
        "Too many keys that are not valid",
        "The address has shown many keys that are not valid. Check DULY_KEY, then repeat after Retry-After.",
    ),
    Code("DULY-E413", 429, "Too many open streams", "Close some, or share one: a browser needs one for all of its tabs."),
    Code(
        "DULY-E501",
        503,
        "The store is away",
        "Nothing was acknowledged. Repeat after Retry-After; creates are safe to repeat with an Idempotency-Key.",
    ),
    Code("DULY-E502", 503, "Shutting down", "This process is stopping. Repeat the request; another one will answer."),
    Code(
        "DULY-E503",
        503,
        "The store needs an upgrade",
        "Its schema is older or newer than this version. Run `duly db upgrade`, or update Duly.",
    ),
    Code("DULY-E599", 500, "A fault in Duly", "This is our bug. Please report it with the request id."),
    Code("DULY-E601", 500, "A setting is wrong", "The message names the setting and what it takes."),
    Code(
        "DULY-E602",
        500,
        "The application cannot be loaded",
        "Name it as module:attribute, such as shop.jobs:app, from a directory where it can be imported.",
    ),
    Code("DULY-E603", 500, "The server cannot be reached", "Start it with `duly up`, or set DULY_URL."),
    Code(
        "DULY-E604",
        400,
        "The command line is not understood",
        "The message names the word. `duly --help` shows all commands and `duly COMMAND -h` what one takes.",
    ),
    Code(
        "DULY-E605",
        500,
        "No PostgreSQL server to test with",
        "`duly verify --store postgres` starts a server of its own: install PostgreSQL, or test SQLite or an empty database of yours.",
    ),
    Code(
        "DULY-E606",
        409,
        "The database has jobs in it",
        "`duly verify` breaks what runs them. Give it an empty database, or none: then it makes its own.",
    ),
    Code("DULY-E607", 500, "The nodes under test did not come up", "Look at their logs, in the directory that the message names."),
    Code(
        "DULY-E608",
        500,
        "The nodes under test do not answer",
        "They did not recover after the faults. Their logs are where the message says.",
    ),
    Code("DULY-E609", 400, "Not the history of a test", "`duly verify --report DIR` keeps one in DIR, and `duly verify --check` reads it."),
    Code("DULY-E610", 500, "Encryption is not installed", "pip install 'duly[encryption]', or unset DULY_PAYLOAD_KEYS."),
)

CODES: dict[str, Code] = {code.code: code for code in _ALL}
