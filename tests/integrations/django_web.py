"""A Django project whose web process has the dashboard; run in a process of its own, because Django is configured once.

python -m tests.integrations.django_web
"""

from __future__ import annotations

import asyncio
import json
import re

import httpx

from examples.django_shop.asgi import application

HTML = {"accept": "text/html"}


def make_users() -> dict[str, str]:
    """Three users with their sessions: one who may do everything, one who may look, one who may log in and no more."""
    from django.contrib.auth.models import Permission, User
    from django.core.management import call_command
    from django.test import Client

    call_command("migrate", verbosity=0)
    User.objects.create_superuser("ann")
    looker = User.objects.create_user("bob", is_staff=True)
    looker.user_permissions.add(Permission.objects.get(codename="view_dashboard"))
    User.objects.create_user("eve", is_staff=True)
    sessions = {}
    for user in User.objects.all():
        client = Client(HTTP_HOST="localhost")
        client.force_login(user)
        sessions[user.username] = client.cookies["sessionid"].value
    return sessions


async def look(sessions: dict[str, str]) -> dict[str, object]:
    """What each of them is shown."""
    told: dict[str, object] = {}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://localhost") as client:
        told["stranger"] = (await client.get("/duly/", headers=HTML)).status_code
        told["forged"] = (await client.get("/duly/", headers=HTML | {"cookie": "sessionid=0123456789abcdef"})).status_code
        for name, session in sessions.items():
            as_user = {"cookie": f"sessionid={session}"}
            page = await client.get("/duly/jobs", headers=HTML | as_user)
            about = await client.get("/duly/v1/session", headers=as_user)
            told[name] = [page.status_code, about.json().get("role"), about.json().get("actor")]
            if name == "ann":
                told["policy"] = page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
                told["elsewhere"] = [path for path in re.findall(r'(?:href|src)="(/[^"]*)"', page.text) if not path.startswith("/duly/")]
                told["unshown"] = (await client.post("/duly/v1/jobs", json={}, headers=as_user)).json()["code"]
                index = await client.get("/admin/", headers=as_user)
                told["in the admin"] = "/admin/duly/dashboard/" in index.text
                entry = await client.get("/admin/duly/dashboard/", headers=as_user)
                told["leads to"] = [entry.status_code, entry.headers["location"]]
        bare = await client.get("/duly")
        told["bare"] = [bare.status_code, bare.headers["location"]]
        told["beside"] = (await client.get("/dulyness/")).status_code
    return told


async def live(sessions: dict[str, str]) -> dict[str, object]:
    """While the server's lifespan lasts."""
    steps: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    said: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    running = asyncio.create_task(application({"type": "lifespan"}, steps.get, said.put))
    await steps.put({"type": "lifespan.startup"})
    began = await said.get()
    told = await look(sessions)
    await steps.put({"type": "lifespan.shutdown"})
    ended = await said.get()
    await running
    return told | {"lifespan": [began["type"], ended["type"]]}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(live(make_users()))))
