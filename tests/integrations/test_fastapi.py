"""Duly in a FastAPI application: a worker in its process, transactions, and problems."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from duly import App, Context, Invalid
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.domain.ids import execution_text, parse_execution_id
from duly.domain.lifecycle import State
from duly.fastapi import InTransaction, add_problems, jobs_in
from duly.ports.store import ExecutionFilter
from duly.testing import AsyncTestApp
from tests.services.databases import migrate, run_aside


def client_of(api: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://shop")


async def test_the_process_of_the_example_runs_what_it_enqueues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from examples.fastapi_shop import api, app

    monkeypatch.setattr(app, "store", f"sqlite:///{tmp_path / 'shop.db'}")
    async with api.router.lifespan_context(api), client_of(api) as client:
        answer = await client.post("/signup/7")
        assert answer.status_code == 202

        connection = await app.connection()
        run = parse_execution_id(answer.json()["run"])
        async with asyncio.timeout(60):
            while (seen := await connection.executions.show(connection.actor, run)).finished_at is None:
                await asyncio.sleep(0.02)
        assert seen.state is State.SUCCEEDED

        refused = await client.post("/signup-later/7", params={"delay": "soon"})
        assert (refused.status_code, refused.headers["content-type"]) == (422, "application/problem+json")
        assert refused.json()["code"] == "DULY-E104"


async def test_an_endpoint_is_tested_with_time_travel() -> None:
    from examples.fastapi_shop import api, app, send_welcome

    async with AsyncTestApp(app) as t, client_of(api) as client:
        await client.post("/signup-later/7", params={"delay": "2h"})

        [run] = t.assert_enqueued(send_welcome, user_id=7)
        await t.travel("2h")
        assert run.state == "succeeded"


@pytest.fixture
async def shop(postgres_dsn: str) -> AsyncIterator[tuple[App, FastAPI]]:
    """An application on PostgreSQL whose endpoint writes a row and enqueues in one transaction."""
    run_aside(lambda: migrate(PostgresEngine(postgres_dsn)))
    app = App("shop", store=postgres_dsn)

    @app.job
    async def send_welcome(name: str) -> None: ...

    engine = create_async_engine(postgres_dsn.replace("postgresql://", "postgresql+asyncpg://", 1))
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE public.users (name text)"))

    async def session() -> AsyncIterator[AsyncSession]:
        async with AsyncSession(engine) as opened:
            yield opened

    api = FastAPI(lifespan=app.lifespan())
    add_problems(api)

    @api.post("/signup/{name}")
    async def sign_up(
        name: str,
        opened: AsyncSession = Depends(session),  # noqa: B008
        jobs: InTransaction = Depends(jobs_in(session)),  # noqa: B008
    ) -> str:
        await opened.execute(text("INSERT INTO public.users VALUES (:name)"), {"name": name})
        run: str = await jobs.enqueue(send_welcome, name)
        if name == "nobody":
            raise Invalid("DULY-E106", "nobody signs up.", field="name")
        await opened.commit()
        return run

    yield app, api
    await engine.dispose()


async def test_a_row_and_its_job_commit_together_or_not_at_all(shop: tuple[App, FastAPI]) -> None:
    app, api = shop
    async with api.router.lifespan_context(api), client_of(api) as client:
        kept = await client.post("/signup/ada")
        refused = await client.post("/signup/nobody")

        assert (kept.status_code, refused.status_code) == (200, 422)
        connection = await app.connection()
        job = await connection.jobs.named(connection.actor, "send_welcome")
        assert job is not None
        found = await connection.executions.find(ExecutionFilter(connection.actor.tenant, job.id))
        assert [execution_text(one.id) for one in found] == [kept.json()]


async def test_a_server_whose_store_cannot_be_opened_does_not_start(tmp_path: Path) -> None:
    app = App("nowhere", store=f"sqlite:///{tmp_path / 'a-file'}/shop.db")
    (tmp_path / "a-file").write_text("")
    api = FastAPI(lifespan=app.lifespan(worker=True))

    with pytest.raises(Exception, match="cannot be opened"):
        async with api.router.lifespan_context(api):
            pass


async def test_jobs_in_child_processes_need_to_know_where_they_are_imported_from() -> None:
    app = App("heavy")
    app.job(executor="process", name="render")(_render)

    with pytest.raises(Invalid, match="reference"):
        async with app.lifespan(worker=True)(None):
            pass


def _render() -> None: ...


class Welcome(BaseModel):
    user_id: int


async def test_a_model_a_delay_and_the_session_go_in_one_call(postgres_dsn: str) -> None:
    run_aside(lambda: migrate(PostgresEngine(postgres_dsn)))
    app = App("shop", store=postgres_dsn)

    @app.job(pool="mail", unique="user_id", retry=8, rate="100/m")
    async def send_welcome(ctx: Context, args: Welcome) -> None: ...

    engine = create_async_engine(postgres_dsn.replace("postgresql://", "postgresql+asyncpg://", 1))
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE public.users (id int)"))

    async def get_db() -> AsyncIterator[AsyncSession]:
        async with AsyncSession(engine) as opened, opened.begin():
            yield opened

    api = FastAPI(lifespan=app.lifespan(worker=True))
    api.mount("/jobs", app.dashboard(auth=lambda request: None))

    @api.post("/signup/{user}")
    async def signup(user: int, db: AsyncSession = Depends(get_db)) -> None:  # noqa: B008
        await db.execute(text("INSERT INTO public.users VALUES (:id)"), {"id": user})
        await send_welcome.enqueue(Welcome(user_id=user), delay="5m", tx=db)
        if user == 13:
            raise HTTPException(409, "no luck")

    async with api.router.lifespan_context(api), client_of(api) as client:
        assert [(await client.post(f"/signup/{user}")).status_code for user in (7, 13)] == [200, 409]
        reached = await app.connection()
        job = await reached.jobs.named(reached.actor, "send_welcome")
        assert job is not None
        (found,) = await reached.executions.find(ExecutionFilter(reached.actor.tenant, job.id))
        assert (found.payload, found.state) == ('{"args":{"user_id":7}}', State.SCHEDULED)
    await engine.dispose()
