"""The shop's tasks: Django's own, and one with a schedule."""

from __future__ import annotations

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task

from duly.django import schedule
from examples.django_shop.models import Order


@task
def confirm(order_id: int, *, shout: bool = False) -> str:
    """Runs in a thread of the worker, with the database as ever."""
    item = Order.objects.get(pk=order_id).item
    return item.upper() if shout else item


@task(takes_context=True)
async def count_attempts(context) -> int:  # type: ignore[no-untyped-def]
    """An async task that looks at its context."""
    if context.attempt < 2:
        raise TimeoutError("not yet")
    return int(context.attempt)


@schedule("every 15 minutes", jitter="2m")
@task(queue_name="reports", priority=10)
def refresh_totals() -> int:
    """Fires by itself, and can be enqueued as any other."""
    return sum(Order.objects.values_list("cents", flat=True))


def order(item: str, cents: int):  # type: ignore[no-untyped-def]
    """Saved and confirmed together, or neither: call it in `transaction.atomic()`."""
    saved = Order.objects.create(item=item, cents=cents)
    return confirm.enqueue(saved.pk, shout=True)
