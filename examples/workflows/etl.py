"""A nightly load: list the files, load each, and publish when somebody has looked at the figures.

duly up examples.workflows.etl:app
duly workflow run etl files='["a.csv", "b.csv"]'
duly workflow approve RUN publish
"""

from __future__ import annotations

from duly import App, Context

app = App("etl")
etl = app.workflow("etl", cron="H 4 * * *", tz="UTC", catch_up="latest")


@etl.step
def extract(ctx: Context, files: list[str] | None = None) -> list[str]:
    """The files of the day."""
    return ["monday.csv", "tuesday.csv"] if files is None else files


@etl.step(map=extract, max_parallel=20, retry=3)
def load(ctx: Context, path: str) -> int:
    """One file; how many rows it had."""
    ctx.log.info("loading", path=path)
    return len(path)


@etl.step(after=load, when="all_succeeded", approval={"by": ["admin"], "timeout": "2d"})
def publish(ctx: Context, counts: list[int]) -> int:
    """The sum of them, for everybody to see."""
    return sum(counts)


@etl.step(after=load, when="any_failed")
def tell(ctx: Context) -> str:
    """Only when a file could not be loaded."""
    return "some files were not loaded"
