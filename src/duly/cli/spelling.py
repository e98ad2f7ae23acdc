"""Other words for commands: those that mean one that there is, and those that people look for and that go another way."""

from __future__ import annotations

from collections.abc import Sequence

# The longest beginning that fits is replaced.
SAME = {
    ("dlq",): ("dead",),
    ("quota",): ("tenant", "show"),
    ("quota", "list"): ("tenant", "list"),
    ("quota", "show"): ("tenant", "show"),
    ("quota", "set"): ("tenant", "set"),
    ("queue",): ("pool",),
    ("db", "migrate"): ("db", "upgrade"),
    ("schedule", "show"): ("schedule", "explain"),
    ("schedule", "skip"): ("skip",),
    ("schedule", "unskip"): ("unskip",),
    ("schedule", "backfill"): ("backfill",),
    ("job", "enable"): ("job", "resume"),
    ("job", "disable"): ("job", "pause"),
    ("job", "backfill"): ("backfill",),
}

_JOBS = "What waits is held back job by job: duly pause JOB, and duly resume JOB."
_SCALE = "How many workers there are is decided where they run: duly worker APP --autoscale MIN..MAX, or --processes N."
_DRAIN = "One worker takes no more work with `duly worker drain WORKER`; `duly worker list` shows them."
_WORKER = "It ends at SIGTERM, and gives back what it cannot finish; `duly worker drain WORKER` stops its leases before."
_HOOKS = "A job calls an address with `duly job create --url URL`; alerts do by channels: duly alert set-channel."
ELSEWHERE = {
    ("pool", "pause"): _JOBS,
    ("pool", "resume"): _JOBS,
    ("pool", "drain"): _DRAIN,
    ("pool", "scale"): _SCALE,
    ("queue", "pause"): _JOBS,
    ("queue", "resume"): _JOBS,
    ("queue", "drain"): _DRAIN,
    ("queue", "scale"): _SCALE,
    ("worker", "pause"): _DRAIN,
    ("worker", "resume"): "A drained worker leases no more: start it again where it runs.",
    ("worker", "scale"): _SCALE,
    ("worker", "stop"): _WORKER,
    ("worker", "restart"): _WORKER,
    ("webhook",): _HOOKS,
    ("import", "airflow"): "Of Airflow nothing is read: write the schedules as TOML (docs/how-to/definitions.md), then duly plan FILE.",
    ("retry", "--where"): "Many at once: duly dead replay --job JOB, or --cause CAUSE; --dry-run says how many.",
}
FIRST = {words[0] for words in (*SAME, *ELSEWHERE)}


def meant(words: Sequence[str]) -> list[str]:
    """The words of the command that is meant. Raises Invalid, with the way to go, for what is done otherwise."""
    if words[0] in FIRST:
        for length in (2, 1):
            typed = tuple(words[:length])
            if typed in SAME:
                return [*SAME[typed], *words[length:]]
            if typed in ELSEWHERE:
                from duly.domain.errors import Invalid

                raise Invalid("DULY-E604", f"There is no `duly {' '.join(typed)}`.", hint=ELSEWHERE[typed])
    return list(words)
