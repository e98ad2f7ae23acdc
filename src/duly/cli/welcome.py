"""What a process says when it has started, and when it is told to stop."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from duly import config
from duly.adapters.sql.engine_sqlite import SqliteEngine
from duly.cli.output import BOLD, GREEN, GREY, YELLOW, paint
from duly.cli.places import masked, near
from duly.domain.durations import format_duration
from duly.domain.errors import Invalid
from duly.sdk.task import Task

if TYPE_CHECKING:
    from duly.compose import Node, RemoteService, Service
    from duly.sdk.app import App

_LOCAL = ("127.0.0.1", "::1", "localhost")
_MOST_HANDLERS = 6


def say(service: Service, reference: str | None) -> None:
    """A few lines: what there is, the key, and what to type next."""
    settings = service.node.settings
    lines = [("store", _store(service.node))]
    if service.api is not None:
        lines += [("api", service.api.url), ("key", _key(service)), ("open", _dashboard(service))]
    lines.append(("roles", ", ".join(service.roles)))
    if service.metrics_url is not None:
        lines.append(("metrics", f"{service.metrics_url}/metrics"))
    if "worker" in service.roles:
        lines += _worker(settings, service.app, reference)
    print(paint(f"Duly {config.VERSION}", BOLD), paint("✓ running", GREEN))
    for name, text in lines:
        print(f"  {paint(f'{name:<8}', GREY)} {text}")
    for warning in _warnings(service):
        print(f"  {paint('! warning', YELLOW)} {warning}")
    if service.api is not None:
        print(f"\n{_try_it(service.api.url, settings, service.app)}")
    print("\nCtrl-C stops it.", flush=True)


def say_remote(service: RemoteService, reference: str | None, *, brief: bool) -> None:
    """What a worker says that works through a server."""
    settings = service.settings
    if brief:
        print(f"{paint('✓', GREEN)} running through {settings.url}: worker{f' for {reference}' if reference else ''}", flush=True)
        return
    print(paint(f"Duly {config.VERSION}", BOLD), paint("✓ running", GREEN))
    lines = [("server", f"{settings.url}, through its API; jobs are published there, not from here")]
    for name, text in [*lines, ("roles", "worker"), *_worker(settings, service.app, reference)]:
        print(f"  {paint(f'{name:<8}', GREY)} {text}")
    print("\nCtrl-C stops it.", flush=True)


def brief(service: Service, reference: str | None) -> None:
    """The same in one line."""
    where = f" at {service.api.url}" if service.api is not None else ""
    print(f"{paint('✓', GREEN)} running{where}: {', '.join(service.roles)}{f' for {reference}' if reference else ''}", flush=True)


def farewell(roles: Sequence[str], settings: config.Settings) -> str:
    """What is said at the first signal."""
    if "worker" not in roles:
        return "Stopping: requests under way are answered, schedules are handed over. Once more stops at once."
    grace = format_duration(settings.grace)
    return f"Stopping: no new work; what runs may end within {grace}, the rest is given back. Once more stops at once."


def _store(node: Node) -> str:
    if isinstance(node.engine, SqliteEngine):
        where = f"{near(node.engine.path)} (SQLite {sqlite3.sqlite_version})"
    else:
        where = masked(node.settings.store)
    applied = node.migrated
    if any(migration.number == 1 for migration in applied):
        return f"created {where}, schema {applied[-1].number:04d}"
    if applied:
        return f"opened {where}, upgraded by {', '.join(f'{migration.number:04d}_{migration.name}' for migration in applied)}"
    return f"opened {where}"


def _key(service: Service) -> str:
    settings = service.node.settings
    if service.new_key is not None:
        return f"{service.new_key}\n{' ' * 11}new, and shown this once; kept in {near(settings.key_file)}, which only you can read"
    if settings.admin_key is not None:
        return "from DULY_ADMIN_KEY"
    if settings.key_file.exists():
        return f"kept in {near(settings.key_file)}"
    return f"made at an earlier start; {near(settings.key_file)} is not here. Set DULY_ADMIN_KEY to add one"


def _dashboard(service: Service) -> str:
    if service.login_link is None:
        return f"the dashboard, with a link from `{_command()} login`"
    return f"{service.login_link}\n{' ' * 11}the dashboard; this link logs one browser in, within five minutes"


def _worker(settings: config.Settings, app: App | None, reference: str | None) -> list[tuple[str, str]]:
    labels = "".join(f", {key}={value}" if value else f", {key}" for key, value in settings.labels.items())
    own = [] if app is None else sorted([*app.tasks, *(f"{name} (a workflow)" for name in app.workflows)])
    shown = ", ".join(own[:_MOST_HANDLERS]) + (f" and {len(own) - _MOST_HANDLERS} more" if len(own) > _MOST_HANDLERS else "")
    shell = "shell commands" if settings.pool in settings.shell_pools else "no shell commands (--allow-shell allows them)"
    lines = [("worker", f"{settings.slots} slots in pool {settings.pool}{labels}")]
    if reference is not None:
        lines.append(("jobs", f"{shown or 'none declared'}   (from {reference})"))
    return [*lines, ("also", f"duly.echo, duly.sleep, duly.fail, webhooks, {shell}")]


def _warnings(service: Service) -> list[str]:
    settings = service.node.settings
    if service.api is None:
        is_new = any(migration.number == 1 for migration in service.node.migrated)
        return ["this store is new: is it the server's? Set DULY_STORE or DULY_HOME as there."] if is_new else []
    if settings.host in _LOCAL:
        return []
    return [f"the API listens on {settings.host}: every request needs a key, but there is no TLS. Put a proxy in front."]


def _try_it(url: str, settings: config.Settings, app: App | None) -> str:
    key = "$DULY_ADMIN_KEY" if settings.admin_key is not None else f"$(cat {near(settings.key_file)})"
    prefix = f"DULY_URL={url} " if url != "http://127.0.0.1:3859" else ""
    if settings.admin_key is None and settings.home != Path(".duly"):
        prefix += f"DULY_HOME={near(settings.home)} "
    command = prefix + _command()
    own = None if app is None else _runs_as_it_stands(app)
    first = f"  {command} run {own} --wait\n"
    if own is None:
        first = (
            f'  curl {url}/v1/jobs -H "Authorization: Bearer {key}" -H "Content-Type: application/json" \\\n'
            '    -d \'{"target": {"handler": "duly.echo"}, "delaySec": 0, "payload": {"hello": "world"}}\'\n'
        )
    return f"Try it, in another terminal:\n{first}  {command} run list"


def _runs_as_it_stands(app: App) -> str | None:
    """A job of the application's that needs no arguments."""
    for name, task in sorted(app.declared.items()):
        try:
            if isinstance(task, Task):
                task.arguments.to_payload((), {})
        except Invalid:
            continue
        return name
    return None


def _command() -> str:
    """How `duly` is typed here: by its path where the shell would not find it."""
    started = Path(sys.argv[0])
    return near(started) if started.name == "duly" and shutil.which("duly") is None else "duly"
