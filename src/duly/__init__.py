"""Duly: runs jobs at a time, on a schedule, after a delay or on demand, and answers for every one of them.

The public names are imported when they are first used: `import duly` and the command line start
without the store, the roles and the server behind `App`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duly.compose.app import App
    from duly.domain.errors import Conflict, DulyError, Forbidden, Invalid, LeaseLost, NotFound, TooLarge, TooMany, Unavailable
    from duly.domain.secrets import Secret
    from duly.ports.endings import DeadLetter, Discard, GiveUp, RetryLater, Snooze
    from duly.sdk.after import After
    from duly.sdk.client import Client
    from duly.sdk.context import Cancelled, Context, current
    from duly.sdk.limits import Concurrency, Rate
    from duly.sdk.retry import Retry, Rule
    from duly.sdk.task import Task

__all__ = [
    "After",
    "App",
    "Cancelled",
    "Client",
    "Concurrency",
    "Conflict",
    "Context",
    "DeadLetter",
    "Discard",
    "DulyError",
    "Forbidden",
    "GiveUp",
    "Invalid",
    "LeaseLost",
    "NotFound",
    "Rate",
    "Retry",
    "RetryLater",
    "Rule",
    "Secret",
    "Snooze",
    "Task",
    "TooLarge",
    "TooMany",
    "Unavailable",
    "current",
]

_HOMES = {
    "duly.compose.app": ("App",),
    "duly.domain.errors": ("Conflict", "DulyError", "Forbidden", "Invalid", "LeaseLost", "NotFound", "TooLarge", "TooMany", "Unavailable"),
    "duly.domain.secrets": ("Secret",),
    "duly.ports.endings": ("DeadLetter", "Discard", "GiveUp", "RetryLater", "Snooze"),
    "duly.sdk.after": ("After",),
    "duly.sdk.client": ("Client",),
    "duly.sdk.context": ("Cancelled", "Context", "current"),
    "duly.sdk.limits": ("Concurrency", "Rate"),
    "duly.sdk.retry": ("Retry", "Rule"),
    "duly.sdk.task": ("Task",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            value = getattr(import_module(home), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
