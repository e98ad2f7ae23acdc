"""Templates, and the few words that all of them have. Everything is escaped unless it was made here."""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from duly.dashboard import words
from duly.dashboard.icons import icon
from duly.domain.instants import Instant, to_rfc3339
from duly.domain.zones import load_zone

if TYPE_CHECKING:
    from duly.dashboard.view import View

# Whose page is being made: zone and time belong to it.
_viewed: ContextVar[View] = ContextVar("viewed")
_RUN = re.compile(r"(\brun_[0-9a-f]{32}\b)")


def render(template: str, view: View, context: dict[str, Any]) -> bytes:
    """A template as a view's page."""
    token = _viewed.set(view)
    try:
        return TEMPLATES.get_template(template).render(view=view, **context).encode()
    finally:
        _viewed.reset(token)


def time(iso: str | None, job_zone: str | None = None, *, relative: bool = False) -> Markup:
    """A time in the chosen zone. Hovering tells it in the job's zone, the browser's and UTC; `relative` adds how far away it is."""
    if iso is None:
        return Markup('<span class="none">–</span>')
    view, at = _viewed.get(), words.moment(iso)
    chosen = view.preferences.zone_name(job_zone)
    zones = dict.fromkeys(zone for zone in (job_zone, view.preferences.zone, "UTC") if zone is not None)
    told = "\n".join(f"{words.full_text(at, load_zone(zone))} {zone}" for zone in zones)
    text = words.clock_text(at, view.now, load_zone(chosen))
    suffix = Markup(' <small class="relative" data-relative="{}"></small>').format(iso) if relative else ""
    return Markup('<time datetime="{}" title="{}">{}</time>{}').format(iso, told, text, suffix)


def ago(iso: str | None) -> Markup:
    """How far away a time is, kept right by the page's script; the time itself without it."""
    if iso is None:
        return Markup('<span class="none">–</span>')
    view, at = _viewed.get(), words.moment(iso)
    zone = load_zone(view.preferences.zone_name())
    return Markup('<time datetime="{}" title="{}" data-relative="{}">{}</time>').format(
        iso, words.full_text(at, zone), iso, words.clock_text(at, view.now, zone)
    )


def full_time(iso: str, zone: str, *, short: bool = False) -> Markup:
    """A time with its day and offset in one zone, whatever zone is chosen."""
    then = words.local(words.moment(iso), load_zone(zone))
    text = f"{then:%a} {then.day} {then:%b} {words.short_clock(then)}" if short else words.full_text(words.moment(iso), load_zone(zone))
    return Markup('<time datetime="{}">{}</time>').format(iso, text)


def clock(at: Instant) -> str:
    """The hours and minutes of an instant in the chosen zone."""
    return words.short_clock(words.local(at, _viewed.get().preferences.zone_for()))


def moment_text(iso: str) -> str:
    """A time in the chosen zone where there is no room for more than its text."""
    view = _viewed.get()
    return words.clock_text(words.moment(iso), view.now, view.preferences.zone_for())


def log_time(iso: str) -> str:
    """The time of a log line, to the millisecond."""
    then = words.local(words.moment(iso), _viewed.get().preferences.zone_for())
    return f"{then:%H:%M:%S}.{then.microsecond // 1000:03}"


def state(name: str, label: str | None = None) -> Markup:
    """A state: its shape, its colour and its word."""
    key = name.lower().replace("_", "-")
    return Markup('<span class="state state-{}">{}<span>{}</span></span>').format(key, icon(key), label or key.replace("-", " "))


def with_runs(text: str) -> Markup:
    """A sentence in which ids of executions lead to them."""
    root = _viewed.get().root
    link = Markup('<a class="mono" href="{}/executions/{}">{}</a>')
    # Every second part is an id; the others are escaped as they are joined.
    parts = [link.format(root, part, words.short_id(part)) if nth % 2 else part for nth, part in enumerate(_RUN.split(text))]
    return Markup().join(parts)


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("duly.dashboard"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals |= {
        "ago": ago,
        "between": words.between,
        "clock": clock,
        "counted": words.counted,
        "full_time": full_time,
        "icon": icon,
        "iso": to_rfc3339,
        "log_time": log_time,
        "moment_text": moment_text,
        "state": state,
        "time": time,
        "begun": words.begun,
        "took": words.took,
    }
    environment.filters |= {
        "span": words.span,
        "number": words.number,
        "pretty": words.pretty,
        "plain": words.plain,
        "short_id": words.short_id,
        "with_runs": with_runs,
    }
    return environment


TEMPLATES = _environment()
