"""The shop's web process, with the dashboard in it for users who have the permissions."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "examples.django_shop.web")
project = get_asgi_application()

from duly.django import by_permission, with_dashboard  # noqa: E402

application = with_dashboard(project, auth=by_permission)
