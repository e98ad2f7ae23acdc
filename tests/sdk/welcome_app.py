"""Handlers that take one model, of each kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from pydantic import BaseModel

from duly import App, Concurrency, Context, Rate

app = App("shop")
seen: list[Any] = []


class Welcome(BaseModel):
    user_id: int
    language: str = "en"


class Order(msgspec.Struct):
    id: int
    delay: int = 0


@dataclass
class Parcel:
    id: int
    to: str = "Rome"


@app.job(pool="mail", unique="user_id", retry=8, rate="100/m")
async def send_welcome(ctx: Context, args: Welcome) -> int:
    seen.append(args)
    return args.user_id


@app.job(concurrency=Concurrency(1, key="id"))
async def pack(order: Order) -> int:
    seen.append(order)
    return order.id


@app.job(rate=Rate(10, key=["id", "parcel.to"]))
def ship(parcel: Parcel) -> int:
    seen.append(parcel)
    return parcel.id


@app.job
async def later(delay: int, at: str = "home") -> list[Any]:
    return [delay, at]


@app.job(batch=10)
async def many(orders: list[Order]) -> None:
    seen.extend(orders)
