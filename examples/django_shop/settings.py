"""The settings of a small shop: its tasks are run by Duly."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

SECRET_KEY = "only for the example"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["duly.django", "examples.django_shop"]
TASKS = {"default": {"BACKEND": "duly.django.Backend", "QUEUES": ["default", "reports"]}}

DULY_APP = "django-shop"
# In the project's own PostgreSQL database both are one transaction; elsewhere tasks are enqueued on commit.
DULY_STORE = os.environ.get("DULY_STORE", "sqlite:///duly.db")
_url = urlsplit(os.environ.get("SHOP_DATABASE", ""))
if _url.scheme:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": _url.path[1:],
            "HOST": _url.hostname,
            "PORT": _url.port,
            "USER": _url.username,
        }
    }
else:
    DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("SHOP_FILE", "shop.db")}}
