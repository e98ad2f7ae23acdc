"""Answers to why, on the wire."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from duly.domain.why.answers import Answer, WhyCode
from duly.wire.shapes import View, shown


class ReasonView(View, kw_only=True, omit_defaults=True):
    """One reason: a stable code, a sentence, the facts behind it, since and until when it holds, and what to do."""

    code: WhyCode
    message: str
    facts: dict[str, Any]
    since: str | UnsetType = UNSET
    until: str | UnsetType = UNSET
    hint: str | UnsetType = UNSET


class WhyView(View, kw_only=True):
    """The answer in one sentence, and its reasons, most important first."""

    summary: str
    reasons: list[ReasonView]


def why_view(answer: Answer) -> WhyView:
    """An answer as the API gives it."""
    return WhyView(
        summary=answer.summary,
        reasons=[
            ReasonView(
                code=reason.code,
                message=reason.message,
                facts=reason.facts,
                since=shown(reason.since) or UNSET,
                until=shown(reason.until) or UNSET,
                hint=reason.hint or UNSET,
            )
            for reason in answer.reasons
        ],
    )
