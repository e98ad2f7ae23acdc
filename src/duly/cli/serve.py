"""The long-running commands: `up`, `server`, `worker`, and `scheduler` and `api` as short forms of `server`."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from argparse import SUPPRESS
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from duly import config
from duly.cli import journal
from duly.cli.errors import OK
from duly.cli.parsing import Arguments, Command, Group, Parser, later
from duly.domain.errors import Invalid

if TYPE_CHECKING:
    from duly.compose import Service
    from duly.sdk.app import App

SERVER_ROLES = ("api", "dispatcher", "sweeper", "pruner", "alerter")
SCHEDULER_ROLES = ("dispatcher", "sweeper", "pruner", "alerter")


# ---------------------------------------------------------------- options


def store_options(parser: Parser) -> None:
    """Where the state is."""
    parser.add_argument(
        "--store", metavar="URL", help="sqlite:///file.db or postgresql://…, or names of stores in duly.toml; DULY_STORE otherwise"
    )
    parser.add_argument("--home", metavar="DIR", help="the state directory; DULY_HOME otherwise, or .duly")


def process_options(parser: Parser) -> None:
    """What every long-running process takes."""
    store_options(parser)
    parser.add_argument("--grace", metavar="TIME", help="how long running work may take to end at a stop, such as 20s")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), help="how much is logged to standard error")
    parser.add_argument("--brief", action="store_true", help="say in one line what was started")


def api_options(parser: Parser) -> None:
    """Where the API listens."""
    parser.add_argument("--host", help="the address to listen on; DULY_HOST otherwise, or 127.0.0.1")
    parser.add_argument("--port", metavar="N", type=_whole, help="the port to listen on, 0 for a free one; DULY_PORT otherwise, or 3859")


def worker_options(parser: Parser) -> None:
    """What a worker offers."""
    parser.add_argument("app", metavar="APP", nargs="?", help="the application whose jobs to run: module:attribute, such as shop.jobs:app")
    parser.add_argument("--pool", help="the pool to serve; DULY_POOL otherwise, or default")
    parser.add_argument("--label", metavar="K=V", action="append", help="a label to offer, such as region=eu or gpu; may be repeated")
    parser.add_argument("--slots", metavar="N", type=_whole, help="how many executions to run at once")
    parser.add_argument("--children", metavar="N", type=_whole, help='child processes for jobs with executor="process"; one per core')
    parser.add_argument("--allow-shell", dest="shell", action="store_true", help="run shell jobs of this pool; off unless it is asked for")


def up_options(parser: Parser) -> None:
    """Everything in one process."""
    worker_options(parser)
    api_options(parser)
    process_options(parser)
    parser.add_argument("--no-worker", action="store_true", help="every role but the worker")


def _configure_server(parser: Parser) -> None:
    parser.add_argument("--roles", metavar="LIST", help=f"which of {','.join(SERVER_ROLES)}; all of them otherwise")
    api_options(parser)
    process_options(parser)


def _configure_api(parser: Parser) -> None:
    api_options(parser)
    process_options(parser)


def _configure_worker(parser: Parser) -> None:
    parser.add_argument("--server", metavar="URL", help="work through this server's API, with a worker key in DULY_KEY; see below")
    worker_options(parser)
    parser.add_argument(
        "--processes", metavar="N", type=_whole, default=0, help="that many worker processes, started again when they die; 0: this one"
    )
    parser.add_argument("--autoscale", metavar="MIN..MAX", help="as many worker processes as the pool's load asks for, within these bounds")
    parser.add_argument("--target-wait", metavar="TIME", default="10s", help="how long work may wait for a slot with --autoscale; 10s")
    parser.add_argument("--calm-for", metavar="TIME", default="60s", help="how long less must have been enough before one stops; 60s")
    # For the processes of a supervisor: they die with it.
    parser.add_argument("--parent", type=int, help=SUPPRESS)
    process_options(parser)


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 100_000:
        raise ValueError(text)
    return int(text)


# argparse names the reader in its message: "invalid whole number value".
_whole.__name__ = "whole number"


# ---------------------------------------------------------------- commands


def _up(arguments: Arguments) -> int:
    roles = SERVER_ROLES if arguments.no_worker else (*SERVER_ROLES, "worker")
    return _serve(arguments, roles)


def _server(arguments: Arguments) -> int:
    return _serve(arguments, SERVER_ROLES if arguments.roles is None else _roles(arguments.roles))


def _scheduler(arguments: Arguments) -> int:
    return _serve(arguments, SCHEDULER_ROLES)


def _api(arguments: Arguments) -> int:
    return _serve(arguments, ("api",))


def _worker(arguments: Arguments) -> int:
    if arguments.server and arguments.store:
        raise Invalid("DULY-E604", "--server and --store contradict one another.", hint="A worker has one way to its work.")
    if arguments.autoscale:
        return _autoscaled(arguments)
    if arguments.processes:
        from duly.cli import supervisor

        # What is wrong with the settings is said once, here, and not by every process again and again.
        journal.set_up(settings_of(arguments))
        return supervisor.supervise(arguments.processes)
    if arguments.parent is not None:
        from duly.executors.parents import die_with

        die_with(arguments.parent)
    return _serve(arguments, ("worker",))


def _autoscaled(arguments: Arguments) -> int:
    from duly import compose
    from duly.cli import supervisor
    from duly.domain.durations import parse_duration
    from duly.domain.instants import SECOND
    from duly.domain.scaling import Goal

    settings = settings_of(arguments)
    if settings.is_remote:
        hint = "It looks at the load in the store. For workers through an API, let KEDA read GET /v1/pools/{pool}/scaling."
        raise Invalid("DULY-E604", "needs the store.", field="--autoscale", hint=hint)
    journal.set_up(settings)
    least, most = supervisor.bounds(arguments.autoscale)
    waits = {name: parse_duration(getattr(arguments, name), field=f"--{name.replace('_', '-')}") for name in ("target_wait", "calm_for")}
    goal = Goal(max(waits["target_wait"] / SECOND, 0.1), settings.slots, least, most)
    look = compose.Lookout(settings, settings.pool)
    return supervisor.autoscale(goal, settings.hostname, look, waits["calm_for"] / SECOND)


def _roles(text: str) -> tuple[str, ...]:
    wanted = [word.strip() for word in text.split(",") if word.strip()]
    for role in wanted:
        if role not in SERVER_ROLES:
            hint = "A worker is started with `duly worker`." if role == "worker" else f"There are {', '.join(SERVER_ROLES)}."
            raise Invalid("DULY-E604", f"There is no role {role!r}.", field="--roles", hint=hint)
    if not wanted:
        raise Invalid("DULY-E604", "names no role.", field="--roles", hint=f"There are {', '.join(SERVER_ROLES)}.")
    return tuple(role for role in SERVER_ROLES if role in wanted)


def settings_of(arguments: Arguments, app_store: str | None = None) -> config.Settings:
    """Flags over the application's own store over the environment over the defaults."""
    given = vars(arguments)
    names = ("home", "host", "port", "pool", "slots", "children", "log_level")
    flags = {name: given.get(name) for name in names}
    flags["store"] = given.get("store") or app_store
    flags["url"] = given.get("server")
    if given.get("label"):
        flags["labels"] = {key: value for key, _, value in (label.partition("=") for label in given["label"])}
    if given.get("grace") is not None:
        from duly.domain.durations import parse_duration

        flags["grace"] = parse_duration(given["grace"], field="--grace")
    settings = config.load(**flags)
    if given.get("shell") and settings.pool not in settings.shell_pools:
        settings = replace(settings, shell_pools=(*settings.shell_pools, settings.pool))
    return settings


