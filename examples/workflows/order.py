"""An order: reserve, charge, ship. When a step fails for good, what was done is undone, the latest first.

duly up examples.workflows.order:app
duly workflow run order item=book fails=true
"""

from __future__ import annotations

from duly import App, Context
from duly.ports.endings import GiveUp

app = App("orders")
order = app.workflow("order")


@order.step
async def reserve(ctx: Context, item: str = "book") -> dict[str, str]:
    """Put one aside."""
    return {"item": item, "shelf": "A7"}


@order.step(after=reserve)
async def charge(ctx: Context, reserve: dict[str, str]) -> str:
    """The idempotency key makes a second attempt harmless: the bank knows it."""
    return f"receipt for {reserve['item']}"


@order.step(after=charge, retry=2)
async def ship(ctx: Context, receipt: str, fails: bool = False) -> str:
    """May turn out to be impossible."""
    if fails:
        raise GiveUp("nobody delivers there")
    return f"shipped with {receipt}"


@order.step(compensates=charge)
async def refund(ctx: Context, receipt: str) -> str:
    """Only if it was charged."""
    return f"refunded: {receipt}"


@order.step(compensates=reserve)
async def put_back(ctx: Context, reserved: dict[str, str]) -> str:
    """After the refund: the reservation came first, so it is undone last."""
    return f"back to {reserved['shelf']}"
