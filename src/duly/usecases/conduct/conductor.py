"""Conducting runs of workflows: who comes next, when a step has ended.

It is called right after the end of a step is committed, by whoever committed it, and again by the conductor's rounds for what was lost in
between. Both look by a snapshot that is younger than the end, decide by `domain.workflow.advance`, and make steps whose ids are computed:
so of two parents that end side by side at least one sees both ends, and a step that both of them make is made once.

What one end of a step can lead to is narrow, and so is what is read for it: its children, and their parents. Only where a path is skipped
or nothing follows is the whole run looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from json import dumps
from typing import Any

from duly.domain.audit import Deed
from duly.domain.errors import Unavailable
from duly.domain.execution import Finished
from duly.domain.ids import ExecutionId, execution_text
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.lifecycle import State
from duly.domain.workflow.advance import End, Graph, Move, advance, ending, judge, leaves
from duly.domain.workflow.ids import item_id, item_ids, one_of_each, step_id
from duly.domain.workflow.inputs import REFERENCE
from duly.domain.workflow.step import OnTimeout, Step
from duly.ports.clock import Clock
from duly.ports.flows import BY_SIGNAL, Flow, Flows, Placed, Wait
from duly.ports.store import Cancels, Definitions
from duly.ports.transport import Transport
from duly.usecases.conduct.maker import AT_ONCE, FIRST_LOOK, Maker, parts_of
from duly.usecases.conduct.reader import Plan, Reader, decoded, end_of
from duly.usecases.quotas import Directory

log = logging.getLogger("duly.workflows")

# Runs within runs.
DEEPEST = 8
# However a run is built, one hand-over comes to an end; the next look goes on.
MOST_ROUNDS = 10_000
# What a run or a mapped step keeps of its results; a longer list is left with its items.
LARGEST_RESULT = 1 << 20
MOST_HINTS = 10_000
# What runs when its run is cancelled may take so long to stop.
STOP_GRACE: Micros = 10 * SECOND


@dataclass(slots=True)
class _Round:
    """What is still to be looked at: steps that ended, by their run; runs as a whole; mapped steps with their items."""

    ended: dict[ExecutionId, tuple[Flow, dict[int, End | None]]] = field(default_factory=dict)
    whole: dict[ExecutionId, Flow] = field(default_factory=dict)
    items: dict[ExecutionId, Flow] = field(default_factory=dict)
    # Whether steps that should have been made are looked for, also where nothing has ended.
    is_thorough: bool = False

    def note(self, flow: Flow) -> None:
        """Look at a flow as a whole."""
        (self.whole if flow.width is None else self.items)[flow.run] = flow


class Conductor:
    """Hands over from steps that have ended to those that come after them."""

    def __init__(
        self, flows: Flows, definitions: Definitions, cancels: Cancels, quotas: Directory, transport: Transport, clock: Clock
    ) -> None:
        self._flows = flows
        self._cancels = cancels
        self._transport = transport
        self._clock = clock
        self.reader = Reader(flows, definitions, quotas, clock)
        self._maker = Maker(flows, definitions, self.reader, transport, clock)
        # Hints of where to begin looking, never the truth: up to which item of a mapped step all have ended, and who of a run was live.
        self._reached: dict[ExecutionId, int] = {}
        self._live: dict[ExecutionId, ExecutionId] = {}
        self._groups: dict[ExecutionId, tuple[ExecutionId, int]] = {}

    # ------------------------------------------------------------ who calls

    async def hand_over(self, ids: Iterable[ExecutionId], known: Mapping[ExecutionId, Finished] | None = None) -> None:
        """These executions have ended, and it is committed. `known` are ends that the caller has written and need not be read again.

        It follows a commit whose answer must not be taken back: should the store be away by now, the rounds find it.
        """
        try:
            await self._follow(await self._flows.placed(one_of_each(ids)), known or {})
        except Unavailable as error:
            log.warning("a hand-over is left to the conductor: %s", error)

    async def begin(self, now: Instant, limit: int) -> int:
        """Runs whose turn has come begin; steps that have waited for their time are handed over."""
        taken = await self._flows.take(now, now + FIRST_LOOK, limit)
        for one in taken:
            if one.is_run and (flow := await self._flows.flow(one.id)) is not None:
                await self._begin(flow)
        waited = [one.id for one in taken if not one.is_run]
        if waited:
            await self.hand_over(waited)
        return len(taken)

    async def look(self, now: Instant, limit: int) -> int:
        """What may have been lost: flows that nobody has looked at for a while, as a whole; and waits that are over."""
        runs = await self._flows.overdue(now, limit)
        for run in runs:
            await self.look_at(run)
        waits = await self._flows.overdue_waits(now, limit)
        for wait in waits:
            await self._time_out(wait)
        return len(runs) + len(waits)

    async def look_at(self, run: ExecutionId) -> None:
        """One flow as a whole: whatever should be there by now is made."""
        flow = await self._flows.flow(run)
        if flow is not None:
            todo = _Round(is_thorough=True)
            todo.note(flow)
            await self._go_on(todo)

    # ------------------------------------------------------------ going on

    async def _follow(self, placed: Sequence[Placed], known: Mapping[ExecutionId, Finished]) -> None:
        todo = _Round()
        for one in placed:
            if one.flow.width is not None:
                todo.note(one.flow)
            else:
                finished = known.get(one.id)
                end = None if finished is None else End(finished.state, result=decoded(finished.result))
                todo.ended.setdefault(one.flow.run, (one.flow, {}))[1][one.place] = end
        await self._go_on(todo)

    async def _go_on(self, todo: _Round) -> None:
        """Until nothing follows any more. A run that ends may itself be a step of another."""
        for _ in range(MOST_ROUNDS):
            if todo.items:
                _, flow = todo.items.popitem()
                await self._look_at_items(flow, todo)
            elif todo.ended:
                _, (flow, ended) = todo.ended.popitem()
                if flow.is_cancelled or flow.is_paused or not await self._narrow(flow, ended):
                    todo.note(flow)
            elif todo.whole:
                _, flow = todo.whole.popitem()
                await self._look_at_whole(flow, todo)
            else:
                return

    async def _narrow(self, flow: Flow, ended: dict[int, End | None]) -> bool:
        """The children of what ended, by their parents alone. False: that does not say enough."""
        plan = await self.reader.plan(flow.job_version)
        graph = plan.graph
        names = {graph.steps[place].name: end for place, end in ended.items()}
        children = list(dict.fromkeys(child for name in names for child in graph.children[name]))
        if not children:
            # Nothing comes after it: the run is over only if nobody else is under way.
            return await self._somebody_is_live(flow.run)
        ends = {name: end for name, end in names.items() if end is not None}
        unknown = {parent for child in children for parent in graph.by_name[child].parents} - ends.keys()
        if unknown:
            ends |= await self.reader.ends(flow, graph, unknown)
        await self.reader.fill_in(flow, graph, children, ends)
        payload = await self.reader.payload(flow, plan, children)
        ready: list[Step] = []
        for child in children:
            move, _ = judge(graph.by_name[child], ends, decoded(payload))
            if move is Move.SKIP:
                return False
            if move is Move.RUN:
                ready.append(graph.by_name[child])
        if not ready:
            return await self._somebody_is_live(flow.run)
        return bool(await self._make(flow, plan, ready, ends, payload))

    async def _somebody_is_live(self, run: ExecutionId) -> bool:
        """Whether a step of the run is under way, whose end will be handed over. Who was live at the last look is asked first."""
        hint = self._live.get(run)
        if hint is not None and (end := (await self._flows.ends([hint])).get(hint)) is not None and end.state is None:
            return True
        live = await self._flows.live_steps(run, 1)
        if live:
            if len(self._live) > MOST_HINTS:
                self._live.clear()
            self._live[run] = live[0]
        else:
            self._live.pop(run, None)
        return bool(live)

    async def _make(self, flow: Flow, plan: Plan, steps: Sequence[Step], ends: Mapping[str, End], payload: str | None) -> int:
        made = await self._maker.make(flow, plan, steps, ends, payload)
        if any(step.signal is not None for step in steps):
            await self.hear(flow.run)
        if made.over:
            await self.hand_over(made.over)
        empty = [step for step in steps if step.map is not None and not _has_items(ends.get(step.map))]
        for step in empty:
            # A list without items: nobody's end will be handed over.
            await self.hand_over([step_id(flow.run, plan.graph.place[step.name])])
            await self.look_at(step_id(flow.run, plan.graph.place[step.name]))
        if any(step.workflow is not None for step in steps):
            await self.hand_over([step_id(flow.run, plan.graph.place[step.name]) for step in steps if step.workflow is not None])
        # The wish may have been committed while we made them: of the two, whoever wrote second sees the other. Whoever cancelled may have
        # found nothing live and ended the run: then these belong to nobody.
        after = await self._flows.flow(flow.run)
        if after is None or after.is_cancelled:
            await self._cancel_live((after or flow)._replace(is_cancelled=True))
        return made.new

    async def _look_at_whole(self, flow: Flow, todo: _Round) -> None:
        if flow.is_cancelled:
            await self._stop(flow, todo)
            return
        plan = await self.reader.plan(flow.job_version)
        graph = plan.graph
        ids = {step_id(flow.run, place): step.name for place, step in enumerate(graph.steps)}
        there = await self._flows.ends(list(ids))
        ends = {ids[id]: end_of(one.state, one.error) for id, one in there.items() if one.state is not None}
        live = {ids[id] for id, one in there.items() if one.state is None}
        waiting = [step.name for step in graph.steps if step.name not in ends]
        await self.reader.fill_in(flow, graph, waiting, ends)
        payload = await self.reader.payload(flow, plan, waiting)
        found = advance(graph, ends, decoded(payload))
        skipped = {name: because for name, because in found.skipped.items() if name not in live}
        ready = [graph.by_name[name] for name in found.ready if name not in live]
        if flow.is_paused and (skipped or ready):
            return
        if skipped:
            await self._maker.skip(flow, plan, skipped)
        if ready:
            await self._make(flow, plan, ready, ends, payload)
        if todo.is_thorough:
            for id, name in ids.items():
                if name in live and (inner := await self._flows.flow(id)) is not None:
                    todo.note(inner)
        if found.is_over:
            ends |= {name: End(State.SKIPPED, because) for name, because in found.skipped.items()}
            await self._end(flow, plan, ends, todo)

    async def _look_at_items(self, flow: Flow, todo: _Round) -> None:
        """Whether all items of a mapped step have ended: along their ids, from where the last look came to, up to the first gap."""
        assert flow.width is not None
        run, place = await self._whose(flow.run)
        if await self._reach(flow, run, place) < flow.width:
            if not flow.is_cancelled:
                if todo.is_thorough:
                    await self._make_missing_items(flow, run, place)
                return
            if await self._cancel_live(flow):
                return
        state, result, error = await self._of_items(flow, run, place)
        self._reached.pop(flow.run, None)
        self._groups.pop(flow.run, None)
        if await self._flows.finish(flow.run, state, result, error, self._clock.now()):
            await self._up(flow, state, todo, result)

    async def _whose(self, group: ExecutionId) -> tuple[ExecutionId, int]:
        """The run and the place of a mapped step. It never changes, so it is read once."""
        if group not in self._groups:
            header = await self._flows.header(group)
            assert header.run is not None
            assert header.place is not None
            if len(self._groups) > MOST_HINTS:
                self._groups.clear()
            self._groups[group] = (header.run, header.place)
        return self._groups[group]

    async def _reach(self, flow: Flow, run: ExecutionId, place: int) -> int:
        """How many items have ended before the first that has not."""
        assert flow.width is not None
        reached = began = self._reached.get(flow.run, 0)
        while reached < flow.width:
            first, last = (item_id(run, place, nth) for nth in (reached, flow.width - 1))
            # Most often the first of them is still under way, and one probe says so.
            found = await self._flows.ended_between(first, last, 1 if reached == began else AT_ONCE)
            walked = next((nth for nth, (id, _) in enumerate(found) if id.int != first.int + nth), len(found))
            reached += walked
            if not walked or walked < len(found):
                break
        if len(self._reached) > MOST_HINTS:
            self._reached.clear()
        self._reached[flow.run] = reached
        return reached

    async def _of_items(self, flow: Flow, run: ExecutionId, place: int) -> tuple[State, str | None, str | None]:
        """What a mapped step comes to: all of its items, in their order."""
        assert flow.width is not None
        texts: list[str] = []
        failed = 0
        for part in parts_of(item_ids(run, place, 0, flow.width)):
            ends, results = await self._flows.ends(part), await self._flows.results(part)
            failed += sum(id not in ends or ends[id].state is not State.SUCCEEDED for id in part)
            texts += [results.get(id) or "null" for id in part]
        if flow.is_cancelled:
            return State.CANCELLED, None, dumps({"reason": "cancelled"})
        text = f"[{','.join(texts)}]"
        result = text if len(text) <= LARGEST_RESULT else dumps({REFERENCE: execution_text(flow.run), "items": flow.width})
        if failed:
            return State.DEAD, result, dumps({"type": "ItemsFailed", "message": f"{failed:,} of {flow.width:,} items failed"})
        return State.SUCCEEDED, result, None

    async def _make_missing_items(self, flow: Flow, run: ExecutionId, place: int) -> None:
        """A crash between a mapped step and its items: whoever finds it makes them."""
        assert flow.width is not None
        for part in parts_of(item_ids(run, place, 0, flow.width)):
            up = await self._flows.flow(run) if len(await self._flows.ends(part)) < len(part) else None
            if up is not None and not up.is_cancelled:
                plan = await self.reader.plan(up.job_version)
                step = plan.graph.steps[place]
                ends = await self.reader.ends(up, plan.graph, step.parents)
                await self.reader.fill_in(up, plan.graph, [step.name], ends)
                await self._maker.make(up, plan, [step], ends, await self.reader.payload(up, plan, [step.name]))
                return

    async def _up(self, flow: Flow, state: State, todo: _Round, result: str | None = None) -> None:
        """A flow that has ended is a step of another, perhaps."""
        for one in await self._flows.placed([flow.run]):
            end = End(state, result=decoded(result)) if state is State.SUCCEEDED else None
            todo.ended.setdefault(one.flow.run, (one.flow, {}))[1][one.place] = end

    # ------------------------------------------------------------ beginning and ending

    async def _begin(self, flow: Flow) -> None:
        plan = await self.reader.plan(flow.job_version)
        todo = _Round()
        if flow.depth > DEEPEST:
            error = dumps({"type": "WorkflowError", "message": f"runs are nested more than {DEEPEST} deep"})
            await self._flows.finish(flow.run, State.DEAD, None, error, self._clock.now())
            await self._up(flow, State.DEAD, todo)
        else:
            seed = await self._flows.seed_of(flow.run)
            if seed is not None:
                await self._maker.take_over(flow, plan, *seed)
            todo.note(flow)
        await self._go_on(todo)

    async def _end(self, flow: Flow, plan: Plan, ends: Mapping[str, End], todo: _Round) -> None:
        """Every step has ended, and so does the run."""
        how = ending(plan.graph, ends)
        result = error = None
        if how.state is State.SUCCEEDED:
            result = await self._result_of(flow, plan.graph, ends)
        else:
            first = how.failed[0]
            told = f"{len(how.failed)} steps failed, the first of them {first}" if len(how.failed) > 1 else f"the step {first} failed"
            error = dumps({"type": "StepFailed", "message": told, "steps": list(how.failed[:20])})
        self._live.pop(flow.run, None)
        if await self._flows.finish(flow.run, how.state, result, error, self._clock.now()):
            await self._up(flow, how.state, todo, result)

    async def _result_of(self, flow: Flow, graph: Graph, ends: Mapping[str, End]) -> str | None:
        """What the steps came to that nothing comes after, by their names."""
        last = [name for name in leaves(graph) if ends[name].state is State.SUCCEEDED]
        ids = {step_id(flow.run, graph.place[name]): name for name in last}
        texts = {ids[id]: text for id, text in (await self._flows.results(list(ids))).items() if text is not None}
        if not texts:
            return None
        text = "{" + ",".join(f"{dumps(name)}:{texts[name]}" for name in last if name in texts) + "}"
        return text if len(text) <= LARGEST_RESULT else dumps({REFERENCE: execution_text(flow.run)})

    async def _stop(self, flow: Flow, todo: _Round) -> None:
        """Somebody asked the run to stop: nothing new begins, what is live is asked to stop, and then it is cancelled."""
        if await self._cancel_live(flow):
            return
        if await self._flows.finish(flow.run, State.CANCELLED, None, dumps({"reason": "cancelled"}), self._clock.now()):
            await self._up(flow, State.CANCELLED, todo)

    async def _cancel_live(self, flow: Flow) -> bool:
        """Whether something still runs after everything was asked to stop."""
        while live := await self._flows.live_steps(flow.run, AT_ONCE):
            stands = await self._cancels.cancel(flow.tenant, live, "workflow", self._clock.now(), STOP_GRACE)
            running = [id for id in live if stands.get(id) is State.RUNNING]
            for id in running:
                # A mapped step, or a run within this one, has nobody who stops it but us.
                inner = await self._flows.flow(id)
                if inner is not None:
                    todo = _Round()
                    todo.note(inner._replace(is_cancelled=True))
                    await self._go_on(todo)
            if running:
                await self._transport.announce_cancel()
            if len(running) == len(live):
                break
        return bool(await self._flows.live_steps(flow.run, 1))

    # ------------------------------------------------------------ waiting for somebody

    async def hear(self, run: ExecutionId) -> None:
        """Signals that are there release the steps that wait for them."""
        flow = await self._flows.flow(run)
        if flow is None:
            return
        there = {signal.name: signal for signal in await self._flows.signals(run)}
        for wait in await self._flows.waits(run):
            signal = there.get(wait.name) if wait.reason == BY_SIGNAL else None
            if signal is not None:
                await self.release(wait.id, await self.step_of(flow, wait.id), signal.payload)

    async def step_of(self, flow: Flow, id: ExecutionId) -> Step:
        """Which step of a run has this id."""
        graph = (await self.reader.plan(flow.job_version)).graph
        return next(step for place, step in enumerate(graph.steps) if step_id(flow.run, place) == id)

    async def release(self, id: ExecutionId, step: Step, result: str | None, *, deed: Deed | None = None) -> bool:
        """A step need not wait any more: it is ready, or done if it only waited."""
        state = State.SUCCEEDED if step.only_waits else None
        if not await self._flows.settle_wait(id, state, result, None, self._clock.now(), deed=deed):
            return False
        if state is None:
            await self._transport.announce([])
        else:
            await self.hand_over([id])
        return True

    async def refuse(self, id: ExecutionId, error: Mapping[str, Any], state: State = State.CANCELLED, *, deed: Deed | None = None) -> bool:
        """A step will not get what it waits for."""
        if not await self._flows.settle_wait(id, state, None, dumps(dict(error)), self._clock.now(), deed=deed):
            return False
        await self.hand_over([id])
        return True

    async def _time_out(self, wait: Wait) -> None:
        flow = await self._flows.flow(wait.run)
        if flow is None:
            await self.refuse(wait.id, {"reason": "cancelled"})
            return
        step = await self.step_of(flow, wait.id)
        held = step.approval or step.signal
        if held is not None and held.on_timeout is OnTimeout.CONTINUE:
            await self.release(wait.id, step, None)
        else:
            what = "approval" if step.approval is not None else "signal"
            await self.refuse(wait.id, {"type": "TimedOut", "message": f"no {what} came in time", "reason": "timeout"}, State.DEAD)


def _has_items(end: End | None) -> bool:
    return end is not None and isinstance(end.result, list) and bool(end.result)
