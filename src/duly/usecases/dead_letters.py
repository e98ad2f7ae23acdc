"""Dead letters: look at them by their causes, run them again, or put them away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from duly.domain.access import Actor
from duly.domain.audit import on_execution
from duly.domain.bulk import is_waiting_retry
from duly.domain.causes import Cause, cause_of
from duly.domain.errors import Conflict
from duly.domain.execution import Execution, NewExecution
from duly.domain.ids import ExecutionId, JobId, execution_text
from duly.domain.instants import SECOND, Instant, Micros, to_rfc3339
from duly.domain.lifecycle import State
from duly.ports.clock import Clock
from duly.ports.letters import Letter, Letters, Settling
from duly.ports.store import Idempotency
from duly.ports.transport import Transport
from duly.usecases.executions import Executions

PAGE = 1000
# Past so many letters, settled ones and those of others included, or after so long, one call looks no further, and says so.
MOST_LETTERS = 100_000
PATIENCE: Micros = SECOND


@dataclass(slots=True)
class Group:
    """Open dead letters of one job that died of the same: how many, when, and the newest as a sample."""

    cause: Cause
    job_id: JobId
    job_name: str
    count: int
    first: Instant
    last: Instant
    sample: ExecutionId


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups, largest first; `complete` False: there are more letters than were counted."""

    groups: list[Group]
    letters: int
    complete: bool


class DeadLetters:
    """The use cases on executions that have died."""

    def __init__(self, letters: Letters, executions: Executions, clock: Clock, transport: Transport) -> None:
        self._letters = letters
        self._executions = executions
        self._clock = clock
        self._transport = transport

    async def groups(self, actor: Actor, job_id: JobId | None, cause: str | None) -> Groups:
        """Open dead letters by their causes."""
        found: dict[str, Group] = {}
        walk = _Walk(self._letters, actor.tenant, job_id, None, self._clock)
        async for letter in walk:
            theirs = cause_of_letter(letter)
            if cause is not None and theirs.key != cause:
                continue
            group = found.get(theirs.key)
            if group is None:
                # The newest comes first.
                found[theirs.key] = Group(theirs, letter.job_id, letter.job_name, 1, letter.died_at, letter.died_at, letter.id)
                continue
            group.count += 1
            group.first, group.last = min(group.first, letter.died_at), max(group.last, letter.died_at)
        groups = sorted(found.values(), key=lambda group: (-group.count, -group.last, group.cause.key))
        return Groups(groups, sum(group.count for group in groups), walk.reached is None)

    async def find(
        self, actor: Actor, job_id: JobId | None, cause: str | None, before: ExecutionId | None, limit: int
    ) -> tuple[list[Letter], ExecutionId | None]:
        """At most `limit` single open dead letters, newest first, and where to go on; None: these are the last."""
        found: list[Letter] = []
        walk = _Walk(self._letters, actor.tenant, job_id, before, self._clock)
        async for letter in walk:
            if cause is not None and cause_of_letter(letter).key != cause:
                continue
            if len(found) == limit:
                return found, found[-1].id
            found.append(letter)
        return found, walk.reached

    async def replay(self, actor: Actor, id: ExecutionId, payload: str | None, idempotency: Idempotency | None = None) -> NewExecution:
        """Run a final execution again, as a new one; a dead letter is settled by it.

        Without an idempotency key both are one transaction. With one, a repeated call makes up for what a crash left out.
        """
        now = self._clock.now()
        if idempotency is not None:
            new = await self._executions.replay(actor, id, payload, idempotency)
            deed = on_execution(actor, now, "execution.settle", id, new.job_id, after={"replayedAs": execution_text(new.id)})
            await self._letters.settle([id], Settling.REPLAYED, actor.key_id, now, new.id, deed=deed)
            return new
        new = await self._executions.replay_of(actor, id, payload)
        deed = on_execution(actor, now, "execution.replay", id, new.job_id)
        if not await self._letters.replay([(id, new)], actor.key_id, now, deed=deed):
            # It was replayed or discarded before: somebody wants it once more.
            return await self._executions.replay(actor, id, payload)
        await self._executions.hint([new], now)
        return new

    async def discard(self, actor: Actor, id: ExecutionId) -> Execution:
        """Put a dead letter away; its history stays. Discarding what is settled already changes nothing."""
        letter = await self._executions.show(actor, id)
        if letter.state is not State.DEAD:
            message = f"{execution_text(id)} is {letter.state.name}."
            raise Conflict("DULY-E232", message, field="executionId", hint="Only a dead letter can be discarded.")
        now = self._clock.now()
        was, after = {"state": letter.state.name}, {"discardedAt": to_rfc3339(now)}
        deed = on_execution(actor, now, "execution.discard", id, letter.job_id, before=was, after=after)
        await self._letters.settle([id], Settling.DISCARDED, actor.key_id, now, deed=deed)
        return await self._executions.show(actor, id)

    async def retry(self, actor: Actor, id: ExecutionId, idempotency: Idempotency | None = None) -> Execution:
        """A retry that waits runs now; a dead letter is replayed, with an idempotency key once. Answers the execution that runs."""
        before = await self._executions.show(actor, id)
        if before.state is State.DEAD:
            new = await self.replay(actor, id, None, idempotency)
            return await self._executions.show(actor, new.id)
        now = self._clock.now()
        was = {} if before.next_attempt_at is None else {"nextAttemptAt": to_rfc3339(before.next_attempt_at)}
        deed = on_execution(actor, now, "execution.retry", id, before.job_id, before=was, after={"nextAttemptAt": to_rfc3339(now)})
        hastened = await self._letters.hasten(actor.tenant, [id], now, deed=deed)
        after = await self._executions.show(actor, id)
        if hastened:
            await self._transport.announce_due(now)
        elif not is_waiting_retry(before.state, before.last_outcome):
            raise Conflict(
                "DULY-E231",
                f"{execution_text(id)} is {before.state.name}.",
                field="executionId",
                hint="Only a retry that waits, or a dead letter, can be retried; `replay` runs any final execution again.",
            )
        return after


class _Walk:
    """Along the open letters, newest first, for as long as one call may take. `reached` says where it stopped; None: at the end."""

    def __init__(self, letters: Letters, tenant: int, job_id: JobId | None, before: ExecutionId | None, clock: Clock) -> None:
        self._letters = letters
        self._tenant = tenant
        self._job_id = job_id
        self._clock = clock
        self.reached = before

    async def __aiter__(self) -> AsyncIterator[Letter]:
        until = self._clock.boottime() + PATIENCE
        for _ in range(MOST_LETTERS // PAGE):
            page, self.reached = await self._letters.open_letters(self._tenant, self._job_id, self.reached, PAGE)
            for letter in page:
                yield letter
            if self.reached is None or self._clock.boottime() > until:
                return


def cause_of_letter(letter: Letter) -> Cause:
    """The group that it belongs to."""
    return cause_of(letter.job_id, letter.error.get("type"), letter.error.get("message"))
