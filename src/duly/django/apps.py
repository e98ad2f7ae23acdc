"""The Django application: it brings `manage.py duly`, and an entry in the admin."""

from __future__ import annotations

from django.apps import AppConfig


class DulyConfig(AppConfig):
    """No tables: Duly's store is its own."""

    name = "duly.django"
    label = "duly"
    verbose_name = "Duly"
    default_auto_field = "django.db.models.BigAutoField"
