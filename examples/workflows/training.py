"""A model: prepare the data in a workflow of its own, train one candidate for each setting, and keep the best.

duly up examples.workflows.training:app
duly workflow run training
"""

from __future__ import annotations

from duly import App, Context

app = App("models")

prepare = app.workflow("prepare")


@prepare.step
async def collect(ctx: Context) -> list[int]:
    """The raw numbers."""
    return [3, 1, 2]


@prepare.step(after=collect)
async def clean(ctx: Context, raw: list[int]) -> list[int]:
    """In order."""
    return sorted(raw)


training = app.workflow("training")
data = training.run("data", prepare)


@training.step
async def settings(ctx: Context) -> list[float]:
    """What to try."""
    return [0.1, 0.5, 0.9]


@training.step(map=settings, after=data, inputs={"rows": "data.clean"}, pool="default")
async def train(ctx: Context, rate: float, rows: list[int]) -> float:
    """One candidate; its score."""
    return rate * sum(rows)


@training.step(after=train, when="train.result[0] > 0")
async def keep(ctx: Context, scores: list[float]) -> float:
    """The best of them."""
    return max(scores)
