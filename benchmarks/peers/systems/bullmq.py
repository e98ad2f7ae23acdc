"""BullMQ: Node on Redis."""

from __future__ import annotations

from benchmarks.peers.system import OnNode, OnRedis, Setting


class Bullmq(OnNode, OnRedis):
    """A second process made it slower on two cores."""

    name = module = "bullmq"
    title = "BullMQ"
    package = "bullmq"
    default = Setting(name="default", about=2_500)
    best = Setting(name="concurrency 100", about=13_000, options={"CONCURRENCY": "100"})
    prompt = Setting(name="concurrency 10", about=8_000, options={"CONCURRENCY": "10"})
    keys = ("bull:noop:wait", "bull:noop:active", "bull:noop:delayed", "bull:noop:prioritized")
