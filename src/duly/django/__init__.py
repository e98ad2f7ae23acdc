"""Duly in Django: a backend for `django.tasks` (Django 6) and for its backport `django-tasks`, schedules, `manage.py duly`,
and the dashboard beside the project.

    TASKS = {"default": {"BACKEND": "duly.django.Backend"}}
    INSTALLED_APPS += ["duly.django"]

The names are imported when they are first used: Django imports this package before its own registry is ready.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duly.django.asgi import by_permission, with_dashboard
    from duly.django.backend import Backend
    from duly.django.jobs import DjangoApp, application
    from duly.django.schedules import schedule

__all__ = ["Backend", "DjangoApp", "application", "by_permission", "schedule", "with_dashboard"]


def __getattr__(name: str) -> Any:
    match name:
        case "Backend":
            from duly.django.backend import Backend

            return Backend
        case "DjangoApp" | "application":
            from duly.django import jobs

            return getattr(jobs, name)
        case "by_permission" | "with_dashboard":
            from duly.django import asgi

            return getattr(asgi, name)
        case "schedule":
            from duly.django.schedules import schedule

            return schedule
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
