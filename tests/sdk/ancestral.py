"""A workflow whose steps look at what the steps before them came to, each in another way."""

from __future__ import annotations

from duly import App, Context

app = App("ancestral")
flow = app.workflow("ancestral")

# Longer than what is copied into a payload, and all items together longer than what a mapped step keeps.
LONG, LONGER, ITEMS = 100_000, 300_000, 5


@flow.step
async def numbers(ctx: Context) -> list[int]:
    return list(range(ITEMS))


@flow.step
async def text(ctx: Context) -> str:
    return "x" * LONG


@flow.step(map=numbers)
async def wide(ctx: Context, nth: int) -> str:
    return str(nth) * LONGER


@flow.step(after=[text, wide])
async def awaiting(ctx: Context, text: str, wide: list[str]) -> list[int]:
    parents = await ctx.parents
    return [len(text), len(wide), len(wide[4]), len(parents["text"]), len(parents["wide"])]


@flow.step(after=[text, wide], inputs={})
def plain(ctx: Context) -> list[int]:
    return [len(ctx.parents["text"]), len(ctx.parents["wide"]), len(ctx.parents)]


@flow.step(after=text, executor="process", inputs={"given": "text"})
def apart(ctx: Context, given: str) -> list[int]:
    return [len(given), len(ctx.parents["text"])]


@flow.step(map=numbers, after=text, inputs={"nth": "item"})
async def each(ctx: Context, nth: int) -> int:
    parents = await ctx.parents
    return nth + len(parents["text"])


@app.job()
async def alone(ctx: Context) -> int:
    return len(await ctx.parents)
