"""What a handler takes, as far as names go: enough to refuse a payload that it would refuse, before anybody has to run it."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from duly.domain.errors import Invalid
from duly.domain.secrets import MARK


@dataclass(frozen=True, slots=True)
class Takes:
    """The names of a handler's arguments, in order, and those of them that have no default."""

    names: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


def refusal(handler: str, takes: Takes, payload: str) -> Invalid | None:
    """Why a handler would not take this payload, as far as its names tell; None when they say nothing against it."""
    try:
        given: Any = json.loads(payload)
    except ValueError:
        # Whoever reads payloads for good says what is wrong with this one.
        return None
    if given is None:
        given = {}
    if isinstance(given, dict) and MARK in given:
        # A secret in the place of everything: only who knows it can tell.
        return None
    if not isinstance(given, dict):
        says = f"{handler} takes named arguments; the payload is {_kind(given)}."
        return Invalid("DULY-E117", says, field="payload", hint=_all(takes))
    for name in given:
        if name not in takes.names:
            says = f"{handler} has no argument {name[:100]!r}."
            return Invalid("DULY-E117", says, field=f"payload.{name[:100]}", hint=_close_to(name, takes) + _all(takes))
    for name in takes.required:
        if name not in given:
            return Invalid("DULY-E117", f"{handler} needs the argument {name!r}.", field=f"payload.{name}", hint=_all(takes))
    return None


def common_refusal(handler: str, offers: Collection[Takes | None], payload: str) -> Invalid | None:
    """Why none of those who offer a handler would take this payload. None as long as one might: who does not say what he takes may."""
    if None in offers:
        return None
    refused: Invalid | None = None
    for takes in offers:
        if takes is not None and (refused := refusal(handler, takes, payload)) is None:
            return None
    return refused


def _close_to(name: str, takes: Takes) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, takes.names, n=1, cutoff=0.6)
    return f"Did you mean {close[0]}? " if close else ""


def _all(takes: Takes) -> str:
    if not takes.names:
        return "It takes no arguments."
    said = [name if name in takes.required else f"{name} (optional)" for name in takes.names]
    return f"It takes {', '.join(said)}."


def _kind(value: Any) -> str:
    return {list: "a list", str: "a text", bool: "a truth value"}.get(type(value), "a number")
