"""`duly import crontab|systemd|celery|… FILE`: look first, then `--apply`, or `-o jobs.toml` for `duly apply`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from duly.cli import apply, definitions, output, remote, sources
from duly.cli.asking import demand, yes_option
from duly.cli.errors import FAILURE, OK, PARTLY_DONE
from duly.cli.output import BOLD, GREEN, GREY, RED, YELLOW, Column, paint
from duly.cli.parsing import Arguments, Command, Group, Parser, connection_options, count
from duly.domain.errors import Invalid
from duly.domain.imports.draft import Draft, with_names_apart
from duly.usecases.imports import DAYS, Preview, preview

FORMATS = ("table", "json", "jsonl", "tsv", "name")
# So many fires that differ are printed for each job; --json has all of them.
MOST_SHOWN = 6
MOST_NAMED = 10
Reader = Callable[[Any, str], list[Draft]]


def _configure(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="+", help="what to read; - is standard input")
    parser.add_argument("--tz", metavar="ZONE", help="the zone of the old system, where it does not say one itself (this machine's)")
    parser.add_argument("--pool", help="the pool whose workers run what is imported (default)")
    parser.add_argument("--prefix", metavar="TEXT", default="", help="stands before every name")
    parser.add_argument("--only", metavar="NAME", action="append", help="only this one; may be given several times")
    parser.add_argument(
        "--accept", metavar="KEY", action="append", default=[], help="answer a decision that the preview names; all answers every one"
    )
    parser.add_argument("--allow-shell", action="store_true", help="the same as --accept shell: commands may run in a shell")
    parser.add_argument("--days", metavar="N", type=count, default=DAYS, help=f"over how many days fires are compared ({DAYS})")
    parser.add_argument("--apply", action="store_true", help="make the jobs; those that exist are changed to what is imported")
    yes_option(parser)
    parser.add_argument(
        "-o", "--output", metavar="FORMAT|FILE.toml", help="table, json, jsonl, tsv or name; or a file to write for `duly apply`"
    )
    parser.add_argument("--json", action="store_const", const="json", dest="output", help="the same as -o json")
    parser.add_argument("-q", "--quiet", action="store_true", help="no remarks on standard error")
    parser.add_argument("--no-color", action="store_true", help="no colours; NO_COLOR does the same")
    connection_options(parser)


def _configure_crontab(parser: Parser) -> None:
    _configure(parser)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--system", action="store_true", default=None, dest="has_users", help="lines have a user after the time, as in /etc/crontab"
    )
    kind.add_argument("--user-crontab", action="store_false", default=None, dest="has_users", help="they have none, as in `crontab -l`")


def _configure_github(parser: Parser) -> None:
    _configure(parser)
    parser.add_argument("--repository", metavar="OWNER/NAME", help="whose workflow it is")
    parser.add_argument("--ref", default="main", help="the branch on which it runs (main)")


def _importing(reader: Reader, sought: str) -> Callable[[Arguments], int]:
    def run(arguments: Arguments) -> int:
        return _import(arguments, reader, sought)

    return run


def _import(arguments: Arguments, reader: Reader, sought: str) -> int:
    file = arguments.output if arguments.output not in (None, *FORMATS) else None
    if file is not None and not file.endswith(".toml"):
        raise Invalid("DULY-E604", f"{file!r} is neither a format nor a .toml file.", hint=f"Formats are {', '.join(FORMATS)}.")
    out = output.Output(None if file else arguments.output, quiet=arguments.quiet, no_color=arguments.no_color)
    accepted = {*arguments.accept, *(["shell"] if arguments.allow_shell else [])}
    drafts = with_names_apart(reader(arguments, arguments.tz or sources.machine_zone()), arguments.prefix)
    previews = file is None and not arguments.apply
    if not drafts:
        return _nothing(out, previews, f"Nothing to import in {', '.join(arguments.file)}: no {sought} in it.")
    if arguments.only:
        known = ", ".join(draft.name for draft in drafts[:MOST_NAMED]) + (" …" if len(drafts) > MOST_NAMED else "")
        drafts = [draft for draft in drafts if draft.name in arguments.only]
        if not drafts:
            return _nothing(out, previews, f"Nothing is called {', '.join(arguments.only)}: there are {known}.")
    found = preview(drafts, output.now(), arguments.days)
    ready = [one for one in found if one.cannot is None and not one.draft.undecided(accepted)]
    if file is not None:
        _write(Path(file), ready)
        _say_what_is_left(out, found, ready, accepted)
        out.say(f"{len(ready)} jobs are in {file}: duly plan {file}, then duly apply {file}")
        return OK if len(ready) == len(found) else PARTLY_DONE
    if not arguments.apply:
        _show(out, found, accepted)
        return OK
    wanted = [definitions.definition({**(one.draft.body or {}), "paused": one.draft.paused}, "import") for one in ready]
    with remote.connect(arguments) as client:
        intents = apply.plan(client, wanted)
        touched = [one for one in intents if one.verb != "unchanged"]
        if touched and not arguments.withhold:
            demand(arguments, f"create or change {len(touched)} jobs?")
        code = apply.carry_out(client, out, intents)
    _say_what_is_left(out, found, ready, accepted)
    return code if code != OK or len(ready) == len(found) else PARTLY_DONE


def _nothing(out: output.Output, previews: bool, why: str) -> int:
    """An import that finds nothing is no success: mostly it is the wrong file, or the wrong kind of import."""
    if previews and not out.is_for_people:
        out.rows(_COLUMNS, [], name=lambda row: str(row["name"]))
    out.say(f"{paint('!', YELLOW, sys.stderr)} {why} Nothing was changed.")
    return FAILURE


def _write(path: Path, ready: Sequence[Preview]) -> None:
    """The whole file, or nothing of it."""
    jobs = [(one.draft.body or {}, one.draft.paused, (f"{one.draft.where}: {one.draft.source}", *one.draft.notes)) for one in ready]
    text = definitions.written(jobs)
    beside = path.with_name(f"{path.name}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise Invalid("DULY-E604", f"{path} cannot be written: {error.strerror}.") from error


def _say_what_is_left(out: output.Output, found: Sequence[Preview], ready: Sequence[Preview], accepted: set[str]) -> None:
    for one in found:
        if one in ready:
            continue
        why = one.cannot or " ".join(f"[{left.key}] {left.question}" for left in one.draft.undecided(accepted))
        out.say(f"{paint('!', YELLOW, sys.stderr)} not imported: {one.draft.name} ({one.draft.where}): {why}")


# ---------------------------------------------------------------- the preview


def _show(out: output.Output, found: Sequence[Preview], accepted: set[str]) -> None:
    if not out.is_for_people:
        out.rows(_COLUMNS, [_row(one, accepted) for one in found], name=lambda row: str(row["name"]))
        return
    shared = _said_of_all(found)
    for one in found:
        _print(one, accepted, shared)
    if shared:
        print("\nAll of them:", *(f"  {paint(note, GREY)}" for note in shared), sep="\n")
    verdicts = [_verdict(one, accepted) for one in found]
    fine, open_ = verdicts.count("converts"), verdicts.count("decide")
    out.say(
        f"\n{fine} {'converts' if fine == 1 else 'convert'}, {open_} {'needs' if open_ == 1 else 'need'} a decision, "
        f"{verdicts.count('cannot')} cannot. Nothing was changed; --apply makes the jobs, -o jobs.toml writes them."
    )


def _said_of_all(found: Sequence[Preview]) -> list[str]:
    """The notes that every entry which can be a job has: of many entries they are said once."""
    noted = [one.draft.notes for one in found if one.cannot is None]
    return [note for note in noted[0] if all(note in notes for notes in noted)] if len(noted) > 2 else []


def _verdict(one: Preview, accepted: set[str]) -> str:
    if one.cannot is not None:
        return "cannot"
    return "decide" if one.draft.undecided(accepted) else "converts"


_MARKS = {"converts": ("✓", GREEN), "decide": ("?", YELLOW), "cannot": ("✗", RED)}


def _print(one: Preview, accepted: set[str], shared: Sequence[str]) -> None:
    draft = one.draft
    mark, colour = _MARKS[_verdict(one, accepted)]
    print(f"{paint(mark, colour)} {paint(draft.name, BOLD)}  {paint(f'{draft.where}: {_short(draft.source)}', GREY)}")
    if one.cannot is not None:
        print(f"    cannot: {one.cannot}")
        return
    print(f"    {one.words}{' (made paused)' if draft.paused else ''}")
    for left in draft.undecided(accepted):
        print(f"    {paint('decide', YELLOW)} [{left.key}] {left.question}")
    for note in draft.notes:
        if note in shared:
            continue
        print(f"    {paint(note, GREY)}")
    difference = one.difference
    assert difference is not None
    if difference.is_none:
        print(f"    {one.days} days: {difference.same:,} fires, the same in both.")
        return
    before, now = len(difference.only_old), len(difference.only_new)
    print(f"    {one.days} days: {difference.same:,} fires are the same; {before} only before, {now} only now")
    for sign, seconds in (("-", difference.only_old), ("+", difference.only_new)):
        for second in seconds[:MOST_SHOWN]:
            print(f"      {sign} {_utc(second)}")
        if len(seconds) > MOST_SHOWN:
            print(f"      {sign} … and {len(seconds) - MOST_SHOWN} more (--json has all)")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 90 else line[:89] + "…"


def _row(one: Preview, accepted: set[str]) -> dict[str, Any]:
    difference = one.difference
    return {
        "name": one.draft.name,
        "verdict": _verdict(one, accepted),
        "where": one.draft.where,
        "source": one.draft.source,
        "words": one.words,
        "job": one.draft.body,
        "paused": one.draft.paused,
        "decisions": [{"key": left.key, "question": left.question} for left in one.draft.undecided(accepted)],
        "notes": list(one.draft.notes),
        "cannot": one.cannot,
        "days": one.days,
        "same_fires": None if difference is None else difference.same,
        "only_old": None if difference is None else [_utc(second) for second in difference.only_old],
        "only_new": None if difference is None else [_utc(second) for second in difference.only_new],
    }


def _utc(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat().replace("+00:00", "Z")


_COLUMNS = (
    Column[dict[str, Any]]("verdict", lambda row: row["verdict"]),
    Column[dict[str, Any]]("name", lambda row: row["name"]),
    Column[dict[str, Any]]("words", lambda row: row["words"] or ""),
    Column[dict[str, Any]]("why", lambda row: row["cannot"] or " ".join(one["key"] for one in row["decisions"])),
    Column[dict[str, Any]]("same", lambda row: "" if row["same_fires"] is None else str(row["same_fires"])),
    Column[dict[str, Any]]("differ", lambda row: "" if row["only_old"] is None else str(len(row["only_old"]) + len(row["only_new"]))),
)


def _command(name: str, summary: str, reader: Reader, sought: str, configure: Callable[[Parser], None] = _configure) -> Command:
    return Command(summary, configure, _importing(reader, sought), f"duly import {name}", changes=True)


COMMANDS = {
    "import": Group(
        "Bring schedules from elsewhere: what converts, what needs a decision, what cannot, and every fire compared. Nothing is run.",
        "duly import",
        {
            "crontab": _command(
                "crontab",
                "crontabs of users and of the system",
                sources.from_crontab,
                "line with a time and a command, such as `30 2 * * * backup`,",
                _configure_crontab,
            ),
            "systemd": _command("systemd", "timers and their services, by file or directory", sources.from_systemd, "*.timer"),
            "celery": _command(
                "celery",
                "a beat_schedule in Python, which is read and not run",
                sources.from_celery,
                "beat_schedule = {…} and no add_periodic_task(…)",
            ),
            "apscheduler": _command(
                "apscheduler",
                "add_job and scheduled_job in Python, read and not run",
                sources.from_apscheduler,
                "add_job(…) and no @scheduled_job(…)",
            ),
            "github": _command("github", "on.schedule of GitHub Actions", sources.from_github, "on.schedule", _configure_github),
            "kubernetes": _command("kubernetes", "CronJobs, as YAML or JSON", sources.from_kubernetes, "document of kind CronJob"),
        },
    )
}
