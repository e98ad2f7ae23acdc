"""What `duly top` asks and does: one client, used by one thread at a time, and deeds that are said before they are done."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from duly.cli import output, remote
from duly.cli.errors import did_you_mean
from duly.cli.execution_text import fields
from duly.cli.top.panes import MOST_ROWS, PANES, STRIP_MINUTES, Pane, Row, Shown, strip
from duly.domain.errors import Invalid
from duly.domain.instants import MINUTE, to_datetime
from duly.domain.plain import indented, visible
from duly.sdk import calls, why_calls
from duly.sdk.client import Client
from duly.wire.fleet import StatsView

# What can be done, and whether to a run or to a job.
VERBS = {"retry": "run", "cancel": "run", "discard": "run", "pause": "job", "resume": "job", "run": "job", "skip": "job"}
WORDS = {
    "retry": "Run {what} again now?",
    "cancel": "Cancel {what}?",
    "discard": "Put the dead letter {what} away?",
    "pause": "Pause {what}? It fires no more until it is resumed.",
    "resume": "Let {what} fire again?",
    "run": "Run {what} now?",
    "skip": "Skip the next fire of {what}?",
}


class Deed(NamedTuple):
    """Something to do, once whoever looks on has agreed: a verb, and the id or name of a run or a job."""

    verb: str
    what: str
    reason: str | None = None

    @property
    def question(self) -> str:
        """What is asked first."""
        return WORDS[self.verb].format(what=self.what)


class Reading(NamedTuple):
    """Everything that the screen shows at one moment."""

    stats: StatsView
    shown: Shown
    strip: str | None


def deed_on(verb: str, row: Row | None) -> Deed:
    """A key was pressed on a row. Raises Invalid where the row is about no such thing."""
    kind = VERBS[verb]
    what = None if row is None else row.run if kind == "run" else row.job
    if what is None:
        raise Invalid("DULY-E604", f"There is no {kind} here to {verb}.", hint="Choose a row that is about one.")
    return Deed(verb, what)


def command(text: str, row: Row | None) -> Pane | Deed | None:
    """What was typed after `:`: a pane, a deed on a run or a job, or None to leave. Raises Invalid with what was meant perhaps."""
    verb, *rest = text.split()
    if verb in ("q", "quit", "exit"):
        return None
    for pane in PANES:
        if verb == pane.name and not rest:
            return pane
    if verb not in VERBS:
        known = [*VERBS, *(pane.name for pane in PANES), "quit"]
        raise Invalid("DULY-E604", f"There is no {verb!r}.", hint=did_you_mean(verb, known) or f"There are {', '.join(known)}.")
    if not rest:
        return deed_on(verb, row)
    return Deed(verb, rest[0], " ".join(rest[1:]) or None)


class Desk:
    """The way to the server. Not for several threads at once, as its client is not."""

    def __init__(self, client: Client, *, is_readonly: bool = False) -> None:
        self._client = client
        self.is_readonly = is_readonly
        self.url = client.url

    def read(self, pane: Pane, with_strip: bool) -> Reading:
        """The counts and the pane; the strip of the next hour only when it is wanted, for it costs more."""
        stats = self._client.send(calls.show_stats())
        return Reading(stats, pane.read(self._client), self._strip() if with_strip else None)

    def _strip(self) -> str:
        now = output.now()
        until = to_datetime(now - now % MINUTE + STRIP_MINUTES * MINUTE)
        return strip(self._client.send(calls.list_upcoming(until=until, summary="minute")).minutes, now)

    def show(self, row: Row) -> str:
        """All of it: a run's fields, a job's, or the row's own cells."""
        if row.run is not None:
            found = fields(self._client.send(calls.show_execution(row.run)))
        elif row.job is not None:
            job = self._client.send(calls.show_job(row.job))
            found = [
                ("job", f"{job.name}  ({job.job_id})"),
                ("state", output.state_text(job.state)),
                ("fires", job.words),
                ("zone", job.timezone),
            ]
            found += [("next", output.moment(job.next_fire_at)), ("paused", job.pause_reason)]
        else:
            found = [(str(nth + 1), cell.text) for nth, cell in enumerate(row.cells)]
        width = max(len(name) for name, _ in found)
        return "\n".join(f"{name:<{width}}  {indented(value, ' ' * (width + 2))}" for name, value in found if value is not None)

    def why(self, row: Row) -> str:
        """Why a run stands where it stands, or a job does not run."""
        if row.run is not None:
            answer = self._client.send(why_calls.why_execution(row.run))
        elif row.job is not None:
            answer = self._client.send(why_calls.why_job(row.job))
        else:
            raise Invalid("DULY-E604", "There is nothing here to ask about.", hint="Choose a row that is about a run or a job.")
        lines = [answer.summary]
        for reason in answer.reasons:
            lines += ["", f"{reason.code}  {reason.message}", *([f"→ {reason.hint}"] if reason.hint else [])]
        return "\n".join(indented(line) for line in lines)

    def logs(self, row: Row) -> str:
        """The last lines that a run has logged."""
        if row.run is None:
            raise Invalid("DULY-E604", "There is no run here that could have logged.", hint="Choose a row that is about one.")
        run = row.run
        found = list(calls.every_page(self._client.send, lambda cursor: calls.list_logs(run, limit=1000, cursor=cursor), 10_000))[
            -MOST_ROWS:
        ]
        lines = []
        for line in found:
            more = "".join(f" {visible(key)}={visible(_text(value))}" for key, value in line.fields.items())
            lines.append(f"{output.today(line.at)} {visible(line.level):<7} {indented(line.message)}{more}")
        return "\n".join(lines) or "It logged nothing."

    def do(self, deed: Deed) -> str:
        """Do it; what there is to say about it then. Raises Invalid where nothing may be changed."""
        if self.is_readonly:
            raise Invalid("DULY-E604", "This screen only looks.", hint="Start it without --readonly to act.")
        send, what = self._client.send, deed.what
        if VERBS[deed.verb] == "run":
            call = {"retry": calls.retry_execution, "cancel": calls.cancel_execution, "discard": calls.discard_execution}[deed.verb]
            run = send(call(remote.run_id(what)))
            return f"{run.job_name}: {output.state_text(run.state)}, {run.execution_id}"
        job = remote.find_job(self._client, what)
        if deed.verb == "run":
            made = send(calls.run_job(job.job_id))
            return f"{job.name}: {output.state_text(made.state)}, {made.execution_id}"
        if deed.verb == "pause":
            job = send(calls.pause_job(job.job_id, deed.reason))
        elif deed.verb == "resume":
            job = send(calls.resume_job(job.job_id))
        else:
            job = send(calls.skip_fire(job.job_id))
        return f"{job.name}: {output.state_text(job.state)}, fires {output.relative(job.next_fire_at)}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
