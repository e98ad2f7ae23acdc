"""Who has how much of something, beside how much is due."""

from __future__ import annotations

from markupsafe import Markup


def share_bars(has: float, due: float, label: str) -> Markup:
    """Two bars, of what one has and of what is due by its weight; each a share of one."""
    bar = Markup('<rect class="{}" y="{}" width="{:.1f}" height="5" rx="1"/>')
    tone = "f-running" if has <= due * 1.5 else "f-dead"
    bars = bar.format(tone, 0, max(has * 100, 0.6)) + bar.format("f-cancelled", 7, max(due * 100, 0.6))
    return Markup('<svg class="shares" viewBox="0 0 100 12" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>').format(
        label, bars
    )