def _serve(arguments: Arguments, roles: Sequence[str]) -> int:
    """Run roles until a signal, then leave without waiting for threads that nothing can stop."""
    reference: str | None = getattr(arguments, "app", None)
    app: App | None = None
    if reference is not None:
        from duly.cli import application

        if "worker" not in roles:
            raise Invalid("DULY-E604", "An application needs a worker.", hint="Leave out --no-worker, or the application.")
        app = application.load(reference)
    settings = settings_of(arguments, None if app is None else app.store)
    journal.set_up(settings)
    from duly.compose.collecting import collect_seldom

    collect_seldom()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        wants_restart = runner.run(_run(settings, roles, app, reference, arguments.brief))
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if wants_restart:
            # The same process with a fresh interpreter: threads that nothing can stop end with the old one.
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 the words are our own
        # A handler in a thread that ignores its deadline would hold the interpreter's exit. Its execution was given
        # back, and the fence refuses whatever it still writes.
        os._exit(OK)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _run(settings: config.Settings, roles: Sequence[str], app: App | None, reference: str | None, brief: bool) -> bool:
    """Whether the process should be started again."""
    from duly import compose
    from duly.cli import welcome

    if tuple(roles) == ("worker",) and settings.is_remote:
        return await _run_remote(settings, app, reference, brief)
    nodes = await compose.open_nodes(settings)
    node = nodes[0]
    try:
        new_key = await compose.bootstrap_key(node) if "api" in roles and compose.is_default(node) else None
        stop = asyncio.Event()
        stop_on_signals(stop, welcome.farewell(roles, settings))
        say = welcome.brief if brief else welcome.say

        def started(service: Service) -> None:
            say(service, reference)

        service = compose.Service(node, roles, app, reference, new_key, may_restart=True, others=nodes[1:])
        # For the person who looks, not for the journal of a service.
        service.wants_link = not brief and sys.stdout.isatty()
        await service.run(stop, started)
    finally:
        for each in nodes:
            await each.close()
    print("Starting again." if service.wants_restart else "Stopped.", file=sys.stderr, flush=True)
    return service.wants_restart


