"""`duly capacity`: will it suffice? A simulation of a plan, or of the jobs that a server has, on paper."""

from __future__ import annotations

import os
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

from duly import config
from duly.cli import live_load, output, remote
from duly.cli.errors import FAILURE, OK
from duly.cli.output import BOLD, GREEN, GREY, RED, YELLOW, Column, Output, paint
from duly.cli.parsing import Arguments, Command, Parser, remote_options
from duly.cli.times import later_of
from duly.domain.capacity.costs import Fleet, PoolSize, UnitCosts
from duly.domain.capacity.forecast import Forecast, PoolForecast, Question, Verdict, forecast
from duly.domain.capacity.load import LoadClass
from duly.domain.capacity.words import pool_words, span_words, time_words, words_of
from duly.domain.durations import parse_duration
from duly.domain.errors import Invalid
from duly.domain.instants import DAY, MINUTE, Instant, from_datetime
from duly.domain.job import POOL
from duly.wire.capacity import PlanShape, classes_of, costs_of, fleet_of, forecast_view, read_costs, read_plan

_SIZE = re.compile(r"([0-9]{1,7})(?:[x×]([0-9]{1,7}))?\Z")
LARGEST_FILE = 64 << 20
DEFAULT_SLOTS = 50
# Nobody is told about something that is over at once.
PATIENCE = 1.0
_COLOURS = {Verdict.FINE: GREEN, Verdict.TIGHT: YELLOW, Verdict.SHORT: RED}
_MARKS = {Verdict.FINE: "✓", Verdict.TIGHT: "!", Verdict.SHORT: "✗"}


def _configure(parser: Parser) -> None:
    parser.add_argument("plan", metavar="FILE", nargs="?", help="a plan, .toml or .json; otherwise the jobs and workers of the server")
    parser.add_argument("--from", dest="begin", metavar="TIME", help="from when on; otherwise from the next full minute")
    parser.add_argument("--horizon", metavar="TIME", default="1d", help="for how long (1d, at most 31d)")
    parser.add_argument("--times", metavar="N", type=float, default=1.0, help="what if there were that many times as many jobs?")
    parser.add_argument(
        "--pool", metavar="NAME=WxS", action="append", default=[], help="what if a pool had W workers of S slots? may be repeated"
    )
    parser.add_argument("--servers", metavar="N", type=int, help="how many processes fire schedules (1)")
    parser.add_argument("--database-cores", metavar="N", type=float, help="processors of the database (4)")
    parser.add_argument("--worker-cores", metavar="N", type=float, help="processors of servers and workers, all together (4)")
    parser.add_argument("--cores", metavar="N", type=float, help="one machine for everything, with that many processors")
    parser.add_argument("--tolerance", metavar="TIME", default="1s", help="on time is who starts within it, 99 of 100 of them (1s)")
    parser.add_argument("--retention", metavar="TIME", help="how long history is kept; DULY_RETENTION otherwise")
    parser.add_argument("--engine", choices=("postgres", "sqlite"), help="the store; otherwise the plan's, or that of DULY_STORE")
    parser.add_argument("--costs", metavar="FILE", help="unit costs of your machines, from `python -m benchmarks.capacity`")
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="decides durations and failures (1)")
    remote_options(parser)


def _capacity(arguments: Arguments) -> int:
    out = output.of(arguments)
    question, remarks = _question(arguments)
    teller = _Teller(out)
    answer = forecast(question, teller.tell)
    teller.end()
    _print(out, question, answer, remarks)
    return FAILURE if answer.verdict is Verdict.SHORT else OK


def _question(arguments: Arguments) -> tuple[Question, list[str]]:
    settings = config.load(url=arguments.server)
    begin = _begin(arguments)
    remarks: list[str] = []
    if arguments.plan is not None:
        plan = _plan(Path(arguments.plan))
        classes, fleet, engine = classes_of(plan, begin), fleet_of(plan), arguments.engine or plan.engine
    else:
        with remote.connect(arguments) as client:
            live = live_load.look(client, begin)
        classes, remarks, engine = live.classes, live.remarks, arguments.engine or _engine_of(settings.store)
        cores = float(os.cpu_count() or 1)
        fleet = Fleet(pools=live.pools, database_cores=cores, worker_cores=cores, one_machine=engine == "sqlite")
    if not 0 < arguments.times <= 1e6:
        raise Invalid("DULY-E281", "is more than 0 and at most a million.", field="--times")
    question = Question(
        classes=[_times(load, arguments.times) for load in classes],
        fleet=_fleet(fleet, arguments),
        costs=_costs(arguments, engine),
        begin=begin,
        horizon=parse_duration(arguments.horizon, field="--horizon"),
        tolerance=parse_duration(arguments.tolerance, field="--tolerance"),
        retention=settings.retention if arguments.retention is None else parse_duration(arguments.retention, field="--retention"),
        seed=arguments.seed,
    )
    return question, remarks


