"""What clients asked for: a cancel stops it (I13), a request repeated is one request (I17), a read is not older than a write (I8)."""

from __future__ import annotations

from typing import Any

from duly.verify.checker.book import Book
from duly.verify.checker.codes import CANCELLED, STATE_NAMES
from duly.verify.checker.index import Index, Run
from duly.verify.checker.lives import Life
from duly.verify.checker.windows import Windows
from duly.verify.checker.words import span
from duly.verify.history import SECOND, Call

_FINAL_NAMES = frozenset(STATE_NAMES[4:])
_Whose = tuple[str, str, str]


def judge(index: Index, lives: dict[str, Life], windows: Windows, book: Book) -> None:
    """Every cancel, pause and delete, every key, every read."""
    final = index.history.final
    end = final.at if final is not None else index.history.ended_at
    for life in lives.values():
        book.look("I13", sum(change.sure for change in (*life.pauses, *life.gone)))
    for call in index.history.calls:
        if call.op == "run.cancel" and call.status == "ok" and not windows.bent:
            for id in call.runs:
                run = index.runs.get(id)
                if run is not None and run.created is not None:
                    _cancel(run, call, lives, windows, end, book)
    _keys(index, book)
    _reads(index, book)


def _cancel(run: Run, call: Call, lives: dict[str, Life], windows: Windows, end: int, book: Book) -> None:
    book.look("I13")
    told = call.ended_at + windows.skew

    def broken(says: str, at: int, *seqs: int) -> None:
        book.broken("I13", f"{run.id} {says}", at=at, job=run.job, run=run.id, seqs=seqs)

    for grant in run.grants:
        if grant.at > told:
            broken(f"was granted {span(grant.at - call.ended_at)} after its cancel was acknowledged", grant.at, grant.seq)
    answered = call.answer.get("state")
    if answered in _FINAL_NAMES and run.ends and STATE_NAMES[run.ends[0].data["state"]] != answered:
        broken(f"was answered as {answered} and ended as {STATE_NAMES[run.ends[0].data['state']]}", run.ends[0].at, run.ends[0].seq)
    over = {event.fence: event.at for event in (*run.attempts, *run.ends)}
    running = any(grant.at <= told and over.get(grant.fence, end) >= call.invoked_at for grant in run.grants)
    if run.ends:
        outcome = run.ends[0]
        if outcome.data["state"] != CANCELLED and outcome.at > told and not running:
            broken(f"waited when it was cancelled and ended as {STATE_NAMES[outcome.data['state']]}", outcome.at, outcome.seq)
        return
    life = lives.get(run.job or "")
    plan = life.plan_of(run.data.get("versionId")) if life is not None else None
    grace = float((plan.body if plan is not None else {}).get("stopGraceSec", 10))
    if windows.deadline(call.ended_at + windows.recovery) + round(grace * SECOND) <= end:
        broken("was cancelled and has not ended", call.ended_at)


def _keys(index: Index, book: Book) -> None:
    """The same key and body: the same answer. The same key and another body: refused. Another tenant's key: another key."""
    first: dict[tuple[str, str], Call] = {}
    owners: dict[str, tuple[str, str]] = {}
    for call in index.history.calls:
        if call.key is None or call.status != "ok":
            continue
        book.look("I17")
        key = (call.tenant, call.key)
        before = first.setdefault(key, call)
        made = _made(call)
        if before is not call:
            if _asked(before) != _asked(call):
                book.broken("I17", f"the key {call.key!r} was taken for two different requests", at=call.ended_at, job=call.job)
            elif _made(before) != made:
                book.broken("I17", f"the key {call.key!r} made {_made(before)} first and {made} then", at=call.ended_at, job=call.job)
        for id in made:
            owner = owners.setdefault(id, key)
            # A run that must be the only one of its kind is answered to whoever asks for another.
            if owner != key and (call.op == "job.create" or owner[0] != call.tenant):
                book.broken(
                    "I17", f"{id} was made under {call.key!r} of {call.tenant} and under another key", at=call.ended_at, job=call.job
                )
    _made_once(index, book)


def _made_once(index: Index, book: Book) -> None:
    """However often a create was sent under one key, it made one job: no more jobs of a name than requests for it."""
    requests: dict[str, set[tuple[str, str | int]]] = {}
    keyed: set[str] = set()
    for number, call in enumerate(index.history.calls):
        if call.op == "job.create" and call.status != "fail" and call.body.get("name"):
            name = str(call.body["name"])
            requests.setdefault(name, set()).add((call.tenant, number if call.key is None else call.key))
            if call.key is not None:
                keyed.add(name)
    made: dict[str, list[str]] = {}
    for job in index.jobs.values():
        if job.created is not None and job.name in keyed:
            made.setdefault(job.name, []).append(job.id)
    for name, ids in made.items():
        if len(ids) > len(requests[name]):
            book.broken("I17", f"{len(requests[name])} requests for {name} made {len(ids)} jobs: {', '.join(ids)}", job=ids[-1])


def _asked(call: Call) -> tuple[Any, ...]:
    return call.op, None if call.op == "job.create" else call.job, call.body


def _made(call: Call) -> list[str]:
    return [call.job] if call.op == "job.create" and call.job is not None else list(call.runs)


def _reads(index: Index, book: Book) -> None:
    """A client reads what it was told: no version older than the one it wrote, no job or run missing that it made."""
    versions: dict[_Whose, tuple[int, int]] = {}
    made: dict[_Whose, int] = {}
    final: dict[str, tuple[int, str]] = {}
    gone = {call.job for call in index.history.calls if call.op == "job.delete"}
    for call in sorted(index.history.calls, key=lambda call: call.ended_at):
        for id in [*([call.job] if call.job else []), *call.runs]:
            key = (call.tenant, call.client, id)
            if call.op in ("job.read", "run.read"):
                _read(call, id, key, versions, made, final, id in gone, book)
            elif call.status == "ok":
                made.setdefault(key, call.ended_at)
        version = call.answer.get("version")
        if call.status == "ok" and call.op in ("job.create", "job.update") and call.job and isinstance(version, int):
            key = (call.tenant, call.client, call.job)
            versions[key] = max(versions.get(key, (0, 0)), (version, call.ended_at))


def _read(
    call: Call,
    id: str,
    key: _Whose,
    versions: dict[_Whose, tuple[int, int]],
    made: dict[_Whose, int],
    final: dict[str, tuple[int, str]],
    gone: bool,
    book: Book,
) -> None:
    book.look("I8")
    if call.status == "ok":
        version, told_at = versions.get(key, (0, 0))
        read = call.answer.get("version")
        if id == call.job and isinstance(read, int) and told_at <= call.invoked_at and read < version:
            book.broken("I8", f"{call.client} read version {read} of {id} after it had written {version}", at=call.ended_at, job=id)
        state = call.answer.get("state")
        if call.op == "run.read":
            at, known = final.get(id, (0, ""))
            if known and at <= call.invoked_at and state != known:
                book.broken("I8", f"{id} was read as {state} after it had been read as {known}", at=call.ended_at, run=id)
            if state in _FINAL_NAMES:
                final.setdefault(id, (call.ended_at, state))
    elif call.status == "fail" and call.answer.get("status") == 404 and key in made and made[key] <= call.invoked_at and not gone:
        book.broken("I8", f"{call.client} was told of {id} and then that there is none", at=call.ended_at, job=call.job)