async def _run_remote(settings: config.Settings, app: App | None, reference: str | None, brief: bool) -> bool:
    from duly import compose
    from duly.cli import welcome

    service = compose.RemoteService(settings, app, reference, may_restart=True)
    stop = asyncio.Event()
    stop_on_signals(stop, welcome.farewell(service.roles, settings))
    await service.run(stop, lambda started: welcome.say_remote(started, reference, brief=brief))
    print("Starting again." if service.wants_restart else "Stopped.", file=sys.stderr, flush=True)
    return service.wants_restart


def stop_on_signals(stop: asyncio.Event, farewell: str) -> None:
    """The first signal asks for an orderly end, the second one does not ask."""

    def on_signal(number: signal.Signals) -> None:
        if stop.is_set():
            logging.shutdown()
            os._exit(128 + number)
        print(f"\n{farewell}" if number is signal.SIGINT else farewell, file=sys.stderr, flush=True)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)


_EXAMPLES = """
examples:
  duly up                          a server and a worker on a SQLite file in .duly
  duly up shop.jobs:app            the same, with the jobs that your code declares
  duly up --port 0 --allow-shell   a free port; shell jobs allowed
"""

_WORKER_EXAMPLES = """
Where it works: on the store that --store or DULY_STORE names; else, when --server or DULY_URL names a server, through
that server's API with the key in DULY_KEY; else on the SQLite file in DULY_HOME. --server comes before all else.

examples:
  duly worker shop.jobs:app                                     on the store of this directory
  duly worker shop.jobs:app --autoscale 1..8                    one to eight processes, as the load asks for
  duly worker shop.jobs:app --server https://duly.example.com   through the API: no way to the database is needed
"""

COMMANDS = {
    "up": Command("Run everything in one process: API, scheduler and worker.", up_options, _up, "duly up", _EXAMPLES),
    "server": Command("Run every role but the worker.", _configure_server, _server, "duly server"),
    "worker": Group(
        "Run a worker, and see who there is.",
        "duly worker",
        {
            "list": Command(
                "live workers, and lost ones of the last hour",
                later("looking", "configure_workers"),
                later("looking", "workers"),
                "duly worker list",
            ),
            "show": Command(
                "one worker: what it offers, and how it stands",
                later("looking", "configure_worker"),
                later("looking", "show_worker"),
                "duly worker show",
            ),
            "drain": Command(
                "let a worker that works through the API take no more",
                later("looking", "configure_worker"),
                later("looking", "drain_worker"),
                "duly worker drain",
                changes=True,
            ),
        },
        otherwise=Command("Run a worker on the store, or through an API.", _configure_worker, _worker, "duly worker", _WORKER_EXAMPLES),
        is_whole=True,
    ),
    "scheduler": Command("Run dispatcher, sweeper and pruner only.", process_options, _scheduler, "duly scheduler"),
    "api": Command("Run the API only.", _configure_api, _api, "duly api"),
}
