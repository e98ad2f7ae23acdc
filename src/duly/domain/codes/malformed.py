"""What was sent cannot be read or cannot be (E1xx)."""

from __future__ import annotations

from duly.domain.codes.code import Code

MALFORMED = (
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
    Code("DULY-E121", 400, "The request is not HTTP", "Send HTTP/1.1. The connection is closed: open another one."),
    Code("DULY-E122", 431, "The request's head is too large", "The request line and all headers together have at most 64 KiB."),
    Code("DULY-E123", 408, "The request's head did not come in time", "Send the request line and all headers within 20 seconds."),
    Code("DULY-E124", 408, "The request's body did not come in time", "Send the whole body within 60 seconds, or less of it at a time."),
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
    Code(
        "DULY-E150",
        422,
        "A step's name is malformed or taken",
        "1 to 64 letters, digits, _ and -, starting with a letter; each name once in a workflow.",
    ),
    Code(
        "DULY-E151", 422, "A step names a step that is not there", "dependsOn, map, compensates and inputs name steps of the same workflow."
    ),
    Code("DULY-E152", 422, "Steps wait for one another in a circle", "The message names them. Take one dependsOn away."),
    Code(
        "DULY-E153", 422, "A step can never run", "any_succeeded and any_failed need parents; nothing comes after a step that compensates."
    ),
    Code(
        "DULY-E154",
        422,
        "The condition of a step is malformed",
        'Comparisons of parents with and, or, not and in: extract.result.rows > 0 and extract.state == "SUCCEEDED".',
    ),
    Code(
        "DULY-E155",
        422,
        "The workflow is too large",
        "At most 2,000 steps, 1,000 parents of one step, 1,000 steps in a row; map a list instead.",
    ),
    Code(
        "DULY-E156",
        422,
        "A step contradicts itself",
        "A step has a target or a workflow, or waits for one of approval, signal and delaySec; map needs a target.",
    ),
    Code("DULY-E157", 422, "Jobs wait for one another in a circle", "The message names them. Take one of them out of `after`."),
    Code("DULY-E160", 422, "Not an alert rule", "The problem names the field; how-to/alerts shows what each kind takes."),
    Code(
        "DULY-E161", 422, "Not an alert channel", "The problem names the field. Secrets are named, as env:NAME or file:NAME, never written."
    ),
    Code(
        "DULY-E162",
        422,
        "The rule cannot be tried on the past",
        "Nothing is recorded of pools, workers and the store themselves; rules about jobs can be tried.",
    ),
)
