"""What a Django project goes through with Duly behind its tasks; run in a process of its own, because Django is configured once.

python -m tests.integrations.django_story memory|store
"""

from __future__ import annotations

import json
import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "examples.django_shop.settings")
django.setup()

from django.db import connection, transaction  # noqa: E402

from duly.django import application  # noqa: E402
from duly.django.names import TaskResultDoesNotExist  # noqa: E402
from duly.testing import TestApp  # noqa: E402
from examples.django_shop.models import Order  # noqa: E402
from examples.django_shop.tasks import confirm, count_attempts, order, refresh_totals  # noqa: E402


class Undone(Exception):
    """Rolls a block back."""


def make_tables() -> None:
    """What a migration would do."""
    if Order._meta.db_table not in connection.introspection.table_names():
        with connection.schema_editor() as editor:
            editor.create_model(Order)


def in_memory() -> dict[str, object]:
    """With TestApp: commits, rollbacks, retries, results, schedules, other queues."""
    told: dict[str, object] = {}
    with TestApp(application(), at="2026-06-01 12:00 UTC") as t:
        with transaction.atomic():
            kept = order("book", 900)
            told["before the commit"] = len(t.runs())
        try:
            with transaction.atomic():
                undone = order("pen", 100)
                raise Undone
        except Undone:
            pass
        told["after both"] = len(t.runs(confirm.module_path))
        again = count_attempts.enqueue()
        other = confirm.using(queue_name="reports", priority=60).enqueue(Order.objects.get().pk)
        t.travel("31m")
        for result in (kept, again, other):
            result.refresh()
        told["results"] = [(result.status.value, result.return_value) for result in (kept, again, other)]
        told["attempts"] = [result.attempts for result in (kept, again)]
        told["errors"] = [error.exception_class.__name__ for error in again.errors]
        told["totals"] = len(t.fires(refresh_totals.module_path))
        try:
            confirm.get_result(undone.id)
        except TaskResultDoesNotExist:
            told["undone"] = "does not exist"
    spec = application().tasks[refresh_totals.module_path].spec
    told["totals on"] = [spec.target.pool, spec.priority.value]
    return told


def in_the_store() -> dict[str, object]:
    """Without TestApp: whatever database the settings name."""
    with transaction.atomic():
        kept = order("book", 900)
        try:
            kept.refresh()
            seen = "there"
        except TaskResultDoesNotExist:
            seen = "not there"
    try:
        with transaction.atomic():
            undone = order("pen", 100)
            raise Undone
    except Undone:
        pass
    kept.refresh()
    told = {"before the commit": seen, "kept": kept.status.value, "orders": Order.objects.count(), "undone": "there", "run": kept.id}
    try:
        undone.refresh()
    except TaskResultDoesNotExist:
        told["undone"] = "does not exist"
    application().sync.close()
    return told


if __name__ == "__main__":
    make_tables()
    print(json.dumps(in_memory() if sys.argv[1] == "memory" else in_the_store()))
