"""All questions, in the order in which they are asked."""

from __future__ import annotations

from benchmarks import audit, cost, drain, failover, fairness, fires, flow, herd, latency, pinned, rules, submit, telemetry, workflows

QUESTIONS = {
    module.QUESTION.name: module.QUESTION
    for module in (drain, flow, pinned, latency, herd, fires, submit, failover, cost, fairness, audit, telemetry, rules, workflows)
}
