"""A scheduler that cannot be wrong, because it only tells stories: it writes random lawful histories."""

from __future__ import annotations

import random

from duly.verify.history import History
from tests.verify.histories import Story, Told, text


def lawful(seed: int) -> History:
    """Some jobs of every simple kind, with failures, lost workers and zombies, all of it as it should be."""
    chance = random.Random(seed)
    story = Story(seconds=240)
    story.actor = "node-1"
    for nth in range(chance.randint(1, 4)):
        _job(story, chance, f"j{nth}")
    if chance.random() < 0.5:
        story.fault("kill", 30, 40, "node-2")
    return story.history()


def _job(story: Story, chance: random.Random, name: str) -> None:
    retry = {"maxAttempts": 3, "backoff": "FIXED", "initialDelayMs": 2000, "jitter": 0}
    match chance.randrange(4):
        case 0:
            every = chance.choice((15, 20, 40))
            job = story.job(name, intervalSec=every, anchorAt=text(0), endAt=text(150), retryPolicy=retry)
            times = range(every, 151, every)
        case 1:
            job = story.job(name, schedule="* * * * *", timezone="Asia/Kathmandu", endAt=text(150), retryPolicy=retry)
            times = range(60, 151, 60)
        case 2:
            job = story.job(name, schedule="*/20 * * * * *", seconds=True, endAt=text(150), retryPolicy=retry)
            times = range(20, 151, 20)
        case _:
            at = chance.randint(5, 100)
            job = story.job(name, runAt=text(at), retryPolicy=retry)
            times = range(at, at + 1)
    for nominal in times:
        _run(story.fire(job, nominal), chance, nominal + 0.02)
    for nth in range(chance.randint(0, 3)):
        when = chance.uniform(1, 150)
        run = f"run_{name}_asked_{nth}"
        story.call("run.enqueue", when, job=job, runs=[run])
        _run(story.fire(job, when, when, run=run, trigger=1), chance, when)


def _run(told: Told, chance: random.Random, when: float) -> None:
    """Ready at once; then it may fail, lose its worker, or come back as a zombie, before it succeeds."""
    told.ready(when)
    when += chance.uniform(0.01, 0.9)
    told.grant(when, worker=1).start(when)
    match chance.randrange(5):
        case 0:
            told.end(when + 0.3).fails(when + 0.3, retry=when + 2.3).ready(when + 2.4).grant(when + 2.5, worker=2).start(when + 2.5)
            when += 2.5
        case 1:
            old = told.fence
            told.lost(when + 20, retry=when + 21).ready(when + 21).grant(when + 21.1, worker=2).start(when + 21.1)
            told.sink(when + 22)
            told.sink(when + 22.5, fence=old, accepted=False)
            told.end(when + 23).ends(when + 23)
            return
        case _:
            pass
    finish = when + chance.uniform(0.1, 3)
    told.sink(finish).end(finish).ends(finish)
