"""The trace in which the caller is, if it has one."""

from __future__ import annotations

import sys

from duly.ports.traces import carried


def current_traceparent() -> str | None:
    """That of the caller's own span, when the application uses OpenTelemetry; else that of the attempt in which it runs.

    The library is looked for among what is imported already: who does not use it pays for one look into a table.
    """
    library = sys.modules.get("opentelemetry.trace")
    if library is None:
        return carried()
    own = library.get_current_span().get_span_context()
    return f"00-{own.trace_id:032x}-{own.span_id:016x}-{int(own.trace_flags):02x}" if own.is_valid else carried()
