"""No tables: one name to hang permissions on, and an entry in the admin."""

from __future__ import annotations

from django.db import models


class Dashboard(models.Model):
    """Who may look at the dashboard, act in it and administer it, where `by_permission` lets users in."""

    class Meta:
        """Nothing is stored."""

        managed = False
        default_permissions = ()
        verbose_name_plural = "Dashboard"
        permissions = (
            ("view_dashboard", "Can look at Duly's dashboard"),
            ("operate_dashboard", "Can run, pause and cancel in Duly's dashboard"),
            ("administer_dashboard", "Can do everything in Duly's dashboard"),
        )
