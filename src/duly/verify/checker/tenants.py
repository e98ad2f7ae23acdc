"""I16: what belongs to one tenant names that tenant only, and no other is answered about it."""

from __future__ import annotations

from duly.verify.checker.book import Book
from duly.verify.checker.index import Index


def judge(index: Index, book: Book) -> None:
    """Every job and run by its tag, every call by whom it names."""
    for run in index.runs.values():
        job = index.jobs.get(run.job or "")
        if run.created is None or job is None or job.created is None:
            continue
        book.look("I16")
        whose = job.created.tenant
        for event in run.events:
            if event.tenant is not None and event.tenant != whose:
                says = f"{run.id} of tenant {whose} is recorded under tenant {event.tenant}"
                book.broken("I16", says, at=event.at, job=job.id, run=run.id, seqs=(event.seq,))
                break
    owners: dict[str, str] = {}
    for call in index.history.calls:
        if call.op == "job.create" and call.status == "ok" and call.job is not None:
            owners.setdefault(call.job, call.tenant)
    numbers: dict[str, int] = {}
    for id, name in owners.items():
        created = index.jobs[id].created
        if created is not None and created.tenant is not None and numbers.setdefault(name, created.tenant) != created.tenant:
            book.broken("I16", f"{id} of {name} was created under tenant {created.tenant}", at=created.at, job=id, seqs=(created.seq,))
    if len(set(numbers.values())) < len(numbers):
        book.broken("I16", f"two tenants share one number: {numbers}")
    for call in index.history.calls:
        whom = call.job
        if whom is None and call.runs:
            named = index.runs.get(call.runs[0])
            whom = None if named is None else named.job
        if whom is None or call.status != "ok" or whom not in owners:
            continue
        book.look("I16")
        if owners[whom] != call.tenant:
            book.broken("I16", f"{call.tenant} was answered about {whom} of {owners[whom]} ({call.op})", at=call.ended_at, job=whom)
