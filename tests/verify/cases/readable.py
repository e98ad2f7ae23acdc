"""I0: what cannot be read."""

from __future__ import annotations

from duly.verify.history import History
from tests.verify.cases.told import MICRO, breaks, every_ten
from tests.verify.histories import Story


@breaks("I0")
def numbers_go_back(story: Story, bad: bool) -> None:
    every_ten(story)

    def swap(history: History) -> None:
        history.events[7].seq, history.events[8].seq = history.events[8].seq, history.events[7].seq

    if bad:
        story.twist = swap


@breaks("I0")
def there_is_no_final_read(story: Story, bad: bool) -> None:
    every_ten(story)

    def forget(history: History) -> None:
        history.final = None

    if bad:
        story.twist = forget


@breaks("I0")
def a_fault_is_never_healed(story: Story, bad: bool) -> None:
    every_ten(story)
    story.fault("kill", 5, None if bad else 6, "node-1")


@breaks("I0")
def a_run_was_never_created(story: Story, bad: bool) -> None:
    every_ten(story)
    story.event("run.ready", 3, run="run_ghost" if bad else "run_a_50", attempt=1)
    if not bad:
        story.events.pop()


@breaks("I0")
def a_handler_ran_without_a_lease(story: Story, bad: bool) -> None:
    every_ten(story)
    last = story.told[-1]
    last._effect("effect", 50.3, accepted=False, fence=9 if bad else last.fence)


@breaks("I0")
def the_final_read_says_otherwise(story: Story, bad: bool) -> None:
    every_ten(story)
    story.told[1].state = "DEAD" if bad else "SUCCEEDED"


@breaks("I0")
def an_answer_comes_before_its_request(story: Story, bad: bool) -> None:
    job = every_ten(story)
    story.call("job.read", 30, took=-MICRO if bad else 0, job=job)


@breaks("I0")
def nothing_was_asked(story: Story, bad: bool) -> None:
    every_ten(story)
    if bad:
        story.calls.clear()
