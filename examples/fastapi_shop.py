"""A web application whose process also schedules and runs its jobs. Try it with `fastapi dev examples/fastapi_shop.py`, or:

uvicorn examples.fastapi_shop:api
curl -X POST localhost:8000/signup/7
"""

from __future__ import annotations

from fastapi import FastAPI

from duly import App, Context
from duly.fastapi import add_problems

app = App("fastapi-shop")


@app.job(retry=8)
async def send_welcome(ctx: Context, user_id: int) -> str:
    """The idempotency key is the same for every attempt: hand it to whoever must send one mail only."""
    return f"welcome {user_id} ({ctx.idempotency_key})"


@app.job(cron="30 2 * * *", tz="Europe/Berlin")
async def nightly_report() -> None:
    """Fires while the server runs; with several servers it still fires once."""


api = FastAPI(lifespan=app.lifespan(worker=True, scheduler=True))
add_problems(api)


@api.post("/signup/{user_id}", status_code=202)
async def sign_up(user_id: int) -> dict[str, str]:
    """Enqueue, and answer with the id of the run."""
    return {"run": await send_welcome.enqueue(user_id)}


@api.post("/signup-later/{user_id}", status_code=202)
async def sign_up_later(user_id: int, delay: str) -> dict[str, str]:
    """A delay that is none is refused by Duly, and answered as a problem document."""
    return {"run": await send_welcome.enqueue_in(delay, user_id)}
