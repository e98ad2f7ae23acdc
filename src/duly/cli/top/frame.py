"""`duly top` without a screen of its own: a frame of text, over the one before it where there is a terminal."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Sequence

from duly.cli import output
from duly.cli.cluster import skew, summary, word
from duly.cli.output import BOLD, GREEN, GREY, YELLOW, Output, paint, span
from duly.domain.instants import SECOND, Instant
from duly.wire.cluster import ClusterView
from duly.wire.fleet import PoolView, StatsView

# Home, and clear to the end: a frame is drawn over the one before it.
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


def frame(found: ClusterView, stats: StatsView, out: Output) -> str:
    """Everything at one moment; with -o json the answers themselves."""
    if out.format in ("json", "jsonl"):
        with contextlib.redirect_stdout(io.StringIO()) as text:
            out.one([], {"cluster": found, "stats": stats}, name="")
        return text.getvalue()
    now = output.instant(found.now)
    lines = [f"{paint('duly top', BOLD)}  {output.local(now)}", summary(found), "", *_owners(found, now), "", *_pools(stats, now), ""]
    counts = "  ".join(f"{state.lower()} {number:,}" for state, number in sorted(stats.executions.items()) if number)
    lines.append(f"executions  {counts or 'none'}")
    hour = stats.last_hour
    ended = ", ".join(f"{number:,} {state.lower()}" for state, number in hour.ended.items()) or "none ended"
    lines.append(f"last hour   {hour.fires:,} fires, {hour.executions:,} executions: {ended}")
    return "\n".join(lines) + "\n"


def _owners(found: ClusterView, now: Instant) -> list[str]:
    rows = [("DISPATCHER", "SHARDS", "EPOCHS", "CLOCK", "PROGRESS", "PRESENT")]
    for dispatcher in found.dispatchers:
        held = [shard for shard in found.shards if shard.owner == dispatcher.name]
        epochs = [shard.epoch for shard in held]
        oldest = min((shard.progress_at for shard in held if shard.progress_at is not None), default=None)
        rows.append(
            (
                dispatcher.name,
                f"{len(held)} {bar(len(held), len(found.shards))}",
                "–" if not epochs else f"{min(epochs)}–{max(epochs)}",
                skew(dispatcher.clock_skew_ms),
                "–" if oldest is None else f"{span(max(now - output.instant(oldest), 0))} ago",
                word(dispatcher.is_present),
            )
        )
    known = {dispatcher.name for dispatcher in found.dispatchers}
    strays = [shard for shard in found.shards if shard.owner not in known]
    if strays:
        rows.append((f"{len(strays)} shards of nobody who lives", "", "", "", "", ""))
    return _aligned(rows)


def _pools(stats: StatsView, now: Instant) -> list[str]:
    rows = [("POOL", "WORKERS", "RUNNING", "QUEUED", "OLDEST")]
    rows += [
        (
            pool.pool,
            str(pool.workers),
            f"{pool.running}/{pool.slots} {bar(pool.running, pool.slots)}",
            f"{pool.pending:,}",
            _age(pool, now),
        )
        for pool in stats.pools
    ]
    return _aligned(rows) if stats.pools else [paint("No worker is alive and nothing is queued.", GREY)]


def _age(pool: PoolView, now: Instant) -> str:
    if pool.oldest_pending_at is None:
        return "–"
    waited = max(now - output.instant(pool.oldest_pending_at), 0)
    return f"{span(waited)}" if waited < 10 * SECOND else paint(span(waited), YELLOW)


def bar(part: int, whole: int, width: int = 10) -> str:
    """So much of it."""
    full = 0 if whole == 0 else min(round(part / whole * width), width)
    return paint("█" * full, GREEN) + paint("░" * (width - full), GREY)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns one under the other. Colours take no room."""
    columns = max(len(row) for row in rows)
    widths = [max(_seen(row[nth]) for row in [rows[0], *(row for row in rows[1:] if row[1])]) for nth in range(columns)]
    lines = ["  ".join(cell + " " * (width - _seen(cell)) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [paint(lines[0], GREY), *lines[1:]]


def _seen(text: str) -> int:
    return sum(1 for _ in _visible(text))


def _visible(text: str) -> list[str]:
    """The characters that take room on a terminal."""
    kept: list[str] = []
    is_code = False
    for character in text:
        if character == "\x1b":
            is_code = True
        elif not is_code:
            kept.append(character)
        elif character == "m":
            is_code = False
    return kept


def draw(text: str) -> None:
    """Over the frame before it."""
    lines = text.splitlines()
    sys.stdout.write(_HOME + "".join(f"{line}{_REST_OF_LINE}\n" for line in lines) + _REST_OF_SCREEN)
    sys.stdout.flush()
