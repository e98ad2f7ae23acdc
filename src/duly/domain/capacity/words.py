"""The answer for people: a verdict for each pool first, then what the database has to take."""

from __future__ import annotations

from typing import assert_never

from duly.domain.capacity.forecast import Forecast, Lack, PoolForecast, Use, Verdict
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND, Instant, Micros, to_datetime


def words_of(forecast: Forecast) -> list[str]:
    """Every sentence, the worst news first."""
    order = {Verdict.SHORT: 0, Verdict.TIGHT: 1, Verdict.FINE: 2}
    pools = sorted(forecast.pools, key=lambda pool: (order[pool.verdict], pool.pool))
    is_long = forecast.end - forecast.begin > DAY
    return [*(pool_words(pool, is_long) for pool in pools), *_machines(forecast, is_long), _store(forecast)]


def pool_words(pool: PoolForecast, is_long: bool) -> str:
    """What becomes of one pool, and what would do where it does not suffice."""
    if not pool.fires:
        return f"{pool.pool}: fine; nothing is due"
    late = f"p99 lateness {span_words(pool.p99)}"
    worst = time_words(pool.worst_minute, is_long)
    busy = f"at most {pool.most_busy:,} of {pool.size.total:,} slots busy"
    match pool.verdict:
        case Verdict.FINE:
            return f"{pool.pool}: fine; {busy}, worst minute {worst}, {late}{_lost(pool)}"
        case Verdict.TIGHT:
            return f"{pool.pool}: tight; {busy}, at {time_words(pool.most_busy_at, is_long)}; {late}{_lost(pool)}"
        case Verdict.SHORT:
            return f"{pool.pool}: NOT enough: {_short(pool, is_long)}{_lost(pool)}"
        case _:
            assert_never(pool.verdict)


def _short(pool: PoolForecast, is_long: bool) -> str:
    late = f"starts up to {span_words(pool.latest)} late, worst minute {time_words(pool.worst_minute, is_long)}"
    match pool.lack:
        case Lack.WORKERS:
            return f"no worker serves it; {pool.needed or 0:,} slots would do"
        case Lack.SLOTS:
            needed, each = pool.needed or 0, max(pool.size.slots, 1)
            at = "" if pool.needed_at is None else f" at {time_words(pool.needed_at, is_long)}"
            workers = -(-needed // each)
            would_do = f"{workers * each:,} slots ({workers:,} workers of {each:,})" + (
                " or spreading the schedule" if pool.spreading else ""
            )
            return f"{pool.size.total:,} slots, {needed:,} needed{at}; {late}; {would_do} would do"
        case Lack.PROCESSES:
            return f"its {pool.size.workers:,} worker processes have no more to give, one core each; {late}; more processes would do"
        case Lack.WORKER_CORES | Lack.DATABASE_CORES:
            return f"slots are not what it lacks, {pool.lack.value} are; {late}"
        case Lack.SERVERS:
            spread = "; spreading the schedule would do" if pool.spreading else ""
            return f"slots are not what it lacks: firing takes its time; {late}{spread}, and more servers help"
        case Lack.NOTHING:
            return late
        case _:
            assert_never(pool.lack)


def _lost(pool: PoolForecast) -> str:
    """What does not run at all."""
    parts = [(pool.skipped, "skipped because the previous one runs"), (pool.stopped, "stopped by the next one"), (pool.dead, "dead")]
    return "".join(f"; {number:,} {what}" for number, what in parts if number)


def _machines(forecast: Forecast, is_long: bool) -> list[str]:
    uses = {"database": forecast.database, "workers": forecast.workers}
    if forecast.one_machine:
        uses = {"processors": forecast.database}
    return [_use(name, use, is_long) for name, use in uses.items()]


def _use(name: str, use: Use, is_long: bool) -> str:
    worst = f"{_share(use.worst)} of {use.cores:g} cores in the worst minute, {time_words(use.worst_minute, is_long)}"
    if use.verdict is Verdict.SHORT:
        return f"{name}: NOT enough: {worst}"
    return f"{name}: {use.verdict.value}; {worst}, {_share(use.mean)} over all"


def _share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"


def _store(forecast: Forecast) -> str:
    connections = f"; up to {forecast.connections:,} connections" if forecast.connections else ""
    days = f"{forecast.retention / DAY:,.0f} days"
    return (
        f"store: {rate(forecast.commits)} commits/s ({rate(forecast.worst_commits)} in the worst minute), "
        f"{size_words(forecast.log)}/s of log ({size_words(forecast.worst_log)}/s), {size_words(forecast.log_a_day)} of log a day; "
        f"grows by {size_words(forecast.disk_a_day)} a day, to {size_words(forecast.disk)} in {days}{connections}"
    )


def rate(number: float) -> str:
    """A rate with as many digits as mean something."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"


def size_words(number: float) -> str:
    """Bytes."""
    for unit, step in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= step:
            return f"{number / step:,.0f} {unit}" if number >= 10 * step else f"{number / step:.1f} {unit}"
    return f"{number:.0f} B"


def span_words(micros: Micros) -> str:
    """A length of time, rounded as a forecast is."""
    if micros < SECOND:
        return f"{max(micros // 1000, 1)} ms"
    if micros < 2 * MINUTE:
        return f"{micros / SECOND:.1f} s" if micros < 10 * SECOND else f"{micros // SECOND} s"
    return f"{micros // MINUTE} min" if micros < 2 * HOUR else f"{micros / HOUR:.1f} h"


def time_words(at: Instant, is_long: bool) -> str:
    """A minute, in UTC; with its day where there are several."""
    return f"{to_datetime(at):%a %d %b %H:%M} UTC" if is_long else f"{to_datetime(at):%H:%M} UTC"
