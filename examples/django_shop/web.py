"""The shop with its admin and the dashboard: settings, addresses and the ASGI application. Try it with:

python -m examples.django_shop.manage migrate --settings examples.django_shop.web
python -m examples.django_shop.manage createsuperuser --settings examples.django_shop.web
uvicorn examples.django_shop.asgi:application      # then http://localhost:8000/admin/, where Duly leads to the dashboard
"""

from __future__ import annotations

from examples.django_shop.settings import *  # noqa: F403

# Where the dashboard is; the admin leads there.
DULY_DASHBOARD = "/duly/"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "duly.django",
    "examples.django_shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "examples.django_shop.urls"
STATIC_URL = "/static/"
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
