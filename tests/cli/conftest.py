"""A server for the commands that ask one; it is shared, so tests make jobs of their own names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.processes import Running

SHOP = '''
import time

from duly import App, Context

app = App("shop")


@app.job(cron="30 2 * * *", tz="Europe/Berlin")
async def nightly_report(ctx: Context, region: str = "eu") -> dict[str, str]:
    """Builds the nightly report."""
    ctx.log.info("building", region=region)
    return {"region": region}


@app.job(retry=1)
def broken(ctx: Context) -> None:
    ctx.log.warning("about to fail")
    raise ValueError("no such table: orders")


@app.job
def stubborn(seconds: float) -> None:
    time.sleep(seconds)


@app.job(executor="process")
def elsewhere() -> str:
    import os
    return "child" if os.getppid() != 1 else "orphan"
'''


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an application in it: shop:app."""
    directory = tmp_path_factory.mktemp("shop")
    (directory / "shop.py").write_text(SHOP)
    return directory


@pytest.fixture(scope="package")
def server(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """`duly up shop:app` on a free port, for as long as tests of commands run: it would be busy beside all others as well."""
    running = Running.start("up", "shop:app", "--port", "0", "--allow-shell", home=tmp_path_factory.mktemp("state") / "home", cwd=shop)
    try:
        yield running.ready()
    finally:
        running.kill()


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    """Starts long-running commands and leaves none behind."""
    started: list[Running] = []

    def begin(*words: str, home: Path, cwd: Path | None = None, **more: str) -> Running:
        started.append(Running.start(*words, home=home, cwd=cwd, **more))
        return started[-1]

    yield begin
    for running in started:
        running.kill()
