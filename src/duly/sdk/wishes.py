"""When an enqueue is to run and in whose transaction, said beside the arguments: `enqueue(user_id=7, delay="5m", tx=session)`.

An argument of the handler goes before: whoever declares one called `delay` gets it, and `enqueue_in` says when.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly.domain.durations import parse_duration
from duly.domain.errors import Invalid
from duly.domain.instants import Instant, Micros
from duly.sdk.moments import instant_of

if TYPE_CHECKING:
    from duly.sdk.arguments import Arguments, BatchArguments

# Each with what says the same where the name is taken.
RESERVED = {"delay": 'enqueue_in("5m", …)', "at": "enqueue_at(when, …)", "tx": "using(connection).enqueue(…)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was said beside the arguments."""

    delay: Micros | None = None
    run_at: Instant | None = None
    tx: Any = None


NO_WISH = Wish()


def taken_apart(
    arguments: Arguments | BatchArguments, args: tuple[Any, ...], kwargs: dict[str, Any], said: Wish = NO_WISH
) -> tuple[str, Wish]:
    """The payload of a call, and what is wished of it. `said` is what the name of the method says already.

    Raises Invalid (DULY-E117) for arguments that do not fit, and for a time that is said twice.
    """
    if not kwargs or RESERVED.keys().isdisjoint(kwargs):
        return arguments.to_payload(args, kwargs), said
    mine = {name for name in RESERVED if name in kwargs and not arguments.owns(name, args)}
    own = {name: value for name, value in kwargs.items() if name not in mine}
    try:
        payload = arguments.to_payload(args, own)
    except Invalid as error:
        taken = (error.field or "").split(".")[-1]
        if taken not in own.keys() & RESERVED.keys():
            raise
        hint = f"{taken!r} is an argument of the handler itself here: {RESERVED[taken]} says the other."
        raise Invalid(error.code, error.message, field=error.field, hint=hint) from None
    given = {name: kwargs[name] for name in mine if kwargs[name] is not None}
    times = [*sorted(given.keys() & {"delay", "at"}), *(["the time"] if said != NO_WISH else [])]
    if len(times) > 1:
        raise Invalid("DULY-E117", f"{times[0]} and {times[1]} contradict one another.", field=times[0], hint="Say once when it is to run.")
    return payload, Wish(
        delay=parse_duration(given["delay"], field="delay") if "delay" in given else said.delay,
        run_at=instant_of(given["at"], "at") if "at" in given else said.run_at,
        tx=given.get("tx"),
    )
