"""The entry in the admin: it leads to where `DULY_DASHBOARD` says that the dashboard is, and is not there where nothing says so."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from duly.django.models import Dashboard


@admin.register(Dashboard)
class DashboardAdmin(admin.ModelAdmin):
    """A link, to staff. What they may do there, the dashboard decides."""

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Off to the dashboard."""
        return redirect(settings.DULY_DASHBOARD)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Where there is one."""
        return bool(getattr(settings, "DULY_DASHBOARD", None))

    def has_module_permission(self, request: HttpRequest) -> bool:
        """The same."""
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest, *_: Any) -> bool:
        """Nothing is stored."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nothing is stored."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nothing is stored."""
        return False
