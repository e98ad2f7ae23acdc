"""A few days of made-up history, the same at every run."""

from __future__ import annotations

import random
from uuid import UUID

from duly.domain.ids import id_floor
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND, Instant
from duly.domain.lifecycle import SkipReason, State, Trigger
from duly.domain.records import Record

START: Instant = 20_000 * DAY


def record(nth: int, chance: random.Random) -> Record:
    due = START + nth * 7 * MINUTE
    state = chance.choices([State.SUCCEEDED, State.DEAD, State.CANCELLED, State.SKIPPED], [90, 5, 3, 2])[0]
    never_began = state is State.SKIPPED
    failed = 3 if state is State.DEAD else chance.choices([0, 1, 2], [80, 15, 5])[0] if not never_began else 0
    began = due + round(chance.expovariate(1 / (2 * SECOND)))
    started = began + failed * 10 * SECOND
    job = chance.choice(["nightly", "import", "it's späť"])
    return Record(
        id=UUID(int=id_floor(due).int | nth + 1),
        tenant=chance.choice(["default", "acme"]),
        job_id=UUID(int=sum(map(ord, job))),
        job=job,
        version=1,
        pool=chance.choice(["default", "gpu"]),
        handler="run",
        trigger=Trigger.SCHEDULE,
        state=state,
        attempts=0 if never_began else failed + (state is not State.DEAD),
        scheduled_at=due,
        due_at=due,
        created_at=due,
        finished_at=due if never_began else started + round(chance.expovariate(1 / MINUTE)),
        started_at=None if never_began else started,
        first_started_at=began if failed else None,
        attempt_due_at=due + failed * 10 * SECOND if failed else None,
        skip_reason=SkipReason.OVERLAP if never_began else None,
        failed=failed,
        error_type=chance.choice(["ValueError", "TimeoutError"]) if failed else None,
        error_message="no such table" if failed else None,
    )


def history(count: int = 600) -> list[Record]:
    chance = random.Random(9)
    return [record(nth, chance) for nth in range(count)]


END: Instant = START + 4 * DAY + HOUR
