"""Duly: runs jobs at a time, on a schedule, after a delay or on demand, and answers for every one of them."""

from duly.compose import App
from duly.domain.errors import Conflict, DulyError, Forbidden, Invalid, NotFound, TooLarge, Unavailable
from duly.sdk.context import Cancelled, Context, current
from duly.sdk.retry import Retry
from duly.sdk.task import Task

__all__ = [
    "App",
    "Cancelled",
    "Conflict",
    "Context",
    "DulyError",
    "Forbidden",
    "Invalid",
    "NotFound",
    "Retry",
    "Task",
    "TooLarge",
    "Unavailable",
    "current",
]
