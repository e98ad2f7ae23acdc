"""A web application with the dashboard inside, behind its own login. Try it with:

uvicorn examples.fastapi_dashboard:api
curl -c cookies -X POST 'localhost:8000/login?name=ann'     # then open http://localhost:8000/duly/ with the same cookie
duly login --server http://localhost:8000/duly                 # or: a link, as everywhere
"""

from __future__ import annotations

import hmac
import os
import secrets
from hashlib import sha256

from fastapi import FastAPI, Request, Response

from duly import App
from duly.fastapi import Visitor

app = App("fastapi-dashboard")
# Who works here, and what they may do in the dashboard. Nobody else gets in this way.
STAFF = {"ann": "admin", "bob": "viewer"}
SECRET = os.environ.get("SHOP_SECRET", secrets.token_hex()).encode()


@app.job(cron="30 2 * * *", tz="Europe/Berlin")
async def nightly_report() -> None:
    """Something to look at."""


def sign(name: str) -> str:
    """A cookie that nobody else can make. Your application has a login of its own; this one asks for no password."""
    return f"{name}.{hmac.digest(SECRET, name.encode(), sha256).hex()}"


def staff(request: Request) -> Visitor | None:
    """Whom the shop has logged in, and as what; None: the dashboard shows how to log in."""
    name = request.cookies.get("shop_user", "").partition(".")[0]
    known = hmac.compare_digest(request.cookies.get("shop_user", "").encode(), sign(name).encode())
    return Visitor(name, STAFF[name]) if known and name in STAFF else None


api = FastAPI(lifespan=app.lifespan(worker=True, scheduler=True))
api.mount("/duly", app.dashboard(auth=staff))


@api.post("/login", status_code=204)
async def log_in(name: str, response: Response) -> None:
    """The shop's own login."""
    response.set_cookie("shop_user", sign(name), httponly=True, samesite="lax")
