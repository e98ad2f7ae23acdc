"""The fenced sink: whoever comes with a lower fence comes too late."""

from __future__ import annotations

import asyncio
from pathlib import Path

from duly.verify import sink
from duly.verify.history import Effect, read_lines


def effect(run: str, fence: int) -> Effect:
    return Effect(phase="effect", at=0, job="job_1", run=run, attempt=1, fence=fence, nominal=0)


async def test_a_lower_fence_is_refused_and_every_verdict_is_on_the_disk(tmp_path: Path) -> None:
    log = tmp_path / "sink.jsonl"
    kept = sink.Sink(log)
    server = await sink.serve(kept)
    port = server.sockets[0].getsockname()[1]

    sent = [("run_a", 5), ("run_a", 5), ("run_b", 1), ("run_a", 9), ("run_a", 5)]
    verdicts = [await asyncio.to_thread(sink.send, port, effect(run, fence)) for run, fence in sent]
    server.close()
    kept.close()

    assert verdicts == [True, True, True, True, False]
    logged = read_lines(log.read_text(), Effect)
    assert [(entry.run, entry.fence, entry.accepted) for entry in logged] == [
        (run, fence, verdict) for (run, fence), verdict in zip(sent, verdicts, strict=True)
    ]
    assert all(entry.at > 0 for entry in logged)
