"""Who runs something, and how soon: what a job and each step of a workflow have in common."""

from __future__ import annotations

from dataclasses import dataclass, field

from duly.domain.choices import Priority as Priority
from duly.domain.instants import HOUR, MINUTE, Micros

SHELL_HANDLER = "duly.shell"
HTTP_HANDLER = "duly.http"
# Nobody offers it: what stands in this queue is taken by the conductor.
WORKFLOW_HANDLER = "duly.workflow"


HEAD_STARTS: dict[Priority, Micros] = {
    Priority.CRITICAL: HOUR,
    Priority.HIGH: 5 * MINUTE,
    Priority.NORMAL: 0,
    Priority.LOW: -5 * MINUTE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """A webhook: what is sent when the job runs."""

    url: str
    method: str = "POST"
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Who runs it: a pool, the labels a worker must have, and a handler, a webhook or an argv."""

    pool: str = "default"
    requires: dict[str, str] = field(default_factory=dict)
    handler: str | None = None
    http: HttpCall | None = None
    shell: tuple[str, ...] | None = None
    # What the command finds in its environment, beside what every command gets.
    env: dict[str, str] = field(default_factory=dict)

    @property
    def handler_name(self) -> str:
        """The name a worker must offer to run it."""
        if self.handler is not None:
            return self.handler
        return HTTP_HANDLER if self.http is not None else SHELL_HANDLER
