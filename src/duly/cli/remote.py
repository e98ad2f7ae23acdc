"""The way to the server: a client by the settings, and jobs by name or id."""

from __future__ import annotations

import sys
from typing import TypeVar

from duly import config
from duly.cli.errors import Withheld, did_you_mean
from duly.cli.output import paint
from duly.cli.parsing import Arguments
from duly.domain.errors import Forbidden, NotFound
from duly.domain.ids import EXECUTION_PREFIX, JOB_PREFIX, parse_execution_id, parse_job_id
from duly.sdk import calls
from duly.sdk.client import Client
from duly.wire.jobs import JobView

MOST_NAMES = 1000
# White on red.
BADGE = "1;97;41"
# As many jobs as a command that looks at all of them reads.
MOST_JOBS = 10_000
T = TypeVar("T")


def connect(arguments: Arguments) -> Client:
    """A client of the server that the flags or the settings name. Raises Forbidden when there is no key to use."""
    settings = config.load(url=arguments.server, context=getattr(arguments, "context", None))
    if settings.key is None:
        hint = f"`duly up` keeps one in {settings.key_file}: run this where it runs, or set DULY_HOME, DULY_KEY or DULY_KEY_FILE."
        raise Forbidden("DULY-E301", "There is no key to use.", hint=hint)
    _say_where(arguments, settings.url)
    kind = Withholding if getattr(arguments, "withhold", False) else Client
    return kind(settings.url, settings.key, agent=f"duly-cli/{config.VERSION}", channel="cli", reason=getattr(arguments, "why", None))


def _say_where(arguments: Arguments, url: str) -> None:
    """A badge, for people, where the server is that of a protected context."""
    if arguments.server is not None or getattr(arguments, "quiet", False) or not (sys.stdout.isatty() and sys.stderr.isatty()):
        return
    name = config.protected_context(getattr(arguments, "context", None))
    if name is not None:
        print(f"{paint(f' {name.upper()} ', BADGE, sys.stderr)} {url}", file=sys.stderr, flush=True)


class Withholding(Client):
    """Sends questions only: the first request that would change something ends the command."""

    def send(self, call: calls.Call[T]) -> T:
        """Raises Withheld in place of sending a change."""
        if call.request.method != "GET":
            raise Withheld(call.request.method, call.request.path, call.request.body)
        return super().send(call)


def find_job(client: Client, text: str) -> JobView:
    """The job of a name or an id; a live one before a cancelled one of the same name. Raises NotFound with names like it."""
    if _looks_like_id(text, JOB_PREFIX):
        parse_job_id(text)
        return client.send(calls.show_job(text))
    found = client.send(calls.list_jobs(name=text, limit=200)).items if text else []
    for job in found:
        if job.state != "CANCELLED":
            return job
    if found:
        return found[0]
    names = [job.name for job in calls.every_page(client.send, lambda cursor: calls.list_jobs(limit=200, cursor=cursor), MOST_NAMES)]
    hint = did_you_mean(text, dict.fromkeys(names))
    if hint is None:
        hint = "See all: duly job list" if names else "There are no jobs yet: `duly job create -h` shows how to make one."
    raise NotFound("DULY-E204", f"There is no job {text!r}.", hint=hint)


def is_run(text: str) -> bool:
    """Whether this names an execution."""
    return _looks_like_id(text, EXECUTION_PREFIX)


def run_id(text: str) -> str:
    """An execution's id. Raises Invalid for anything else."""
    parse_execution_id(text)
    return text


def _looks_like_id(text: str, prefix: str) -> bool:
    digits = text.removeprefix(prefix)
    return text.startswith(prefix) and len(digits) >= 16 and all(c in "0123456789abcdef" for c in digits)