def _begin(arguments: Arguments) -> Instant:
    if arguments.begin is not None:
        return from_datetime(later_of(arguments.begin, "--from"))
    return -(-output.now() // MINUTE) * MINUTE


def _plan(path: Path) -> PlanShape:
    return read_plan(_bytes(path), path.suffix.lower() == ".toml")


def _bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise Invalid("DULY-E604", f"{path} is larger than {LARGEST_FILE >> 20} MiB.")
        return path.read_bytes()
    except OSError as error:
        raise Invalid("DULY-E604", f"{path} cannot be read: {error.strerror}.") from error


def _costs(arguments: Arguments, engine: str) -> UnitCosts:
    return costs_of(engine) if arguments.costs is None else read_costs(_bytes(Path(arguments.costs)))


def _engine_of(store: str) -> str:
    return "sqlite" if store.startswith("sqlite") else "postgres"


def _times(load: LoadClass, times: float) -> LoadClass:
    if times == 1:
        return load
    if load.schedule is None:
        return replace(load, per_second=load.per_second * times)
    return replace(load, jobs=max(round(load.jobs * times), 1))


def _fleet(fleet: Fleet, arguments: Arguments) -> Fleet:
    """What the options say over what is there."""
    pools = dict(fleet.pools)
    for text in arguments.pool:
        name, sign, size = text.partition("=")
        found = _SIZE.match(size)
        if not sign or not POOL.match(name) or found is None:
            raise Invalid("DULY-E283", f"{text[:60]!r} is not NAME=WORKERSxSLOTS.", field="--pool", hint="For example --pool reports=2x20.")
        before = pools.get(name, PoolSize(1, DEFAULT_SLOTS))
        pools[name] = PoolSize(int(found[1]), before.slots if found[2] is None else int(found[2]))
    given = {
        "servers": arguments.servers,
        "database_cores": arguments.database_cores,
        "worker_cores": arguments.worker_cores,
    }
    changed = {key: value for key, value in given.items() if value is not None}
    if arguments.cores is not None:
        changed |= {"database_cores": arguments.cores, "worker_cores": arguments.cores, "one_machine": True}
    return replace(fleet, pools=pools, **changed)


# ---------------------------------------------------------------- telling


def _print(out: Output, question: Question, answer: Forecast, remarks: list[str]) -> None:
    is_long = answer.end - answer.begin > DAY
    if out.format in ("json", "jsonl"):
        out.one([], forecast_view(answer, words_of(answer), {pool.pool: pool_words(pool, is_long) for pool in answer.pools}), name="")
        return
    if out.is_for_people:
        for sentence in words_of(answer):
            print(_marked(sentence))
        print()
    out.rows(_columns(is_long), answer.pools, name=lambda pool: pool.pool)
    if out.is_for_people:
        print()
    out.say(
        paint(
            f"{answer.due:,} executions of {answer.jobs:,} jobs from {time_words(answer.begin, True)}, for {span_words(question.horizon)}; "
            f"costs of {question.costs.engine}, measured on {question.costs.measured_on}",
            GREY,
            sys.stderr,
        )
    )
    for remark in (*remarks, *answer.notes):
        out.say(f"! {remark}")


def _marked(sentence: str) -> str:
    name, _, rest = sentence.partition(": ")
    verdict = Verdict.SHORT if rest.startswith("NOT") else Verdict.TIGHT if rest.startswith("tight") else Verdict.FINE
    return f"{paint(_MARKS[verdict], _COLOURS[verdict])} {paint(name, BOLD)}: {rest}"


def _columns(is_long: bool) -> list[Column[PoolForecast]]:
    return [
        Column("pool", lambda pool: pool.pool),
        Column("verdict", lambda pool: pool.verdict.value, colour=lambda pool: _COLOURS[pool.verdict]),
        Column("due", lambda pool: f"{pool.fires:,}", lambda pool: str(pool.fires)),
        Column("slots", lambda pool: f"{pool.size.total:,}", lambda pool: str(pool.size.total)),
        Column("busy", lambda pool: f"{pool.most_busy:,}", lambda pool: str(pool.most_busy), "peakBusy"),
        Column(
            "needed", lambda pool: "" if pool.needed is None else f"{pool.needed:,}", lambda pool: str(pool.needed or ""), "slotsNeeded"
        ),
        Column("queue", lambda pool: f"{pool.deepest:,}", lambda pool: str(pool.deepest), "peakQueue"),
        Column("p50", lambda pool: span_words(pool.p50), lambda pool: str(pool.p50 / 1000), "latenessP50Ms"),
        Column("p99", lambda pool: span_words(pool.p99), lambda pool: str(pool.p99 / 1000), "latenessP99Ms"),
        Column("latest", lambda pool: span_words(pool.latest), lambda pool: str(pool.latest / 1000), "latenessMaxMs"),
        Column("worst minute", lambda pool: time_words(pool.worst_minute, is_long), None, "worstMinute"),
        Column("skipped", lambda pool: f"{pool.skipped:,}", lambda pool: str(pool.skipped)),
    ]


class _Teller:
    """Tells how far it is, once it has taken a while; on a terminal, and for people only."""

    def __init__(self, out: Output) -> None:
        self._began = time.monotonic()
        self._is_wanted = out.is_for_people and not out.quiet and sys.stderr.isatty()
        self._has_told = False

    def tell(self, share: float) -> None:
        """So much of it is done."""
        if self._is_wanted and time.monotonic() - self._began > PATIENCE:
            print(f"\rsimulating … {min(share, 1):.0%} ", end="", file=sys.stderr, flush=True)
            self._has_told = True

    def end(self) -> None:
        """No more of it."""
        if self._has_told:
            print(f"\r{' ' * 24}\r", end="", file=sys.stderr, flush=True)


_EXAMPLES = """
It fires, claims and runs on paper what the plan says, with the schedules' own arithmetic and with what one fire, claim and finish
costs, and says which pool starts its work on time, when it is worst and what would do. Nothing is written anywhere. Exit code 1 when
something does not suffice.

examples:
  duly capacity                                   the jobs and workers of the server, for a day
  duly capacity --times 10                        what if there were ten times as many?
  duly capacity plan.toml --pool reports=4x20     a plan, with other workers than it says
  duly capacity plan.toml --horizon 7d --json     for programs
"""

COMMANDS = {
    "capacity": Command(
        "Will it suffice? Lateness, slots, connections, log and disk of a plan, or of the jobs there are.",
        _configure,
        _capacity,
        "duly capacity",
        _EXAMPLES,
    )
}
