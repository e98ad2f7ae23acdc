"""Two jobs in plain Python: one on a cron, one that is enqueued.

duly up examples.plain:app                  # fires and runs them
python -m examples.plain                    # enqueues one, from anywhere that reaches the same store
"""

from __future__ import annotations

import asyncio

from duly import App, Context, Retry

app = App("plain")


@app.job(cron="30 2 * * *", tz="Europe/Berlin", overlap="skip", retry=Retry(5), timeout="10m")
async def nightly_report(ctx: Context, region: str = "eu") -> dict[str, int]:
    """Builds the nightly report."""
    ctx.log.info("building", region=region, lateness=ctx.lateness)
    return {"rows": len(region)}


@app.job(retry=3)
def resize(ctx: Context, path: str, width: int = 800) -> str:
    """Runs in a thread; the arguments are checked when it is enqueued."""
    ctx.log.info("resizing", path=path, width=width)
    return f"{path}@{width}"


async def main() -> None:
    """Enqueue a few executions."""
    print(await nightly_report.enqueue(region="us"))
    print(await resize.enqueue_in("2s", "cat.png", width=400))
    print(await resize.enqueue_many([{"path": "a.png"}, {"path": "b.png"}]))
    await app.close()


if __name__ == "__main__":
    asyncio.run(main())
