"""A job as text and over time: `duly job export|edit|history|diff`."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from duly import config
from duly.cli import apply, definitions, output, remote
from duly.cli.errors import OK
from duly.cli.output import Column
from duly.cli.parsing import Arguments, Parser, dry_run_option, reason_option, remote_options
from duly.cli.remote import MOST_JOBS
from duly.domain.errors import Invalid, NotFound, Unavailable
from duly.domain.secrets import MARK, MASK
from duly.sdk import calls
from duly.sdk.client import Client
from duly.sdk.job_calls import list_versions
from duly.wire.comparison import Change, between, definition_of
from duly.wire.jobs import JobView

# ---------------------------------------------------------------- export


def configure_export(parser: Parser) -> None:
    """Which jobs."""
    parser.add_argument("job", metavar="JOB", nargs="*", help="names or ids; all that fire or can be run otherwise")
    remote_options(parser)


def export(arguments: Arguments) -> int:
    """Jobs as TOML that `duly apply` reads, or as JSON that the API takes."""
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        if arguments.job:
            jobs = [remote.find_job(client, name) for name in arguments.job]
        else:
            listed = calls.every_page(client.send, lambda cursor: calls.list_jobs(limit=200, cursor=cursor), MOST_JOBS)
            jobs = [job for job in listed if job.state in ("ACTIVE", "PAUSED")]
    plain = [job for job in jobs if not job.steps]
    if out.format in ("json", "jsonl"):
        out.rows([], [definition_of(job) for job in plain], name=str)
    elif plain:
        print(text_of(plain), end="")
    for job in jobs:
        if _masked(job.payload):
            out.say(f"{job.name} has a secret that was masked: put a reference in its place (docs/how-to/secrets.md) before you apply it.")
        if job.steps:
            out.say(f"{job.name} is a workflow, and was left out: duly workflow show {job.name} --json")
        elif job.source is not None:
            out.say(f"{job.name} is declared in code ({job.source}): what is exported here would be taken back by its next start.")
    return OK


def text_of(jobs: Sequence[JobView]) -> str:
    """The jobs as a file of definitions. Raises Invalid for what TOML cannot say."""
    for job in jobs:
        if _has_null(job.payload):
            raise Invalid(
                "DULY-E604", f"The payload of {job.name} has a null, which TOML cannot say.", hint=f"duly job export {job.name} --json"
            )
    return definitions.written([(definition_of(job), job.state == "PAUSED", (job.words,)) for job in jobs])


def _masked(value: Any) -> bool:
    if isinstance(value, dict):
        return value.get(MARK) == MASK or any(map(_masked, value.values()))
    return isinstance(value, list) and any(map(_masked, value))


def _has_null(value: Any, *, inside: bool = False) -> bool:
    if isinstance(value, dict | list):
        return any(_has_null(one, inside=True) for one in (value.values() if isinstance(value, dict) else value))
    return inside and value is None


# ---------------------------------------------------------------- edit


def configure_edit(parser: Parser) -> None:
    """Which job."""
    parser.add_argument("job", metavar="JOB", help="name or id")
    reason_option(parser)
    dry_run_option(parser)
    remote_options(parser)


def edit(arguments: Arguments) -> int:
    """Open the definition in $EDITOR, show what would change, and send it unless somebody else was quicker."""
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        job = remote.find_job(client, arguments.job)
        if job.steps:
            raise Invalid("DULY-E604", f"{job.name} is a workflow.", hint="Change its file, and `duly apply` it.")
        wanted = _edited(text_of([job]), job.name)
        if wanted is None:
            out.say("Nothing was changed.")
            return OK
        intents = apply.plan(client, [wanted])
        if intents[0].live is None or intents[0].live.job_id != job.job_id:
            raise Invalid("DULY-E604", "An edited job keeps its name.", hint="`duly job create` makes another.")
        # What it was when the editor opened: whoever changed it since is not overwritten.
        intents = [one._replace(live=job) for one in intents]
        return apply.carry_out(client, out, intents)


def _edited(text: str, name: str) -> definitions.Definition | None:
    """What a person made of it; None when that is what it was."""
    with tempfile.TemporaryDirectory(prefix="duly-edit-") as directory:
        file = Path(directory) / f"{name if name.replace('-', '').replace('_', '').isalnum() else 'job'}.toml"
        file.write_text(text, encoding="utf-8")
        editor = shlex.split(config.editor())
        try:
            ended = subprocess.run([*editor, str(file)], check=False).returncode
        except OSError as error:
            raise Unavailable("DULY-E604", f"{editor[0]} cannot be started: {error.strerror}.", hint="Set EDITOR.") from error
        if ended != 0:
            raise Invalid("DULY-E604", f"{editor[0]} ended with {ended}; nothing was sent.")
        if file.read_text(encoding="utf-8") == text:
            return None
        [wanted, *others] = definitions.read(file)
    if others:
        raise Invalid("DULY-E604", "One job was opened, and several were written.", hint="`duly apply` takes files of many.")
    return wanted


# ---------------------------------------------------------------- history and diff


def configure_history(parser: Parser) -> None:
    """Which job."""
    parser.add_argument("job", metavar="JOB", help="name or id")
    remote_options(parser)


def history(arguments: Arguments) -> int:
    """Its versions, newest first, with what each changed."""
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        versions = _versions(client, remote.find_job(client, arguments.job))
    rows = [
        {
            "version": new.version,
            "madeAt": new.updated_at,
            "words": new.words,
            "changes": [c._asdict() for c in between(old, new)] if old else [],
        }
        for new, old in zip(versions, [*versions[1:], None], strict=True)
    ]
    out.rows(_HISTORY, rows, name=lambda row: str(row["version"]))
    return OK


def configure_diff(parser: Parser) -> None:
    """Which versions of which job."""
    parser.add_argument("job", metavar="JOB", help="name or id")
    parser.add_argument("old", metavar="OLD", nargs="?", type=int, help="a version; the one before NEW otherwise")
    parser.add_argument("new", metavar="NEW", nargs="?", type=int, help="a version; the current one otherwise")
    remote_options(parser)


def diff(arguments: Arguments) -> int:
    """What one version changed of another, field by field."""
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        job = remote.find_job(client, arguments.job)
        versions = {version.version: version for version in _versions(client, job)}
    new = job.version if arguments.new is None else arguments.new
    old = new - 1 if arguments.old is None else arguments.old
    for wanted in (old, new):
        if wanted not in versions:
            known = ", ".join(map(str, sorted(versions)))
            raise NotFound("DULY-E204", f"{job.name} has no version {wanted} to compare.", hint=f"There are {known}.")
    found = between(versions[old], versions[new])
    out.rows(_DIFF, found, name=lambda change: change.field)
    if not found:
        out.say(f"Versions {old} and {new} say the same.")
    return OK


def _versions(client: Client, job: JobView) -> list[JobView]:
    return client.send(list_versions(job.job_id)).items


def _value(value: Any) -> str:
    return "–" if value is None else msgspec.json.encode(value).decode()


_HISTORY: tuple[Column[dict[str, Any]], ...] = (
    Column("version", lambda row: str(row["version"])),
    Column("made", lambda row: output.relative(row["madeAt"]), lambda row: str(row["madeAt"]), "madeAt"),
    Column("schedule", lambda row: str(row["words"]), None, "words"),
    Column("changed", lambda row: ", ".join(definitions.snake(change["field"]) for change in row["changes"]), None, "changes"),
)
_DIFF: tuple[Column[Change], ...] = (
    Column("field", lambda change: definitions.snake(change.field)),
    Column("before", lambda change: _value(change.before), colour=lambda change: output.RED),
    Column("after", lambda change: _value(change.after), colour=lambda change: output.GREEN),
)
