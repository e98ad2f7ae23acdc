"""What the shop keeps."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    """Somebody has bought something."""

    item = models.CharField(max_length=100)
    cents = models.IntegerField()

    class Meta:
        """One table."""

        app_label = "django_shop"
        db_table = "orders"
